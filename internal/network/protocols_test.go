package network

import (
	"strings"
	"testing"
)

func TestNeeds(t *testing.T) {
	for _, c := range []struct {
		words, name string
		port        uint16
		want        Protocols
		path        bool
	}{
		{"", "a.com", 443, 0, false},
		{"a.com", "a.com", 443, Any, false},
		{"a.com:443", "a.com", 443, Any, false},
		{"https://a.com/*", "a.com", 443, TLS, false},
		{"https://a.com/*", "a.com", 80, 0, false},
		{"http://a.com/*", "a.com", 80, HTTP, false},
		{"http://a.com/x", "a.com", 80, HTTP, true},
		{"http://a.com/x http://a.com/*", "a.com", 80, HTTP, false},
		{"http://a.com/x http://a.com/y/*", "a.com", 80, HTTP, true},
		{"http://a.com:9/x https://a.com:9/*", "a.com", 9, HTTP | TLS, true},
		{"http://a.com/x *.com", "a.com", 80, Any, false},
		{"http://a.com/x *.com:81", "a.com", 80, HTTP, true},
		{"https://a.com/*; a.com", "a.com", 443, 0, false},
		{"http://localhost:3000/api/*", "localhost", 3000, HTTP, true},
		{"http://127.0.0.1:3000/*", "localhost", 3000, HTTP, false},
		{"https://10.0.0.1/*", "10.0.0.1", 443, TLS, false},
		{"10.0.0.0/8", "10.0.0.1", 443, Any, false},
		{"0.0.0.0/0 https://10.0.0.1/*", "10.0.0.1", 443, TLS, false},
		{"https://[fd00::1]/*", "fd00::1", 443, TLS, false},
		{"*", "a\x00b", 443, 0, false},
	} {
		r := compile(t, policy(c.words))
		if got := r.Needs(c.name, c.port); got != c.want {
			t.Errorf("%q: Needs(%q, %d) = %v, want %v", c.words, c.name, c.port, got, c.want)
		}
		if got := r.HasPath(c.name, c.port); got != c.path {
			t.Errorf("%q: HasPath(%q, %d) = %v", c.words, c.name, c.port, got)
		}
		for _, spoken := range []Protocols{TLS, HTTP, Raw, 0} {
			v := r.Speaks(c.name, c.port, spoken)
			if want := spoken != 0 && c.want&spoken != 0; v.Allowed != want {
				t.Errorf("%q: Speaks(%q, %d, %v): %+v", c.words, c.name, c.port, spoken, v)
			}
			if c.want != 0 && !v.Allowed && (v.Why != ReasonScheme || v.Rule == "") {
				t.Errorf("%q: Speaks(%q, %d, %v): %+v", c.words, c.name, c.port, spoken, v)
			}
		}
	}
	for c, want := range map[Protocols]string{0: "nothing", TLS: "TLS", HTTP | TLS: "TLS or HTTP", Any: "anything", HTTP | Raw: "HTTP or raw"} {
		if c.String() != want {
			t.Errorf("%d is %q", c, c)
		}
	}
}

func TestPath(t *testing.T) {
	const below = "http://a.com/api/*"
	for _, c := range []struct{ words, path, want string }{
		{below, "/api/", "+" + below},
		{below, "/api/x/y", "+" + below},
		{below, "/api/x?q=/../..", "+" + below},
		{below, "/api/%78", "+" + below},
		{below, "/%61pi/x", "+" + below},
		{below, "/api/a%20b;v=1/c.d", "+" + below},
		{below, "/api/caf%c3%a9", "+" + below},
		{below, "/api/.well-known/...x", "+" + below},
		{below, "/api/;v=1/x", "+" + below},

		{below, "/api", "path " + below},
		{below, "/apix/", "path " + below},
		{below, "/", "path " + below},
		{below, "/API/x", "path " + below},
		{below, "/other/api/x", "path " + below},
		{below, "", "path " + below},
		{below, "*", "path " + below},
		{below, "api/x", "path " + below},
		{below, "http://a.com/api/x", "path " + below},
		{below, "/?/api/x", "path " + below},
		{below, "//api/x", "path " + below},
		{below, "/api//x", "path " + below},
		{below, "/api/../x", "path " + below},
		{below, "/api/x/..", "path " + below},
		{below, "/api/./x", "path " + below},
		{below, "/api/.../x", "path " + below},
		{below, "/api/..;/x", "path " + below},
		{below, "/api/..;a=b/x", "path " + below},
		{below, "/api/.;/x", "path " + below},
		{below, "/api/..%3b/x", "path " + below},
		{below, "/api/..%20/x", "path " + below},
		{below, "/api/%2e%2e/x", "path " + below},
		{below, "/api/%2E./x", "path " + below},
		{below, "/api/.%2e/x", "path " + below},
		{below, "/api/..%2fx", "path " + below},
		{below, "/api%2fx", "path " + below},
		{below, "/api%2Fx", "path " + below},
		{below, "/api/..%5cx", "path " + below},
		{below, `/api/..\x`, "path " + below},
		{below, "/api/%252e%252e/x", "path " + below},
		{below, "/api/%c0%ae%c0%ae/x", "path " + below},
		{below, "/api/%ef%bc%8e%ef%bc%8e/x", "path " + below},
		{below, "/api/%e2%80%a4%e2%80%a4/x", "path " + below},
		{below, "/api/..%c0%afx", "path " + below},
		{below, "/api/%u002e%u002e/x", "path " + below},
		{below, "/api/%", "path " + below},
		{below, "/api/%2", "path " + below},
		{below, "/api/%zz", "path " + below},
		{below, "/api/%00", "path " + below},
		{below, "/api/%0d%0aX:", "path " + below},
		{below, "/api/%7f", "path " + below},
		{below, "/api/x#/../y", "path " + below},
		{below, "/api/a b", "path " + below},
		{below, "/api/a\tb", "path " + below},
		{below, "/api/caf\xc3\xa9", "path " + below},
		{below, "/api/" + strings.Repeat("x", longestPath), "path " + below},

		{"http://a.com/one", "/one", "+http://a.com/one"},
		{"http://a.com/one", "/on%65?x", "+http://a.com/one"},
		{"http://a.com/one", "/one/", "path http://a.com/one"},
		{"http://a.com/one", "/one;x", "path http://a.com/one"},
		{"http://a.com/one/", "/one/", "+http://a.com/one/"},
		{"http://a.com/one http://a.com/two/*", "/two/x", "+http://a.com/two/*"},
		{"http://a.com/%2A", "/*", "+http://a.com/%2A"},

		// A whole site has no paths to look at.
		{"http://a.com/*", "/../%2e%00", "+http://a.com/*"},
		{"a.com", "*", "+a.com"},
		{below + " a.com:80", "/..", "+a.com:80"},

		{"https://a.com:80/*", "/", "scheme https://a.com:80/*"},
		{below + ";a.com", "/api/x", "denied deny a.com"},
		{"http://a.com:81/*", "/", "port http://a.com:81/*"},
		{"b.com", "/", "not_allowed"},
	} {
		if got := short(compile(t, policy(c.words)).Path("a.com", 80, c.path)); got != c.want {
			t.Errorf("%q: %q: %q, want %q", c.words, c.path, got, c.want)
		}
	}
}
