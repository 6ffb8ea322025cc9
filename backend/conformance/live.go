package conformance

import (
	"errors"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

func (s suite) usage(t *testing.T) {
	box := s.open(t)
	idle, _ := s.start(t, box, nil, "sleep")
	busy, out := s.start(t, box, nil, "flood")
	for len(out.String()) < 1000 {
		time.Sleep(time.Millisecond)
	}
	var of [2]backend.Usage
	for end := time.Now().Add(20 * time.Second); of[0].CPU < 50*time.Millisecond || of[0].CPU <= of[1].CPU; time.Sleep(50 * time.Millisecond) {
		for i, p := range []backend.Process{busy, idle} {
			u, err := p.Usage()
			must.Do(t, err)
			of[i] = u
		}
		if time.Now().After(end) {
			t.Fatalf("who never stops has used %+v", of[0])
		}
	}
	if of[1].CPU >= of[0].CPU || of[1].CPU < 0 {
		t.Errorf("who sleeps has used %v of CPU, and its neighbour %v", of[1].CPU, of[0].CPU)
	}
	for _, u := range of {
		if u.Memory < 1 || u.Tasks < 1 || u.Scratch != -1 {
			t.Errorf("a process uses %+v", u)
		}
	}
	all, err := box.Usage()
	if err != nil || all.CPU < of[0].CPU-20*time.Millisecond || all.Tasks < of[0].Tasks+of[1].Tasks || all.Memory < 1 || all.Scratch < -1 {
		t.Errorf("the sandbox uses %+v, %v", all, err)
	}
	for _, p := range []backend.Process{busy, idle} {
		_ = p.Signal(os.Kill)
		p.Wait()
		if _, err := p.Usage(); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("usage of what has ended: %v", err)
		}
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) { // an answer may be of a moment before
		later, err := box.Usage()
		if err != nil || later.CPU < all.CPU {
			t.Fatalf("afterwards it uses %+v, %v; before, %+v", later, err, all)
		}
		if later.Tasks < all.Tasks {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("who has ended still counts: %+v; before, %+v", later, all)
		}
	}
	sole, err := backend.Run(t.Context(), s.Backend, s.spec(t), &backend.Exec{Argv: s.Program("sleep")})
	must.Do(t, err)
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if u, err := sole.Usage(); err != nil || u.CPU < 0 {
			t.Fatalf("a run uses %+v, %v", u, err)
		} else if u.Tasks > 0 {
			break // it is no longer being started
		}
		if time.Now().After(end) {
			t.Fatal("a run uses nothing")
		}
	}
	_ = sole.Signal(os.Kill)
	sole.Wait()
	if _, err := sole.Usage(); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("usage of a run that has ended: %v", err)
	}
	_, _ = box.Close()
	if _, err := box.Usage(); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("usage of a sandbox that has ended: %v", err)
	}
}

func (s suite) events(t *testing.T) {
	box := s.open(t)
	var mu sync.Mutex
	told := map[string][]string{}
	tell := func(who string) func(backend.Event) {
		return func(e backend.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Denied != nil {
				told[who] = append(told[who], e.Denied.Kind)
			}
			if e.Limit != "" {
				told[who] = append(told[who], string(e.Limit))
			}
		}
	}
	neighbour, _ := s.start(t, box, &backend.Exec{Tell: tell("neighbour")}, "sleep")
	p, _ := s.start(t, box, &backend.Exec{Tell: tell("slow"), Limits: backend.Limits{Time: 100 * time.Millisecond}}, "sleep")
	p.Wait()
	p, out := s.start(t, box, &backend.Exec{Tell: tell("bad")}, "denied")
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		mu.Lock()
		heard := len(told["bad"])
		mu.Unlock()
		if heard > 0 {
			break // and it goes on
		}
		if time.Now().After(end) {
			t.Fatalf("nothing is told; it wrote %q", out.String())
		}
	}
	_ = p.Signal(os.Kill)
	r := p.Wait()
	if len(r.Violations) == 0 {
		t.Errorf("what was told isn't in the report: %+v", r.Violations)
	}
	_ = neighbour.Signal(os.Kill)
	if r := neighbour.Wait(); len(r.Violations)+len(r.LimitsHit) > 0 {
		t.Errorf("what another did is in the report: %+v, %q", r.Violations, r.LimitsHit)
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(told["slow"], []string{string(status.WallTime)}) || told["bad"][0] != "syscall" || len(told["neighbour"]) > 0 {
		t.Errorf("told: %q", told)
	}
}

func (s suite) network(t *testing.T) {
	spec := s.spec(t)
	spec.Policy.Network.Allow, spec.Policy.Network.Deny = []string{"*"}, []string{"*"}
	box := Open(t, s.Backend, spec)
	digest := func() string {
		p, _ := s.start(t, box, nil, "exit", "0")
		return p.Wait().PolicyDigest
	}
	is := func(n config.Network) string {
		p := *spec.Policy
		p.Network = n
		return p.Digest()
	}
	was := spec.Policy.Network
	if got := digest(); got != is(was) {
		t.Errorf("at first, the digest is %s, want %s", got, is(was))
	}
	for name, change := range map[string]func(n *config.Network){
		"the caller's network": func(n *config.Network) { n.All = true },
		"published ports":      func(n *config.Network) { n.Publish = []string{"18080:80"} },
		"no word":              func(n *config.Network) { n.Allow = []string{"a b"} },
	} {
		n := was
		change(&n)
		var usage *config.UsageError
		if err := box.Network(t.Context(), &n); !errors.As(err, &usage) {
			t.Errorf("%s: %v", name, err)
		}
		if got := digest(); got != is(was) {
			t.Errorf("%s: it was refused, and something has changed", name)
		}
	}
	n := was
	n.Allow, n.Deny = []string{"example.com:443"}, nil
	must.Do(t, box.Network(t.Context(), &n))
	if got := digest(); got != is(n) {
		t.Errorf("afterwards, the digest is %s, want %s", got, is(n))
	}
	if r, err := box.Close(); err != nil || r.PolicyDigest != is(n) {
		t.Errorf("at the end, the digest is %s, want %s; %v", r.PolicyDigest, is(n), err)
	}
	if err := box.Network(t.Context(), &n); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("of a sandbox that has ended: %v", err)
	}
}
