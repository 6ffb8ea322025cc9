package egress

import (
	"fmt"
	"net/netip"
	"runtime"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/network"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/status"
)

// lookUp asks for a name's address, and gives the answer's code.
func lookUp(t *testing.T, g *Gateway, name string) dnsmessage.RCode {
	t.Helper()
	m := dnsmessage.Message{Questions: []dnsmessage.Question{{
		Name: dnsmessage.MustNewName(name), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET,
	}}}
	query, err := m.Pack()
	must.Do(t, err)
	var answer dnsmessage.Message
	must.Do(t, answer.Unpack(g.resolve(&flow{protocol: "udp", pid: 7}, query, false)))
	return answer.RCode
}

// TestADeniedNameIsDenied, as a denied address is, and one that no rule names isn't allowed.
func TestADeniedNameIsDenied(t *testing.T) {
	for _, c := range []struct {
		policy    network.Policy
		name      string
		why, rule string
	}{
		{network.Policy{Allow: []string{"*"}, Deny: []string{"evil.test"}}, "evil.test.", "denied", "deny evil.test"},
		{network.Policy{Allow: []string{"ok.test"}, Deny: []string{"evil.test"}}, "evil.test.", "denied", "deny evil.test"},
		{network.Policy{Allow: []string{"ok.test"}, Deny: []string{"evil.test"}}, "other.test.", "not_allowed", ""},
		{network.Policy{Allow: []string{"*"}, Deny: []string{"evil.test"}}, "a b.evil.test.", "bad_name", ""},
	} {
		g := gateway(t, plan.Network{Rules: rules(c.policy)}, nil)
		lookUp(t, g, c.name)
		s := g.Summary()
		if len(s.Attempts) != 1 || s.Attempts[0].Verdict != status.AttemptBlocked || s.Attempts[0].Why != c.why || s.Attempts[0].Rule != c.rule {
			t.Errorf("%v: %s: %+v; want %s by %q", c.policy, c.name, s.Attempts, c.why, c.rule)
		}
	}
}

// TestCaseMakesNoSecondKind: a target can't fill the journal with one name.
func TestCaseMakesNoSecondKind(t *testing.T) {
	g := gateway(t, anyone, nil)
	const variants = maxAttempts + 76
	for i := range variants {
		name := []byte("abcdefghijk.evil.test.")
		for bit := range 11 {
			if i>>bit&1 == 1 {
				name[bit] -= 'a' - 'A'
			}
		}
		if code := lookUp(t, g, string(name)); code != dnsmessage.RCodeRefused {
			t.Fatalf("%s: %v", name, code)
		}
	}
	lookUp(t, g, "other.evil.test.")
	s := g.Summary()
	if len(s.Attempts) != 2 || s.Others != 0 {
		t.Fatalf("%d kinds, and %d others", len(s.Attempts), s.Others)
	}
	for _, a := range s.Attempts {
		switch {
		case a.What == "abcdefghijk.evil.test" && a.Name == a.What && a.Count == variants:
		case a.What == "other.evil.test" && a.Count == 1:
		default:
			t.Errorf("%+v", a)
		}
	}
}

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

// TestWhatIsRefusedIsCountedAmongOthers: a target can't hide that behind kinds that are allowed.
func TestWhatIsRefusedIsCountedAmongOthers(t *testing.T) {
	g := gateway(t, anyone, nil)
	for i := range maxAttempts {
		g.log.add(status.Attempt{Protocol: "tcp", What: fmt.Sprint("ok.test:", i), Verdict: status.AttemptFailed}, nil)
	}
	if s := g.Summary(); s.Others != 0 || s.OthersRefused != 0 {
		t.Fatalf("%d others, %d of them refused", s.Others, s.OthersRefused)
	}
	for _, verdict := range []string{status.AttemptBlocked, status.AttemptAllowed, status.AttemptFailed, status.AttemptBlocked} {
		g.log.add(status.Attempt{Protocol: "dns", What: "evil.test", Verdict: verdict}, nil)
	}
	if s := g.Summary(); len(s.Attempts) != maxAttempts || s.Others != 4 || s.OthersRefused != 2 {
		t.Errorf("%d kinds, %d others, %d of them refused", len(s.Attempts), s.Others, s.OthersRefused)
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

// TestAProcessIsLookedForOnce of each kind of attempts, however many are under way: a target must not have us search
// all processes as often as it is refused.
func TestAProcessIsLookedForOnce(t *testing.T) {
	for _, verdict := range []string{status.AttemptAllowed, status.AttemptBlocked} {
		var told []status.Attempt
		g := gateway(t, anyone, nil)
		g.log.tell = func(a status.Attempt) { told = append(told, a) }
		p := inside(t, map[string]string{"1/net/tcp": tcp4Table, "7/fd/3": "socket:[1002]", "7/comm": "curl\n"})
		fd, err := unix.FcntlInt(uintptr(p.proc), unix.F_DUPFD_CLOEXEC, 0)
		must.Do(t, err)
		g.Inside(fd)
		first := &flow{protocol: "tcp", from: netip.MustParseAddrPort("198.18.0.2:40001"), to: netip.MustParseAddrPort("192.0.2.1:80")}
		second := &flow{protocol: "tcp", from: netip.MustParseAddrPort("198.18.0.2:8080"), to: first.to}
		g.remember(first, verdict, "")
		g.remember(second, verdict, "")
		if first.pid != 7 || second.pid != 0 {
			t.Errorf("%s: found are %d and %d", verdict, first.pid, second.pid)
		}
		for _, f := range []*flow{second, first, first} { // it ends first
			g.note(f, verdict, "")
		}
		if s := g.Summary(); len(told) != 1 || told[0].PID != 7 || told[0].Comm != "curl" || len(s.Attempts) != 1 || s.Attempts[0].Count != 3 || s.Attempts[0].PID != 7 {
			t.Errorf("%s: told is %+v, %+v", verdict, told, s)
		}
		g.Close()
	}
}

// TestOthersWaitUntilTheProcessIsFound: it may go away as soon as it has an answer.
func TestOthersWaitUntilTheProcessIsFound(t *testing.T) {
	j := journal{kinds: map[key]*kind{}}
	a := status.Attempt{Protocol: "dns", What: "evil.test", Verdict: status.AttemptBlocked}
	k := key{a.Protocol, a.What, a.Verdict, a.Why}
	var answered atomic.Bool
	over := make(chan struct{})
	j.add(a, func() (int, string) {
		go func() {
			defer close(over)
			<-j.add(a, nil)
			answered.Store(true)
		}()
		for counted := int64(0); counted < 2; runtime.Gosched() {
			j.mu.Lock()
			counted = j.kinds[k].attempt.Count
			j.mu.Unlock()
		}
		for range 1000 {
			runtime.Gosched()
		}
		if answered.Load() {
			t.Error("the second is answered before the first is known")
		}
		return 7, "curl"
	})
	<-over
	if !answered.Load() || j.kinds[k].attempt.PID != 7 {
		t.Errorf("%+v", j.kinds[k])
	}
}
