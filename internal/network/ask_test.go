package network

import (
	"testing"

	"github.com/confine-run/confine/internal/must"
)

func TestAsk(t *testing.T) {
	open := Policy{Allow: []string{"example.com:443", "*.org", "https://tls.net/*", "http://web.net/a/*", "192.0.2.0/24", "localhost:5432", "10.0.0.1:80", "[2001:db8::1]:80"},
		Deny: []string{"evil.org", "192.0.2.7", "x.org:80"}, BlockInternal: true}
	for _, c := range []struct {
		ask, place string
		allowed    bool
		why        Reason
		rule       string
	}{
		{"example.com:443", "example.com:443", true, ReasonAllowed, "example.com:443"},
		{"EXAMPLE.com.:443", "example.com:443", true, ReasonAllowed, "example.com:443"},
		{"example.com", "example.com", true, ReasonAllowed, "example.com:443"},
		{"example.com:80", "example.com:80", false, ReasonPort, "example.com:443"},
		{"example.net", "example.net", false, ReasonNotAllowed, ""},
		{"a.org:1", "a.org:1", true, ReasonAllowed, "*.org"},
		{"evil.org", "evil.org", false, ReasonDenied, "deny evil.org"},
		{"x.org", "x.org", true, ReasonAllowed, "*.org"},
		{"x.org:80", "x.org:80", false, ReasonDenied, "deny x.org:80"},
		{"192.0.2.1", "192.0.2.1", true, ReasonAllowed, "192.0.2.0/24"},
		{"192.0.2.7:1", "192.0.2.7:1", false, ReasonDenied, "deny 192.0.2.7"},
		{"192.0.2.7", "192.0.2.7", false, ReasonDenied, "deny 192.0.2.7"},
		{"localhost:5432", "localhost:5432", true, ReasonAllowed, "localhost:5432"},
		{"127.0.0.1:5432", "localhost:5432", true, ReasonAllowed, "localhost:5432"},
		{"[::1]:5432", "localhost:5432", true, ReasonAllowed, "localhost:5432"},
		{"localhost", "localhost", true, ReasonAllowed, "localhost:5432"},
		{"localhost:80", "localhost:80", false, ReasonPort, "localhost:5432"},
		{"10.0.0.1", "10.0.0.1", true, ReasonAllowed, "10.0.0.1:80"},
		{"10.0.0.2", "10.0.0.2", false, ReasonNotAllowed, ""},
		{"[2001:db8::1]:80", "[2001:db8::1]:80", true, ReasonAllowed, "[2001:db8::1]:80"},
		{"2001:db8::1", "2001:db8::1", true, ReasonAllowed, "[2001:db8::1]:80"},
		{"169.254.169.254:80", "169.254.169.254:80", false, ReasonNotAllowed, ""},
	} {
		r, err := Compile(open)
		must.Do(t, err)
		a, err := r.Ask(c.ask)
		if err != nil || a.Place != c.place || a.Allowed != c.allowed || a.Why != c.why || a.Rule != c.rule {
			t.Errorf("%s: %+v, %v", c.ask, a, err)
		}
	}
	r, err := Compile(open)
	must.Do(t, err)
	if a, _ := r.Ask("tls.net:443"); a.Needs != TLS || a.Paths || !a.Resolved {
		t.Errorf("tls.net: %+v", a)
	}
	if a, _ := r.Ask("web.net:80"); a.Needs != HTTP || !a.Paths {
		t.Errorf("web.net: %+v", a)
	}
	for _, bad := range []string{"", "a b", "a:0", "a:x", "http://a/", "10.0.0.0/8", "*.org", "[::1", "a:", "-a"} {
		if a, err := r.Ask(bad); err == nil {
			t.Errorf("%q is answered: %+v", bad, a)
		}
	}
	if a, err := new(Rules).Ask("a:1"); err != nil || a.Allowed {
		t.Errorf("by no rules: %+v, %v", a, err)
	}
}
