package supervisor

import (
	"testing"

	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/internal/egress"
	"github.com/confine-run/confine/supervisor/outcome"
)

// TestRefusedAmongOthers: what is refused counts, however many kinds there were before.
func TestRefusedAmongOthers(t *testing.T) {
	kept := []status.Attempt{
		{What: "ok.test:1", Protocol: "tcp", Verdict: status.AttemptFailed, Count: 7},
		{What: "ok.test:2", Protocol: "tcp", Verdict: status.AttemptAllowed, Count: 9},
	}
	blocked := status.Attempt{What: "evil.test", Protocol: "dns", Verdict: status.AttemptBlocked, Count: 2}
	for _, c := range []struct {
		name    string
		summary egress.Summary
		status  status.Status
		times   int64
		what    []string
	}{
		{"allowed alone", egress.Summary{Attempts: kept, Others: 5}, status.Failed, 0, nil},
		{"kept alone", egress.Summary{Attempts: append(kept, blocked)}, status.SandboxDenied, 2, []string{"evil.test"}},
		{"others alone", egress.Summary{Attempts: kept, Others: 5, OthersRefused: 3}, status.SandboxDenied, 3, []string{"other hosts"}},
		{"both", egress.Summary{Attempts: append(kept, blocked), Others: 5, OthersRefused: 3}, status.SandboxDenied, 5, []string{"evil.test", "other hosts"}},
	} {
		n := network{summary: &c.summary}
		o := outcome.Outcome{Waited: true, Ended: exited(3), Refused: n.refused()}
		if v := o.Verdict(); o.Refused != c.times || v.Status != c.status {
			t.Errorf("%s: %s after %d; want %s after %d", c.name, v.Status, o.Refused, c.status, c.times)
		}
		list := n.violations()
		if len(list) != len(c.what) {
			t.Fatalf("%s: %+v", c.name, list)
		}
		var sum int64
		for i, v := range list {
			if v.Kind != "network" || v.What != c.what[i] {
				t.Errorf("%s: %+v, want %s", c.name, v, c.what[i])
			}
			sum += v.Count
		}
		if sum != c.times {
			t.Errorf("%s: the violations add up to %d, want %d", c.name, sum, c.times)
		}
		if r := n.report(); r.Others != c.summary.Others {
			t.Errorf("%s: %d others in the report, want %d", c.name, r.Others, c.summary.Others)
		}
	}
}
