package process

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/landlock"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

// plannedWith is a plan for a tier, and a kernel with this version of Landlock.
func plannedWith(t *testing.T, on tier, abi int, profile string, change func(*config.Policy)) (*Plan, error) {
	t.Helper()
	policy, err := config.Profile(profile)
	must.Do(t, err)
	if change != nil {
		change(&policy)
	}
	command := &Command{Argv: []string{"true"}, Dir: t.TempDir(), Environ: []string{"PATH=/usr/bin:/bin", "HOME=/nonexistent"}}
	must.Do(t, command.fill())
	why := downgrade{}
	if on != tierUserNS {
		why.reason = status.UsernsDenied
	}
	p := newPlanner(&policy, command, on, why)
	p.landlock = abi
	return p.make(func(*Plan) groups { return noGroupWithoutNS(&policy) })
}

func partly(q *config.Policy) { q.AllowPartial = []string{"all"} }

func TestFileRulesWithoutNamespaces(t *testing.T) {
	for abi := range 10 {
		p, err := plannedWith(t, tierNoNS, abi, "default", partly)
		must.Do(t, err)
		fs, net, l := p.Ledger[status.Filesystem], p.Ledger[status.Network], &p.Box.Landlock
		want := "landlock"
		if abi == 0 {
			want = "none"
		}
		if fs.Mechanism != want || fs.Effective || fs.FallbackReason != status.UsernsDenied || l.None() != (abi == 0) {
			t.Errorf("ABI %d: %+v", abi, fs)
		}
		if (l.HandledNet != 0) != (abi >= 4) || strings.Contains(net.Details, "TCP") != (abi >= 4) || net.Effective {
			t.Errorf("ABI %d: %#x, %+v", abi, l.HandledNet, net)
		}
		if e := p.Ledger[status.Containment]; e.Effective != (abi >= 6) {
			t.Errorf("ABI %d: %+v", abi, e)
		}
		if abi > 0 && !slices.ContainsFunc(l.Rules, func(r handoff.LandlockRule) bool { return r.Path == p.Box.TempDir }) {
			t.Errorf("ABI %d: no rule for %s", abi, p.Box.TempDir)
		}
		if strings.Contains(net.Details, "reached by their path") == (abi >= 9) {
			t.Errorf("ABI %d: %+v", abi, net)
		}
		if (len(p.Rules) > 0) != (abi > 0) {
			t.Errorf("ABI %d: %d rules to be explained", abi, len(p.Rules))
		}
		for _, r := range p.Rules {
			if strings.Contains(r.Path+r.Why, p.Box.TempDir) {
				t.Errorf("ABI %d: %+v is another at each run", abi, r)
			}
		}
	}
}

func TestFileRulesAloneHaveToBeAccepted(t *testing.T) {
	_, err := plannedWith(t, tierNoNS, 7, "default", func(q *config.Policy) { q.AllowPartial = []string{"disk", "files", "tasks", "privileges", "memory"} })
	if cant, ok := errors.AsType[*config.Unenforceable](err); !ok || cant.Capability != status.Filesystem {
		t.Errorf("%v, want a refusal of filesystem", err)
	}
}

func TestTCPWithoutNamespaces(t *testing.T) {
	p, err := plannedWith(t, tierNoNS, 7, "default", func(q *config.Policy) { partly(q); q.Network.All = true })
	if err != nil || p.Box.Landlock.HandledNet != 0 {
		t.Errorf("%v: the caller's network, and %#x", err, p.Box.Landlock.HandledNet)
	}
	p, err = plannedWith(t, tierNoNS, 7, "default", func(q *config.Policy) { partly(q); q.Seccomp = "off" })
	must.Do(t, err)
	if e := p.Ledger[status.Network]; e.Mechanism != "landlock_tcp" || e.Effective {
		t.Errorf("no filter: %+v", e)
	}
}

func TestDeniedFilesOfTheHostAreNotReadInstead(t *testing.T) {
	readable := func(change func(*config.Policy)) bool {
		p, err := plannedWith(t, tierNoNS, 7, "default", func(q *config.Policy) { partly(q); change(q) })
		must.Do(t, err)
		return slices.ContainsFunc(p.Box.Landlock.Rules, func(r handoff.LandlockRule) bool { return r.Path == "/etc/passwd" })
	}
	if !readable(func(*config.Policy) {}) {
		t.Fatal("/etc/passwd can't be read, and nothing denies it")
	}
	for _, pattern := range []string{"/etc/passwd", "/etc", "/etc/pass*", "/etc/**", "/e*/passwd"} {
		if readable(func(q *config.Policy) { q.Filesystem.Deny = []string{pattern} }) {
			t.Errorf("--deny %s: /etc/passwd can be read", pattern)
		}
	}
}

func TestSecondLayer(t *testing.T) {
	for abi := range 10 {
		p, err := plannedWith(t, tierUserNS, abi, "strict", partly)
		must.Do(t, err)
		e, l := p.Ledger[status.Filesystem], &p.Box.Landlock
		held := abi >= landlock.UnderSince
		if e.Mechanism != "mount_namespace" || !e.Effective || (e.FallbackReason == status.LandlockMissing) == held || (l.HandledFS != 0) != held ||
			!strings.Contains(e.Details, "Landlock below it") {
			t.Errorf("ABI %d: %+v, %#x", abi, e, l.HandledFS)
		}
		if (l.HandledNet != 0) != (abi >= 4) || (l.Scoped == landlock.ScopeSignals|landlock.ScopeAbstractSockets) != (abi >= 6) {
			t.Errorf("ABI %d: %+v", abi, l)
		}
	}
	// Where sockets are its own, it may talk to itself.
	if p, err := plannedWith(t, tierUserNS, 7, "strict", func(q *config.Policy) { partly(q); q.Seccomp = "default" }); err != nil || p.Box.Landlock.HandledNet != 0 {
		t.Errorf("%v: its own loopback, and %#x", err, p.Box.Landlock.HandledNet)
	}
	for _, profile := range config.Profiles() {
		p, err := plannedWith(t, tierUserNS, 7, profile, partly)
		must.Do(t, err)
		if p.Box.Landlock.None() != (profile != "strict") || p.Ledger[status.Filesystem].FallbackReason != "" {
			t.Errorf("%s: %+v", profile, p.Box.Landlock)
		}
	}
}

// Where the kernel can't keep sockets that come to be later out of reach, that is told.
func TestSocketsMadeLater(t *testing.T) {
	const told = "can be connected to (before Linux 7.1)"
	for _, profile := range []string{"default", "testing", "strict", "development"} {
		for _, abi := range []int{0, 7, 9} {
			p, err := plannedWith(t, tierUserNS, abi, profile, partly)
			must.Do(t, err)
			e, shown := p.Ledger[status.Filesystem], profile == "default" || profile == "development"
			if strings.Contains(e.Details, told) != (shown && abi < 9) || !e.Effective {
				t.Errorf("%s, ABI %d: %+v", profile, abi, e)
			}
			if held := p.Box.Landlock.HandledFS&landlock.ResolveUnix != 0; held != (abi >= 9) {
				t.Errorf("%s, ABI %d: %+v", profile, abi, p.Box.Landlock)
			}
		}
	}
}
