package supervisor

import (
	"slices"
	"testing"

	"github.com/confine-run/confine/status"
)

// TestWhatIsNobodysIsTheSandboxs: an attempt of which no process is known is told of the sandbox, a limit of the sandbox to everybody who runs, once.
func TestWhatIsNobodysIsTheSandboxs(t *testing.T) {
	told := map[string][]string{}
	c := &crowd{jobs: map[int]*job{}, limits: map[status.Capability]bool{}}
	of := func(who string, number int) *job {
		return &job{box: &box{crowd: c}, number: number, mine: &mine{limits: map[status.Capability]bool{}}, opts: &Options{Events: Events{
			Denied:   func(v status.Violation) { told[who] = append(told[who], v.What) },
			LimitHit: func(c status.Capability) { told[who] = append(told[who], string(c)) },
		}}}
	}
	c.tellDenied = func(v status.Violation) { told["sandbox"] = append(told["sandbox"], v.What) }
	c.tellLimit = func(l status.Capability) { told["sandbox"] = append(told["sandbox"], string(l)) }
	first, second := of("first", 5), of("second", 6)
	c.enter(first)
	c.attempted(status.Attempt{What: "allowed.test:1", Verdict: status.AttemptAllowed})
	c.attempted(status.Attempt{What: "evil.test:1", Verdict: status.AttemptBlocked})
	c.attempted(status.Attempt{What: "later.test:1", Verdict: status.AttemptBlocked, PID: 99})
	c.limit(status.Tasks)
	c.limit(status.Tasks)
	c.enter(second)
	c.limit(status.Tasks) // again, now that another runs
	c.leave(first)
	c.limit(status.Disk)
	for who, want := range map[string][]string{"first": {"tasks"}, "second": {"tasks", "disk"}, "sandbox": {"evil.test:1", "later.test:1", "tasks", "disk"}} {
		if !slices.Equal(told[who], want) {
			t.Errorf("%s is told %q, want %q", who, told[who], want)
		}
	}
	if got := second.mine.limitsOf(second); len(got) != 2 {
		t.Errorf("in the report of the second: %q", got)
	}
	if got := first.mine.limitsOf(first); len(got) != 1 {
		t.Errorf("in the report of the first: %q", got)
	}
}
