package network

import (
	"cmp"
	"net/netip"
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/must"
)

// Whatever is accepted is its own canonical form, is printable ASCII without anything that another
// reader could split, and allows what it says.
func FuzzWord(f *testing.F) {
	for _, s := range []string{"example.com:443", "*.a.b", "[::1]:80", "10.0.0.0/8", "https://a/*", "a%00b", "::ffff:1.2.3.4", "0x7f.1", "A.b.", "[fd00::/8]:1",
		"http://a/b%20c/*", "http://[::1]:8/x", "127.*", "1.2.*", "a*.b", "x.localhost", "::ffff:10.0.0.0/104", "0*", "*-*.*"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		tryDenied(t, s)
		got, err := Canonical(s)
		if err != nil {
			if e, ok := err.(*Error); !ok || e.Msg == "" {
				t.Fatalf("%q: %v", s, err)
			}
			if _, err := Compile(Policy{Allow: []string{s}}); err == nil {
				t.Fatalf("%q is refused and compiles", s)
			}
			return
		}
		host, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(got, "http://"), "https://"), "/")
		if strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789.-_*:[]") != "" || strings.ContainsFunc(got, func(c rune) bool { return c <= ' ' || c > '~' || c == ',' }) {
			t.Fatalf("%q became %q", s, got)
		}
		if again, err := Canonical(got); err != nil || again != got {
			t.Fatalf("%q became %q, then %q, %v", s, got, again, err)
		}
		if a, err := netip.ParseAddr(s); err == nil && a.Unmap().String() != got {
			t.Fatalf("the address %q became %q", s, got)
		}
		one, _ := parse(got)
		rules, err := Compile(Policy{Allow: []string{got}, BlockInternal: true})
		if err != nil {
			t.Fatalf("%q doesn't compile: %v", got, err)
		}
		forbids, _ := Compile(Policy{Allow: []string{got}, Deny: []string{one.host}})
		for _, v := range examples(rules, one) {
			if !v.Allowed || v.Rule != got {
				t.Fatalf("%q: %+v", got, v)
			}
		}
		for _, v := range examples(forbids, one) {
			if v.Why != ReasonDenied {
				t.Fatalf("%q and denied: %+v", got, v)
			}
		}
	})
}

func tryDenied(t *testing.T, s string) {
	got, err := CanonicalDeny(s)
	if err != nil {
		return
	}
	if again, err := CanonicalDeny(got); err != nil || again != got {
		t.Fatalf("denied, %q became %q, then %q, %v", s, got, again, err)
	}
	if _, err := Compile(Policy{Deny: []string{got}}); err != nil {
		t.Fatalf("denied, %q: %v", got, err)
	}
}

// examples asks for what a word stands for.
func examples(r *Rules, one *rule) []Verdict {
	port := one.port
	port = cmp.Or(port, 4711)
	if one.loopback {
		return []Verdict{r.Localhost(port), r.Connect(localhost, port)}
	}
	if one.labels != nil {
		name := strings.ReplaceAll(one.host, "*", "z")
		verdicts := []Verdict{r.Name(name), r.Connect(name, port), r.Connect(strings.ToUpper(name)+".", port), r.Resolved(name, netip.MustParseAddr("8.8.8.8"), port)}
		if one.path != "" {
			verdicts = append(verdicts, r.Path(name, port, encodePath(one.path)))
		}
		return verdicts
	}
	a := plain(one.prefix.Addr())
	if kind, wide := classify(a); kind != "" && !one.nearEnough(kind, wide) {
		return nil
	}
	return []Verdict{r.Address(a, port)}
}

// A name that is allowed has one spelling, and is no address to anybody.
func FuzzName(f *testing.F) {
	for _, s := range []string{"a.com", "A.com.", "a\x00.com", "127.1", "0x7f.1", "x.localhost", "a..com", "xn--a.com", "*.com", "1.2.3.4", "::1", "a.com:80", strings.Repeat("a.", 127)} {
		f.Add(s, uint16(80))
	}
	f.Fuzz(func(t *testing.T, name string, port uint16) {
		r, err := Compile(Policy{Allow: []string{"*", "*.com", "a*.*", "localhost", "0.0.0.0/0", "::/0"}, Deny: []string{"denied.com", "*.denied.com"}})
		must.Do(t, err)
		v := r.Connect(name, port)
		if !v.Allowed {
			if n := r.Name(name); n.Allowed && port != 0 {
				t.Fatalf("%q: %+v, but %+v", name, v, n)
			}
			if v.Why != ReasonName && v.Why != ReasonDenied && port != 0 {
				t.Fatalf("%q: %+v", name, v)
			}
			return
		}
		plain := strings.ToLower(strings.TrimSuffix(name, "."))
		if plain == "" || len(plain) > 253 || strings.Trim(plain, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" || strings.Contains(plain, "..") || strings.HasSuffix(plain, ".") || strings.HasPrefix(plain, ".") {
			t.Fatalf("%q is allowed: %+v", name, v)
		}
		last := plain[strings.LastIndexByte(plain, '.')+1:]
		if _, err := netip.ParseAddr(plain); err == nil || strings.Trim(last, "0123456789") == "" {
			t.Fatalf("the address %q is allowed: %+v", name, v)
		}
		if plain == "denied.com" || strings.HasSuffix(plain, ".denied.com") {
			t.Fatalf("%q is allowed: %+v", name, v)
		}
		for _, same := range []string{plain, plain + ".", strings.ToUpper(plain)} {
			if r.Connect(same, port) != v || r.Name(same) != r.Name(name) {
				t.Fatalf("%q and %q differ", name, same)
			}
		}
		if (&Rules{}).Connect(name, port).Allowed {
			t.Fatalf("%q is allowed by nothing", name)
		}
	})
}

// A path that is allowed leads below what was allowed, however often it is decoded and
// whatever is taken for a slash.
func FuzzPath(f *testing.F) {
	for _, s := range []string{"/api/x", "/api/../x", "/api/%2e%2e/x", "/api/..;/x", "/api/..%5cx", "/api/%252e%252e/", "//api/x", "/api/a%20b?c", "/api/;x/"} {
		f.Add(s)
	}
	r, err := Compile(Policy{Allow: []string{"http://a.com/api/*"}})
	must.Do(f, err)
	f.Fuzz(func(t *testing.T, s string) {
		if !r.Path("a.com", 80, s).Allowed {
			return
		}
		p, _, _ := strings.Cut(s, "?")
		if strings.ContainsFunc(p, func(c rune) bool { return c <= ' ' || c > '~' }) {
			t.Fatalf("%q is allowed", s)
		}
		for range 3 {
			slashes := strings.ReplaceAll(p, `\`, "/")
			var bare []string
			for segment := range strings.SplitSeq(slashes, "/") {
				segment, _, _ = strings.Cut(segment, ";")
				bare = append(bare, strings.TrimRight(segment, ". "))
				if segment == ".." {
					t.Fatalf("%q leads upwards", s)
				}
			}
			for _, form := range []string{p, slashes, strings.Join(bare, "/")} {
				if clean := path.Clean(form) + "/"; !strings.HasPrefix(clean, "/api/") {
					t.Fatalf("%q leads to %q", s, clean)
				}
			}
			u, err := url.PathUnescape(p)
			if err != nil {
				t.Fatalf("%q: %v", s, err)
			}
			p = u
		}
	})
}
