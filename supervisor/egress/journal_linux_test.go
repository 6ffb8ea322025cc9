package egress

import (
	"fmt"
	"testing"

	"github.com/confine-run/confine/status"
)

func TestJournalKeepsTheSameTogether(t *testing.T) {
	var told []status.Attempt
	g := gateway(t, anyone, nil)
	g.log.tell = func(a status.Attempt) { told = append(told, a) }
	asked := 0
	who := func() (int, string) { asked++; return 7, "curl" }
	for i := range 5 {
		g.log.add(status.Attempt{Protocol: "tcp", What: "a.test:80", Verdict: "allowed", SentBytes: 10, ReceivedBytes: int64(i)}, who)
	}
	g.log.add(status.Attempt{Protocol: "udp", What: "a.test:80", Verdict: "allowed"}, nil)
	g.log.add(status.Attempt{Protocol: "tcp", What: "a.test:80", Verdict: "blocked", Why: whyHost}, who)
	g.log.add(status.Attempt{Protocol: "tcp", What: "a.test:80", Verdict: "blocked", Why: whyServerName}, who)
	s := g.Summary()
	if len(s.Attempts) != 4 || s.Total != 8 || s.Others != 0 || s.Sent != 50 || s.Received != 10 || s.Exhausted {
		t.Fatalf("%+v", s)
	}
	for _, a := range s.Attempts {
		switch {
		case a.Verdict == "allowed" && a.Protocol == "tcp":
			if a.Count != 5 || a.SentBytes != 50 || a.ReceivedBytes != 10 || a.PID != 7 || a.Comm != "curl" {
				t.Errorf("%+v", a)
			}
		case a.Count != 1:
			t.Errorf("%+v", a)
		}
	}
	if len(told) != 4 || asked != 3 || told[0].Count != 1 || told[0].PID != 7 {
		t.Errorf("told %d times, looked for %d processes: %+v", len(told), asked, told)
	}
}

func TestJournalIsBounded(t *testing.T) {
	told := 0
	g := gateway(t, anyone, nil)
	g.log.tell = func(status.Attempt) { told++ }
	const more = 500
	for i := range maxAttempts + more {
		g.log.add(status.Attempt{Protocol: "dns", What: fmt.Sprint(i, ".test"), Verdict: "blocked", SentBytes: 1}, func() (int, string) {
			if i >= maxAttempts {
				t.Error("a process is looked for in vain")
			}
			return 0, ""
		})
	}
	g.log.add(status.Attempt{Protocol: "dns", What: "0.test", Verdict: "blocked"}, nil)
	s := g.Summary()
	if len(s.Attempts) != maxAttempts || s.Others != more || s.Total != maxAttempts+more+1 || s.Sent != maxAttempts+more || told != maxAttempts {
		t.Errorf("%d kinds, %d others, %d in all, %d bytes, told %d times", len(s.Attempts), s.Others, s.Total, s.Sent, told)
	}
}

func TestJournalKnowsThatALimitWasReached(t *testing.T) {
	for why, want := range map[string]bool{whyBytes: true, whyConnections: true, whyHost: false, whyUnreachable: false} {
		g := gateway(t, anyone, nil)
		g.log.add(status.Attempt{What: "a.test:80", Verdict: "blocked", Why: why}, nil)
		if s := g.Summary(); s.Exhausted != want {
			t.Errorf("%s: %v", why, s.Exhausted)
		}
	}
}
