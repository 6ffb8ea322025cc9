package main

import (
	"net"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/must"
)

func TestChosen(t *testing.T) {
	if all, err := chosen(nil); err != nil || len(all) != len(measurements) {
		t.Errorf("all: %d, %v", len(all), err)
	}
	if one, err := chosen([]string{"memory"}); err != nil || len(one) != 1 || one[0].name != "memory" {
		t.Errorf("one: %v, %v", one, err)
	}
	if _, err := chosen([]string{"speed"}); err == nil || !strings.Contains(err.Error(), "start") {
		t.Errorf("an unknown name: %v", err)
	}
}

func TestAimsAreJudged(t *testing.T) {
	for name, c := range map[string]struct {
		aim
		all  []series
		want answer
	}{
		"at the bound":          {aim{of: "confine", bound: atMost(1.25)}, []series{made("base", 1), made("confine", 1.25)}, answer{"1.25 ×", met}},
		"above it":              {aim{of: "confine", bound: atMost(1.25)}, []series{made("base", 1), made("confine", 1.26)}, answer{"1.26 ×", missed}},
		"below a least":         {aim{of: "confine", bound: atLeast(0.65)}, []series{made("base", 1), made("confine", 0.5)}, answer{"0.50 ×", missed}},
		"by the difference":     {aim{of: "confine", kind: extra, bound: atMost(10)}, []series{made("base", 50), made("confine", 61)}, answer{"+11.0 ns", missed}},
		"by itself":             {aim{of: "confine", kind: itself, bound: atMost(6)}, []series{made("confine", 5)}, answer{"5.00 ns", met}},
		"without an aim":        {aim{of: "confine", goal: "–"}, []series{made("base", 1), made("confine", 9)}, answer{"9.00 ×", noAim}},
		"the base is missing":   {aim{of: "confine", bound: atMost(1)}, []series{made("confine", 1)}, answer{"a peer is missing", absent}},
		"behind a rival":        {aim{of: "confine", bound: atLeast(0.65), rival: "pasta"}, []series{made("base", 1), made("confine", 0.7), made("pasta", 1)}, answer{"0.70 ×, 0.70 × pasta", missed}},
		"slower than a rival":   {aim{of: "confine", bound: atMost(2), rival: "pasta"}, []series{made("base", 1), made("confine", 2), made("pasta", 1)}, answer{"2.00 ×, 2.00 × pasta", missed}},
		"ahead of a slow rival": {aim{of: "confine", bound: atMost(2), rival: "pasta"}, []series{made("base", 1), made("confine", 1), made("pasta", 2)}, answer{"1.00 ×, 0.50 × pasta", met}},
	} {
		m := measurement{unit: "ns", base: "base", aims: []aim{c.aim}}
		if got := m.judge(c.all); got[0] != c.want {
			t.Errorf("%s: %v, want %v", name, got[0], c.want)
		}
	}
}

func TestMountsInBwrapsWords(t *testing.T) {
	for _, c := range []struct{ path, access, want string }{
		{"/usr", "read", "--ro-bind /usr /usr"},
		{"/tmp", "private", "--tmpfs /tmp"},
		{"/proc", "read", ""},
		{"/proc/self", "hidden", "--tmpfs /proc/self"},
		{"/proc/cpuinfo", "hidden", "--ro-bind /dev/null /proc/cpuinfo"},
		{"/not there", "read", ""},
	} {
		if got := strings.Join(bwrapMount(c.path, c.access), " "); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.path, c.access, got, c.want)
		}
	}
}

// Every question is answered by a server on loopback, with a figure above 0; a server
// that isn't there is an error for all of them.
func TestFlows(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must.Do(t, err)
	go accept(l)
	to := client(l.Addr().String())
	numbers := map[string]int{"up": 1 << 20, "down": 1 << 20, "latency": 3, "connect": 2}
	for word, n := range numbers {
		if got, err := figures[word](to, n); err != nil || got <= 0 {
			t.Errorf("%s: %v, %v", word, got, err)
		}
	}
	if err := to.hold(5); err != nil || len(held) != 5 {
		t.Errorf("%d held, %v", len(held), err)
	}
	_ = l.Close()
	for word, n := range numbers {
		if got, err := figures[word](to, n); err == nil {
			t.Errorf("%s with no server: %v", word, got)
		}
	}
}

func made(name string, values ...float64) series {
	s := series{name: name}
	for _, v := range values {
		s.readings = append(s.readings, reading{value: v})
	}
	return s
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		name string
		in   []float64
		want float64
	}{
		{"one", []float64{3}, 3},
		{"odd, not in order", []float64{9, 1, 5}, 5},
		{"even is the mean of the middle", []float64{8, 1, 2, 4}, 3},
	} {
		if got := median(c.in); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestRatioIsTakenWithinEachRound(t *testing.T) {
	// A host that gets slower and slower: the medians alone would say 4/2.
	base, s := made("base", 1, 2, 100), made("s", 3, 4, 110)
	if got := ratio(&s, &base); got != 2 {
		t.Errorf("ratio %v, want 2", got)
	}
	if got := difference(&s, &base); got != 2 {
		t.Errorf("difference %v, want 2", got)
	}
	if got := s.values(); got != (spread{4, 3, 110}) {
		t.Errorf("%v", got)
	}
}
