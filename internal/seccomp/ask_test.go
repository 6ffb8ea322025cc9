package seccomp

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/must"
)

// TestAskAgreesWithDecide: with all arguments given, what is asked is what is
// decided. With some left open, whatever they turn out to be is among the rulings, and
// one that is said to be sure is what is decided then.
func TestAskAgreesWithDecide(t *testing.T) {
	open, single := 0, 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		tab := tables[r.IntN(2)]
		names := tab.Calls()[:20]
		f := &Filter{policy: random(r, names, 1+r.IntN(12)), table: tab, action: actions[r.IntN(len(actions))]}
		name := names[r.IntN(len(names))]
		all := f.policy.classes(name)
		args := all[r.IntN(len(all))]
		var words Arguments
		for i := range args {
			words = append(words, fmt.Sprintf("%#x", args[i]))
		}
		want := f.policy.Decide(name, args)
		got, err := f.Ask(name, words, false)
		if err != nil || len(got) != 1 || !got[0].Sure || got[0].Rule != want.Rule || got[0].Effect != want.Under(f.action) {
			t.Fatalf("seed %d: %s%v is %+v, %v; decided: %+v", seed, name, words, got, err, want)
		}
		for i := range words {
			if r.IntN(2) == 0 {
				words[i] = "_"
			}
		}
		got, err = f.Ask(name, words, false)
		must.Do(t, err)
		if open++; len(got) == 1 {
			single++
		}
		effect := want.Under(f.action)
		if !slices.ContainsFunc(got, func(g Ruling) bool { return g.Effect == effect }) || len(got) == 1 && !got[0].Sure {
			t.Fatalf("seed %d: %s%v can't be %s: %+v", seed, name, words, effect, got)
		}
		if got[0].Passes != (got[0].Effect == "allow" || got[0].Effect == "log") {
			t.Fatalf("%+v", got[0])
		}
	}
	if single == 0 || single == open {
		t.Errorf("%d of %d questions had one answer", single, open)
	}
}

func TestAskAboutShippedPolicies(t *testing.T) {
	f := compileBuiltin(t, "default", ActionErrno, "amd64")
	for _, c := range []struct {
		asked     string
		listening bool
		want      string // the effects, in order
	}{
		{"read", true, "allow"},
		{"socket,AF_PACKET", true, "errno EPERM"},
		{"socket,AF_UNIX,SOCK_STREAM", true, "allow"},
		{"bpf", true, "errno EPERM"},
		{"unshare,CLONE_NEWUSER|CLONE_NEWNS", true, "errno EPERM"},
		{"seccomp,1,8", true, "errno EBUSY"},
		{"seccomp,1,8", false, "allow"},
		{"seccomp,1,0", true, "allow"},
		{"seccomp", true, "errno EBUSY allow"},
		{"seccomp", false, "allow"},
	} {
		words := strings.Split(c.asked, ",")
		all, err := f.Ask(words[0], words[1:], c.listening)
		if err != nil {
			t.Errorf("%s: %v", c.asked, err)
			continue
		}
		var got []string
		for _, r := range all {
			got = append(got, r.Effect)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", c.asked, got, c.want)
		}
	}
	for _, bad := range []string{"sokcet", "socket,AF_PACKE", "read,1,2,3,4,5,6,7", ""} {
		words := strings.Split(bad, ",")
		if _, err := f.Ask(words[0], words[1:], true); err == nil {
			t.Errorf("%s is answered", bad)
		}
	}
}
