package process

import (
	"slices"
	"testing"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/must"
)

// TestNothingIsAddedUnasked: without --log-files a run has the filter that it always had,
// and where nobody can listen, also with it.
func TestNothingIsAddedUnasked(t *testing.T) {
	plain := func(change func(*config.Policy, *Command)) *Plan {
		t.Helper()
		policy, command := config.Default(), &Command{Argv: []string{"true"}, Dir: "/"}
		policy.AllowPartial = []string{"all"}
		if change != nil {
			change(&policy, command)
		}
		p, err := NewPlan(&policy, command)
		must.Do(t, err)
		return p
	}
	without := plain(nil)
	if len(without.Exec.SeccompNotify) == 0 {
		t.Skip("nothing is handed on here")
	}
	if without.Exec.SeccompPass != 0 || without.Files.Any() || !slices.Equal(without.Exec.SeccompNotify, without.Seccomp.Notifying()) {
		t.Error("something is watched that nobody asked for")
	}
	for name, change := range map[string]func(*config.Policy, *Command){
		"log":   func(p *config.Policy, _ *Command) { p.Filesystem.Log = true },
		"watch": func(_ *config.Policy, c *Command) { c.WatchFiles = true },
	} {
		with := plain(change)
		if with.Exec.SeccompPass == 0 || !with.Files.Any() || slices.Equal(with.Exec.SeccompNotify, without.Exec.SeccompNotify) {
			t.Errorf("%s: nothing is watched", name)
		}
		if !slices.Equal(with.Exec.Seccomp, without.Exec.Seccomp) || with.Seccomp.Digest != without.Seccomp.Digest {
			t.Errorf("%s: the filter for where nobody listens is another one", name)
		}
		if same := with.policy.Digest() == without.policy.Digest(); same == with.policy.Filesystem.Log {
			t.Errorf("%s: digest of the policy: the same is %v", name, same)
		}
	}
}
