package egress

import (
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/confine-run/confine/confine/network"
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
	if err != nil {
		t.Fatal(err)
	}
	var answer dnsmessage.Message
	if err := answer.Unpack(g.resolve(&flow{protocol: "udp", pid: 7}, query, false)); err != nil {
		t.Fatal(err)
	}
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
