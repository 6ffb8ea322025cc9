package seccomp

import (
	"slices"
	"testing"
)

// What is let through is what default lets through; what is told of that is what strict
// doesn't; and everything else is answered as default answers it.
func TestBeyondStrictIsDefaultWithWhatStrictLacksTold(t *testing.T) {
	for _, with := range [][]Addition{{BeyondStrict}, {BeyondStrict, Network, KeepCPUs}, {BeyondStrict, Network, KeepCPUs, WatchedFiles, WatchedLooks}} {
		for _, tab := range tables {
			f := compileBuiltin(t, "default", ActionErrno, tab.arch, with...)
			if f.Notifying() == nil {
				t.Fatal("it can't be notifying")
			}
			below := withAdditions(t, "default", with[1:]...)
			strict := withAdditions(t, "strict", with[1:]...)
			m := load(t, f.Program)
			counts := map[string]int{}
			f.policy.everyCall(f.table, func(audit, nr uint32, args [6]uint64) {
				ret := m.run(t, audit, nr, args)
				want := below.number(tab, audit, nr, args)
				if _, watched := f.decideUnwatched(audit, nr, args); watched {
					want = below.decideWithout(tab.name(nr), &args, "")
				}
				passes := want.LetsThrough()
				if ret == retAllow || ret == retLog {
					if !passes {
						t.Fatalf("%s %#x: let through, and default says %s", tab.name(nr), args, want)
					}
					counts["allowed"]++
					return
				}
				r := f.Refusal(audit, nr, args, nil)
				beyond := f.table.native(audit, nr) && passes && !strict.decideWithout(tab.name(nr), &args, "").LetsThrough()
				switch {
				case r.Let != beyond || r.Let && (r.Supervised || ret != retErrno|eacces):
					t.Fatalf("%s %#x: %+v, %#x", tab.name(nr), args, r, ret)
				case r.Let:
					counts["told"]++
				case r.Supervised:
					counts["watched"]++
				case r.Kill != (want.ret(ActionErrno) == retKillProcess) || !r.Kill && retErrno|uint32(r.Errno) != want.ret(ActionErrno):
					t.Fatalf("%s %#x: %+v, and default says %s", tab.name(nr), args, r, want)
				default:
					counts["refused"]++
				}
			})
			if counts["allowed"] == 0 || counts["told"] == 0 || counts["refused"] == 0 || (f.policy.watching > 0) != (counts["watched"] > 0) {
				t.Errorf("%v: %v", with, counts)
			}
		}
	}
	for _, p := range []*Policy{Builtin("strict"), withAdditions(t, "default", Network), extending("default")} {
		if _, err := p.With(BeyondStrict); err == nil {
			t.Errorf("it was laid over %s", p.Version)
		}
	}
}

// A narrow rule allows the call that it was made of, and nothing that default doesn't.
func TestNarrow(t *testing.T) {
	rules := 0
	Builtin("default").everyCall(&amd64, func(audit, nr uint32, args [6]uint64) {
		if audit != amd64.audit || amd64.name(nr) == "" {
			return
		}
		name := amd64.name(nr)
		r, ok := Narrow(name, args)
		if want := Builtin("default").Decide(name, args).LetsThrough() && !Builtin("strict").Decide(name, args).LetsThrough(); ok != want {
			t.Fatalf("%s %#x: %v", name, args, ok)
		}
		if !ok {
			return
		}
		rules++
		p := extending("strict", r)
		if v := p.Decide(name, args); !v.LetsThrough() {
			t.Fatalf("%s %#x: %s\n%s", name, args, v, r.TOML())
		}
		if rules%50 != 0 {
			return
		}
		p.everyCall(&amd64, func(audit, nr uint32, args [6]uint64) {
			if v := p.number(&amd64, audit, nr, args); v.LetsThrough() && !Builtin("default").number(&amd64, audit, nr, args).LetsThrough() {
				t.Fatalf("%s %#x goes through by %s\n%s", amd64.name(nr), args, v.Rule, r.TOML())
			}
		})
	})
	if rules == 0 {
		t.Error("none")
	}
	const afNetlink, afInet = 16, 2
	r, _ := Narrow("socket", [6]uint64{afNetlink, 3, 0})
	p := extending("strict", r)
	if !p.Decide("socket", [6]uint64{afNetlink, 3, 0}).LetsThrough() || p.Decide("socket", [6]uint64{afInet, 1, 0}).LetsThrough() {
		t.Error(r.TOML())
	}
	if _, ok := Narrow("ptrace", [6]uint64{}); ok != Builtin("default").Decide("ptrace", [6]uint64{}).LetsThrough() {
		t.Error("ptrace")
	}
	if !slices.Contains(Network.Rules()[0].Calls, "socket") {
		t.Error("the network's rules")
	}
}
