package config

import (
	"errors"
	"reflect"
	"testing"
)

func TestANetworkIsChangedByWhatIsSaid(t *testing.T) {
	was := Network{Allow: []string{"a.example"}, Deny: []string{"b.example"}, Ports: []int{443}, BlockInternal: true, MaxBytes: 1 << 20}
	n, err := was.Change([]Setting{{Option: "allow-network", Values: []string{"C.example:80,d.example"}}, {Option: "allow-network", Values: []string{"e.example"}}, {Option: "deny-network", Values: []string{"none"}}, {Option: "log-network"}})
	want := Network{Allow: []string{"c.example:80", "d.example", "e.example"}, Ports: []int{443}, BlockInternal: true, Log: true, MaxBytes: 1 << 20}
	if err != nil || !reflect.DeepEqual(*n, want) {
		t.Errorf("%+v, %v; want %+v", n, err, want)
	}
	if was.Allow[0] != "a.example" || len(was.Deny) != 1 {
		t.Errorf("the one before is %+v", was)
	}
	if n, err = was.Change([]Setting{{Option: "allow-network", Values: []string{"all"}}}); err != nil || !n.All || len(n.Allow) > 0 {
		t.Errorf("%+v, %v", n, err)
	}
	for _, wrong := range []Setting{{Option: "time-limit", Values: []string{"1s"}}, {Option: "allow-netwrk", Values: []string{"x"}}, {Option: "allow-network", Values: []string{"a b"}}, {Option: "network-bytes"}} {
		var usage *UsageError
		if _, err := was.Change([]Setting{wrong}); !errors.As(err, &usage) {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}

func TestANetworkIsWhatItsSettingsSay(t *testing.T) {
	for _, n := range []Network{{}, {All: true}, {Allow: []string{"a.example", "*.b.example:443"}, Deny: []string{"c.example"}, Ports: []int{1, 2}, BlockInternal: true, Log: true, MaxBytes: 3 << 20, MaxConnections: 7, Publish: []string{"8080:80"}}} {
		var said []Setting
		for _, s := range n.Settings() {
			if len(s.Values) > 0 {
				said = append(said, s)
			}
		}
		got, err := new(Network).Change(said)
		if err != nil || !reflect.DeepEqual(got.Settings(), n.Settings()) {
			t.Errorf("%+v, %v; want %+v", got, err, n)
		}
	}
}
