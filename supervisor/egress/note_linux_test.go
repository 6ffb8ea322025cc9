package egress

import (
	"testing"

	"golang.org/x/net/dns/dnsmessage"
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
