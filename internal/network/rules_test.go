package network

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/must"
)

func compile(t testing.TB, p Policy) *Rules {
	t.Helper()
	r, err := Compile(p)
	must.Do(t, err)
	return r
}

// policy reads "allow, allow; deny, deny; ports" with internal addresses blocked.
func policy(words string) Policy {
	p := Policy{BlockInternal: true}
	parts := strings.Split(words, ";")
	p.Allow = strings.Fields(parts[0])
	if len(parts) > 1 {
		p.Deny = strings.Fields(parts[1])
	}
	if len(parts) > 2 {
		for _, w := range strings.Fields(parts[2]) {
			n, _ := CheckPort(w)
			p.Ports = append(p.Ports, int(n))
		}
	}
	return p
}

// short is a verdict in one line: the rule that allowed, or why not.
func short(v Verdict) string {
	if v.Allowed {
		return "+" + v.Rule
	}
	return string(v.Why) + strings.TrimSuffix(" "+v.Rule, " ")
}

func TestConnect(t *testing.T) {
	for _, c := range []struct {
		words, name string
		port        uint16
		want        string
	}{
		// One name.
		{"", "example.com", 443, "not_allowed"},
		{"example.com", "example.com", 443, "+example.com"},
		{"example.com", "EXAMPLE.com.", 443, "+example.com"},
		{"example.com", "www.example.com", 443, "not_allowed"},
		{"example.com", "example.com.evil.com", 443, "not_allowed"},
		{"example.com", "notexample.com", 443, "not_allowed"},
		{"Example.COM.", "example.com", 443, "+example.com"},

		// Odd names are never allowed.
		{"* *.com example.com", "example.com..", 443, "name"},
		{"* *.com", "a..com", 443, "name"},
		{"* *.com", ".com", 443, "name"},
		{"* *.com", "", 443, "name"},
		{"* *.com", ".", 443, "name"},
		{"* *.com", "a\x00.com", 443, "name"},
		{"* *.com", "a b.com", 443, "name"},
		{"* *.com", "-a.com", 443, "name"},
		{"* *.com", "a-.com", 443, "name"},
		{"* *.com", "a\r\n.com", 443, "name"},
		{"* *.com", "*.com", 443, "name"},
		{"* *.com", "bücher.com", 443, "name"},
		{"* *.com", "a\uff0ecom", 443, "name"},
		{"* *.com", "\u212axample.com", 443, "name"},
		{"* *.com", "xn--bcher-kva.com", 443, "+*"},
		{"* *.com", strings.Repeat("a.", 126) + "com", 443, "name"},
		{"* *.com", strings.Repeat("a", 64) + ".com", 443, "name"},
		{"* 10.0.0.1 127.*", "10.0.0.1", 443, "name"},
		{"*", "127.1", 443, "name"},
		{"*", "0x7f000001", 443, "name"},
		{"*", "2130706433", 443, "name"},
		{"*", "::1", 443, "name"},
		{"*", "[::1]", 443, "name"},
		{"*", "example.com:443", 443, "name"},

		// Patterns.
		{"*.github.com", "api.github.com", 1, "+*.github.com"},
		{"*.github.com", "a.b.c.github.com", 1, "+*.github.com"},
		{"*.github.com", "github.com", 1, "not_allowed"},
		{"*.github.com", "evilgithub.com", 1, "not_allowed"},
		{"*.github.com", "api.github.com.evil.com", 1, "not_allowed"},
		{"api.*.com", "api.x.com", 1, "+api.*.com"},
		{"api.*.com", "api.x.y.com", 1, "not_allowed"},
		{"api.*.com", "api.com", 1, "not_allowed"},
		{"api.*.com", "z.api.x.com", 1, "not_allowed"},
		{"api-*.x.org", "api-7.x.org", 1, "+api-*.x.org"},
		{"api*.x.org", "api.x.org", 1, "+api*.x.org"},
		{"api-*.x.org", "api-7.z.x.org", 1, "not_allowed"},
		{"a*b*c.org", "abbc.org", 1, "+a*b*c.org"},
		{"a*b*c.org", "acb.org", 1, "not_allowed"},
		{"*a.org", "ba.org", 1, "+*a.org"},
		{"*a.org", "x.ba.org", 1, "not_allowed"},
		{"*.*.org", "a.b.c.org", 1, "+*.*.org"},
		{"*.*.org", "a.org", 1, "not_allowed"},
		{"example.*", "example.net", 1, "+example.*"},
		{"example.*", "example.co.uk", 1, "not_allowed"},
		{"*", "com", 1, "+*"},
		{"*", "a.b.c", 1, "+*"},

		// Ports.
		{"a.com:443", "a.com", 443, "+a.com:443"},
		{"a.com:443", "a.com", 80, "port a.com:443"},
		{"a.com:443", "b.com", 80, "not_allowed"},
		{"a.com;;443 8443", "a.com", 8443, "+a.com"},
		{"a.com;;443", "a.com", 80, "port a.com"},
		{"a.com:80;;443", "a.com", 80, "+a.com:80"},
		{"a.com:80;;443", "a.com", 443, "port a.com:80"},
		{"http://a.com/*;;443", "a.com", 80, "+http://a.com/*"},
		{"a.com", "a.com", 0, "port"},
		{"https://a.com/*", "a.com", 443, "+https://a.com/*"},
		{"https://a.com/*", "a.com", 80, "port https://a.com/*"},
		{"https://a.com:8443/*", "a.com", 8443, "+https://a.com:8443/*"},
		{"http://a.com/api/*", "a.com", 80, "+http://a.com/api/*"},

		// Denied.
		{"*.a.com; b.a.com", "b.a.com", 1, "denied deny b.a.com"},
		{"*.a.com; b.a.com", "c.a.com", 1, "+*.a.com"},
		{"b.a.com:443; *.com", "b.a.com", 443, "denied deny *.com"},
		{"a.com; a.com:25", "a.com", 25, "denied deny a.com:25"},
		{"a.com; a.com:25", "a.com", 26, "+a.com"},
		{"a.com; https://a.com/*", "a.com", 443, "denied deny a.com:443"},
		{"a.com; *", "a.com", 443, "denied deny *"},
		{"a.com; *:25", "a.com", 25, "denied deny *:25"},
		{"; a.com", "a.com", 443, "denied deny a.com"},
		{"a.com;10.0.0.0/8 127.*", "a.com", 443, "+a.com"},

		// Words of addresses allow no names, but for loopback.
		{"0.0.0.0/0 ::/0", "a.com", 443, "not_allowed"},
		{"192.168.*", "192.168.com", 443, "not_allowed"},

		// localhost is nobody's name but loopback's.
		{"localhost", "localhost", 80, "+localhost"},
		{"localhost:80", "LOCALHOST.", 80, "+localhost:80"},
		{"localhost:80", "localhost", 81, "port localhost:80"},
		{"localhost", "app.localhost", 80, "+localhost"},
		{"*.localhost", "localhost", 80, "+*.localhost"},
		{"* local* *host *.*", "localhost", 80, "not_allowed"},
		{"* local* *host *.*", "app.localhost", 80, "not_allowed"},
		{"localhost", "localhost.com", 80, "not_allowed"},
		{"localhost", "notlocalhost", 80, "not_allowed"},
		{"127.0.0.1:80", "localhost", 80, "+127.0.0.1:80"},
		{"[::1]:80", "localhost", 80, "+[::1]:80"},
		{"127.*", "localhost", 80, "+127.*"},
		{"127.0.0.2 0.0.0.0/0 ::/0", "localhost", 80, "not_allowed"},
		{"localhost; localhost", "localhost", 80, "denied deny localhost"},
		{"localhost; localhost:81", "localhost", 80, "+localhost"},
		{"localhost; *.localhost", "localhost", 80, "denied deny *.localhost"},
		{"localhost; local*", "localhost", 80, "denied deny local*"},
		{"localhost; 127.*", "localhost", 80, "denied deny 127.*"},
		{"localhost; ::1", "localhost", 80, "denied deny ::1"},
		{"localhost; 0.0.0.0/0", "localhost", 80, "denied deny 0.0.0.0/0"},
		{"127.0.0.1; localhost", "localhost", 80, "denied deny localhost"},
		{"localhost; 10.*", "localhost", 80, "+localhost"},
	} {
		r := compile(t, policy(c.words))
		if got := short(r.Connect(c.name, c.port)); got != c.want {
			t.Errorf("%q: Connect(%q, %d): %q, want %q", c.words, c.name, c.port, got, c.want)
		}
		if isLocalhost(strings.ToLower(strings.TrimSuffix(c.name, "."))) {
			if got := short(r.Localhost(c.port)); got != c.want {
				t.Errorf("%q: Localhost(%d): %q, want %q", c.words, c.port, got, c.want)
			}
		}
	}
}

func TestName(t *testing.T) {
	for _, c := range []struct{ words, name, want string }{
		{"", "a.com", "not_allowed"},
		{"a.com", "A.com.", "+a.com"},
		{"a.com:443", "a.com", "+a.com:443"},
		{"https://a.com/*", "a.com", "+https://a.com/*"},
		{"*", "a\x00.com", "name"},
		{"*", "10.0.0.1", "name"},
		{"a.com; a.com", "a.com", "denied deny a.com"},
		{"a.com; a.com:25", "a.com", "+a.com"},
		{"a.com:25; a.com:25", "a.com", "denied deny a.com:25"},
		{"a.com:25 a.com:26; a.com:25", "a.com", "+a.com:26"},
		{"a.com; *:25; 25", "a.com", "denied deny *:25"},
		{"a.com; *:25; 25 26", "a.com", "+a.com"},
		{"localhost:80", "localhost", "+localhost:80"},
		{"localhost:80", "x.localhost", "+localhost:80"},
		{"*", "localhost", "not_allowed"},
		{"0.0.0.0/0", "a.com", "not_allowed"},
	} {
		r := compile(t, policy(c.words))
		if got := short(r.Name(c.name)); got != c.want {
			t.Errorf("%q: Name(%q): %q, want %q", c.words, c.name, got, c.want)
		}
	}
	for words, want := range map[string]bool{"": false, "*": false, "127.0.0.1:1": true, "a.localhost": true, "localhost; *": false, "localhost:1;localhost:1": false} {
		if got := compile(t, policy(words)).Name(localhost).Allowed; got != want {
			t.Errorf("%q: localhost may be looked up: %v", words, got)
		}
	}
}

func TestAddress(t *testing.T) {
	for _, c := range []struct{ words, addr, want string }{
		{"", "1.1.1.1", "not_allowed"},
		{"* *:80", "1.1.1.1", "not_allowed"},
		{"1.1.1.1", "1.1.1.1", "+1.1.1.1"},
		{"1.1.1.1", "::ffff:1.1.1.1", "+1.1.1.1"},
		{"1.1.1.1", "1.1.1.2", "not_allowed"},
		{"1.1.1.1:81", "1.1.1.1", "port 1.1.1.1:81"},
		{"1.0.0.0/8:80", "1.1.1.1", "+1.0.0.0/8:80"},
		{"0.0.0.0/0", "1.1.1.1", "+0.0.0.0/0"},
		{"::/0", "1.1.1.1", "not_allowed"},
		{"::/0", "2606:4700::1", "+::/0"},
		{"0.0.0.0/0", "::ffff:1.1.1.1", "+0.0.0.0/0"},
		{"1.*", "1.2.3.4", "+1.*"},
		{"1.2.*", "1.3.3.4", "not_allowed"},
		{"1.2.*.*", "1.2.3.4", "+1.2.*.*"},

		// A range that is wider than the internal one doesn't name it.
		{"0.0.0.0/0", "10.1.1.1", "internal 0.0.0.0/0"},
		{"192.0.0.0/8", "192.168.1.1", "internal 192.0.0.0/8"},
		{"172.0.0.0/8", "172.16.0.1", "internal 172.0.0.0/8"},
		{"192.168.0.0/16", "192.168.1.1", "+192.168.0.0/16"},
		{"192.168.*", "192.168.1.1", "+192.168.*"},
		{"10.0.0.0/8", "10.1.1.1", "+10.0.0.0/8"},
		{"10.1.1.1:80", "10.1.1.1", "+10.1.1.1:80"},
		{"127.*", "127.0.0.1", "+127.*"},
		{"localhost", "127.0.0.1", "not_allowed"},
		{"::/0", "::1", "internal ::/0"},
		{"::/0", "fd00::1", "internal ::/0"},
		{"fd00::/8", "fd00::1", "+fd00::/8"},
		{"fe80::/10", "fe80::1%eth0", "+fe80::/10"},
		{"224.0.0.251", "224.0.0.251", "+224.0.0.251"},
		{"100.64.0.0/10", "100.64.0.1", "+100.64.0.0/10"},

		// Metadata: exactly.
		{"169.254.0.0/16 0.0.0.0/0", "169.254.169.254", "internal 169.254.0.0/16"},
		{"169.254.169.254/31", "169.254.169.254", "internal 169.254.169.254/31"},
		{"169.254.169.254", "169.254.169.254", "+169.254.169.254"},
		{"169.254.169.254", "169.254.169.253", "not_allowed"},
		{"169.254.0.0/16", "169.254.1.1", "+169.254.0.0/16"},
		{"fd00:ec2::/32", "fd00:ec2::254", "internal fd00:ec2::/32"},
		{"fd00:ec2::254", "fd00:ec2::254", "+fd00:ec2::254"},
		{"169.254.169.254", "::ffff:169.254.169.254", "+169.254.169.254"},
		{"169.254.169.254 64:ff9b::/96", "64:ff9b::a9fe:a9fe", "internal 64:ff9b::/96"},
		{"169.254.169.254 2002::/16", "2002:a9fe:a9fe::1", "internal 2002::/16"},

		// What nothing allows.
		{"0.0.0.0/0", "0.0.0.0", "internal 0.0.0.0/0"},
		{"", "0.0.0.0", "internal"},
		{"0.0.0.0/0 198.0.0.0/8", "198.18.0.5", "internal 0.0.0.0/0"},
		{"::/0", "fd63:6f6e:6669:6e65::9", "internal ::/0"},
		{"fd00::/8", "fd63:6f6e:6669:6e65::9", "internal fd00::/8"},
		{"::/0", "::", "internal ::/0"},

		// IPv6 that stands for IPv4.
		{"::/0", "64:ff9b::1.1.1.1", "+::/0"},
		{"::/0", "64:ff9b::10.0.0.1", "internal ::/0"},
		{"64:ff9b::/96 10.0.0.0/8", "64:ff9b::10.0.0.1", "internal 64:ff9b::/96"},
		{"64:ff9b::a00:1", "64:ff9b::10.0.0.1", "+64:ff9b::a00:1"},
		{"::/0", "2002:7f00:1::", "internal ::/0"},

		// Denied.
		{"0.0.0.0/0; 1.0.0.0/8", "1.1.1.1", "denied deny 1.0.0.0/8"},
		{"1.1.1.1; 1.0.0.0/8:80", "1.1.1.1", "denied deny 1.0.0.0/8:80"},
		{"1.1.1.1; 1.0.0.0/8:81", "1.1.1.1", "+1.1.1.1"},
		{"1.1.1.1; *", "1.1.1.1", "denied deny *"},
		{"1.1.1.1; *.com com", "1.1.1.1", "+1.1.1.1"},
		{"::/0; 1.1.1.1", "64:ff9b::1.1.1.1", "denied deny 1.1.1.1"},
		{"::/0; 1.1.1.1", "2002:101:101::5", "denied deny 1.1.1.1"},
		{"::/0; 1.1.1.1", "2001:0:101:101::5", "denied deny 1.1.1.1"},
		{"::/0; 1.1.1.1", "2001:0:808:808::fefe:fefe", "denied deny 1.1.1.1"},
		{"::/0; 1.1.1.1", "64:ff9b::1.1.1.2", "+::/0"},
		{"127.0.0.1; localhost", "127.0.0.1", "denied deny localhost"},
		{"127.0.0.1; localhost", "::ffff:127.0.0.1", "denied deny localhost"},
	} {
		r := compile(t, policy(c.words))
		if got := short(r.Address(netip.MustParseAddr(c.addr), 80)); got != c.want {
			t.Errorf("%q: Address(%s): %q, want %q", c.words, c.addr, got, c.want)
		}
	}
	if v := compile(t, policy("0.0.0.0/0 ::/0")).Address(netip.Addr{}, 80); v.Allowed {
		t.Error("no address is allowed")
	}
}

func TestResolved(t *testing.T) {
	for _, c := range []struct{ words, name, addr, want string }{
		{"a.com", "a.com", "1.1.1.1", "+a.com"},
		{"a.com", "b.com", "1.1.1.1", "not_allowed"},
		{"1.1.1.1", "b.com", "1.1.1.1", "not_allowed"},
		{"a.com; 1.0.0.0/8", "a.com", "1.1.1.1", "denied deny 1.0.0.0/8"},
		{"a.com; 1.0.0.0/8:81", "a.com", "1.1.1.1", "+a.com"},
		{"a.com; b.com", "a.com", "1.1.1.1", "+a.com"},

		{"a.com", "a.com", "10.0.0.1", "internal a.com"},
		{"a.com", "a.com", "127.0.0.1", "internal a.com"},
		{"a.com", "a.com", "::ffff:127.0.0.1", "internal a.com"},
		{"a.com", "a.com", "0.0.0.0", "internal a.com"},
		{"a.com", "a.com", "fe80::1%eth0", "internal a.com"},
		{"a.com", "a.com", "64:ff9b::7f00:1", "internal a.com"},
		{"a.com", "a.com", "198.18.0.3", "internal a.com"},
		{"a.com localhost", "a.com", "127.0.0.1", "internal a.com"},
		{"a.com 0.0.0.0/0", "a.com", "10.0.0.1", "internal a.com"},
		{"a.com 10.0.0.0/8", "a.com", "10.0.0.1", "+10.0.0.0/8"},
		{"a.com 10.0.0.1:80", "a.com", "10.0.0.1", "+10.0.0.1:80"},
		{"a.com 10.0.0.1:81", "a.com", "10.0.0.1", "internal a.com"},
		{"a.com http://10.0.0.1/api/*", "a.com", "10.0.0.1", "internal a.com"},
		{"a.com 169.254.0.0/16", "a.com", "169.254.169.254", "internal a.com"},
		{"a.com 169.254.169.254", "a.com", "169.254.169.254", "+169.254.169.254"},
		{"a.com 127.0.0.1", "a.com", "127.0.0.1", "+127.0.0.1"},
		{"a.com 127.0.0.1; localhost", "a.com", "127.0.0.1", "denied deny localhost"},

		// One's own services.
		{"*.local", "nas.local", "192.168.1.2", "+*.local"},
		{"*.local", "nas.local", "127.0.0.1", "+*.local"},
		{"*.local", "nas.local", "fe80::2", "+*.local"},
		{"*.local", "nas.local", "8.8.8.8", "+*.local"},
		{"*.local", "nas.local", "169.254.169.254", "internal *.local"},
		{"*.local", "nas.local", "0.0.0.0", "internal *.local"},
		{"*.local", "nas.local", "224.0.0.1", "internal *.local"},
		{"*.local; localhost", "nas.local", "127.0.0.1", "denied deny localhost"},
		{"*.local; 192.168.*", "nas.local", "192.168.1.2", "denied deny 192.168.*"},
		{"* *.local:81", "nas.local", "192.168.1.2", "internal *"},
		{"* *.local:80", "nas.local", "192.168.1.2", "+*.local:80"},
		{"db.corp.internal", "db.corp.internal", "10.1.1.1", "+db.corp.internal"},
		{"*.internal", "metadata.google.internal", "169.254.169.254", "internal *.internal"},
		{"http://x.lan/*", "x.lan", "10.1.1.1", "+http://x.lan/*"},
		{"*.home.arpa", "x.home.arpa", "10.1.1.1", "+*.home.arpa"},
		{"*.arpa", "x.home.arpa", "10.1.1.1", "internal *.arpa"},
		{"*", "nas.local", "192.168.1.2", "internal *"},
		{"*.*", "nas.local", "192.168.1.2", "internal *.*"},
		{"nas.*", "nas.local", "192.168.1.2", "internal nas.*"},
		{"*.notlocal", "nas.notlocal", "192.168.1.2", "internal *.notlocal"},

		// localhost is loopback, whatever a resolver says.
		{"localhost", "localhost", "127.0.0.1", "+localhost"},
		{"localhost", "localhost", "::1", "+localhost"},
		{"localhost", "localhost", "10.0.0.1", "internal"},
		{"localhost 10.0.0.1", "localhost", "10.0.0.1", "internal"},
		{"localhost", "x.localhost", "8.8.8.8", "internal"},
		{"localhost; ::1", "localhost", "127.0.0.1", "denied deny ::1"},
	} {
		r := compile(t, policy(c.words))
		if got := short(r.Resolved(c.name, netip.MustParseAddr(c.addr), 80)); got != c.want {
			t.Errorf("%q: Resolved(%q, %s): %q, want %q", c.words, c.name, c.addr, got, c.want)
		}
	}
}

func TestInternalAddressesUnblocked(t *testing.T) {
	p := policy("a.com 0.0.0.0/0 ::/0; 10.9.0.0/16")
	p.BlockInternal = false
	r := compile(t, p)
	for addr, want := range map[string]bool{
		"10.0.0.1": true, "127.0.0.1": true, "fd00::1": true, "fe80::1": true, "100.64.0.1": true, "240.0.0.1": true, "8.8.8.8": true, "64:ff9b::10.0.0.1": true,
		"10.9.0.1": false, "64:ff9b::10.9.0.1": false, "169.254.169.254": false, "::ffff:169.254.169.254": false, "64:ff9b::a9fe:a9fe": false,
		"fd00:ec2::254": false, "224.0.0.1": false, "0.0.0.0": false, "::": false, "198.18.0.1": false, "fd63:6f6e:6669:6e65::1": false,
	} {
		a := netip.MustParseAddr(addr)
		if v := r.Resolved("a.com", a, 80); v.Allowed != want {
			t.Errorf("Resolved(%s): %+v", addr, v)
		}
		if v := r.Address(a, 80); v.Allowed != want {
			t.Errorf("Address(%s): %+v", addr, v)
		}
	}
	if r.Name(localhost).Allowed {
		t.Error("the caller's loopback needs its own word")
	}
}

func TestPorts(t *testing.T) {
	for _, c := range []struct {
		words      string
		ports      []uint16
		any        bool
		local      []uint16
		anyOfLocal bool
	}{
		{"", nil, false, nil, false},
		{"a.com", nil, true, nil, false},
		{"a.com:443 https://b.com/* *.c:80 10.0.0.0/8:22", []uint16{22, 80, 443}, false, nil, false},
		{"a.com b.com:25;;443 80", []uint16{25, 80, 443}, false, nil, false},
		{"localhost:8080 127.0.0.1:9090 x.localhost:7 [::1]:6 a.com:1", []uint16{1}, false, []uint16{6, 7, 8080, 9090}, false},
		{"localhost", nil, false, nil, true},
		{"localhost;;80", nil, false, []uint16{80}, false},
	} {
		r := compile(t, policy(c.words))
		ports, any := r.NamedPorts()
		local, anyOfLocal := r.LocalhostPorts()
		if !slices.Equal(ports, c.ports) || any != c.any || !slices.Equal(local, c.local) || anyOfLocal != c.anyOfLocal {
			t.Errorf("%q: %v, %v and %v, %v", c.words, ports, any, local, anyOfLocal)
		}
	}
}

// What Compile refuses to read is not believed by the rules either.
func TestNothingNamesSyntheticAddresses(t *testing.T) {
	for _, a := range []string{"198.18.0.5", "fd63:6f6e:6669:6e65::5", "0.0.0.0", "::"} {
		one := &rule{}
		one.setAddr(netip.MustParseAddr(a))
		if kind, wide := classify(one.prefix.Addr()); one.nearEnough(kind, wide) {
			t.Errorf("%s is named", a)
		}
	}
}

// An address of the caller's own is named by nothing but its number, or as an internal one.
func TestOwn(t *testing.T) {
	for _, c := range []struct {
		words, addr string
		want        Reason
	}{
		{"", "93.184.216.2", ReasonInternal},
		{"0.0.0.0/0", "93.184.216.2", ReasonInternal},
		{"93.184.216.0/24", "93.184.216.2", ReasonInternal},
		{"93.184.216.2", "93.184.216.2", ReasonAllowed},
		{"0.0.0.0/0 93.184.216.2:80", "93.184.216.2", ReasonAllowed},
		{"0.0.0.0/0 93.184.216.2:443", "93.184.216.2", ReasonInternal},
		{"93.184.216.2", "::ffff:93.184.216.2", ReasonAllowed},
		{"2000::/3", "2606:2800:220:1::2", ReasonInternal},
		{"2606:2800:220:1::2", "2606:2800:220:1::2", ReasonAllowed},
		{"0.0.0.0/0", "10.0.0.1", ReasonInternal},
		{"10.0.0.0/8", "10.0.0.1", ReasonAllowed},
		{"93.184.216.2; 93.184.216.2", "93.184.216.2", ReasonDenied},
	} {
		if v := compile(t, policy(c.words)).Own(netip.MustParseAddr(c.addr), 80); v.Why != c.want || v.Allowed != (c.want == ReasonAllowed) {
			t.Errorf("%q: %s is %+v, want %s", c.words, c.addr, v, c.want)
		}
	}
}

// A hint, when it is added, allows what was refused.
func TestHints(t *testing.T) {
	one := netip.MustParseAddr
	for _, c := range []struct {
		words string
		ask   func(*Rules) Verdict
		want  string
	}{
		{"", func(r *Rules) Verdict { return r.Connect("Evil.com.", 443) }, "--allow-network evil.com:443"},
		{"", func(r *Rules) Verdict { return r.Name("evil.com") }, "--allow-network evil.com"},
		{"evil.com:80", func(r *Rules) Verdict { return r.Connect("evil.com", 443) }, "--allow-network evil.com:443"},
		{"", func(r *Rules) Verdict { return r.Localhost(3000) }, "--allow-network localhost:3000"},
		{"*", func(r *Rules) Verdict { return r.Connect("app.localhost", 3000) }, "--allow-network localhost:3000"},
		{"", func(r *Rules) Verdict { return r.Address(one("10.0.0.1"), 22) }, "--allow-network 10.0.0.1:22"},
		{"0.0.0.0/0", func(r *Rules) Verdict { return r.Address(one("10.0.0.1"), 22) }, "--allow-network 10.0.0.1:22"},
		{"", func(r *Rules) Verdict { return r.Address(one("fd00::1"), 22) }, "--allow-network '[fd00::1]:22'"},
		{"a.com", func(r *Rules) Verdict { return r.Resolved("a.com", one("169.254.169.254"), 80) }, "--allow-network 169.254.169.254:80"},
		{"::/0", func(r *Rules) Verdict { return r.Address(one("64:ff9b::a9fe:a9fe"), 80) }, "--allow-network '[64:ff9b::a9fe:a9fe]:80'"},
		{"https://a.com/*", func(r *Rules) Verdict { return r.Speaks("a.com", 443, Raw) }, "--allow-network a.com:443"},
		{"http://a.com/api/*", func(r *Rules) Verdict { return r.Path("a.com", 80, "/other, x/y?z") }, ""},
		{"http://a.com/api/*", func(r *Rules) Verdict { return r.Path("a.com", 80, "/o,ther/y?z") }, "--allow-network http://a.com/o%2Cther/y"},
		{"http://a.com:81/api/*", func(r *Rules) Verdict { return r.Path("a.com", 81, "/") }, "--allow-network 'http://a.com:81/*'"},
		{"http://a.com/api/*", func(r *Rules) Verdict { return r.Path("a.com", 80, "/~u") }, "--allow-network 'http://a.com/~u'"},
		{"http://[fd00::1]/api/*", func(r *Rules) Verdict { return r.Path("fd00::1", 80, "/x") }, "--allow-network 'http://[fd00::1]/x'"},
		{"a.com; a.com", func(r *Rules) Verdict { return r.Connect("a.com", 80) }, ""},
		{"*", func(r *Rules) Verdict { return r.Connect("a\x00b", 80) }, ""},
		{"", func(r *Rules) Verdict { return r.Address(one("0.0.0.0"), 80) }, ""},
		{"a.com", func(r *Rules) Verdict { return r.Resolved("a.com", one("198.18.0.9"), 80) }, ""},
		{"localhost", func(r *Rules) Verdict { return r.Resolved("localhost", one("10.0.0.1"), 80) }, ""},
	} {
		p := policy(c.words)
		v := c.ask(compile(t, p))
		if v.Allowed || v.Hint != c.want {
			t.Errorf("%q: %+v, want the hint %q", c.words, v, c.want)
			continue
		}
		if c.want != "" {
			word := strings.Trim(strings.TrimPrefix(v.Hint, "--allow-network "), "'")
			p.Allow = append(p.Allow, word)
			if again := c.ask(compile(t, p)); !again.Allowed {
				t.Errorf("%q: with %s still %+v", c.words, v.Hint, again)
			}
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	for _, p := range []Policy{
		{Allow: []string{"all"}}, {Deny: []string{"all"}}, {Allow: []string{"a b"}}, {Deny: []string{"a..b"}},
		{Allow: []string{""}}, {Ports: []int{0}}, {Ports: []int{65536}}, {Ports: []int{-1}}, {Deny: []string{"http://a/b"}},
		{Allow: []string{"0.0.0.0"}}, {Allow: []string{"[::]:80"}}, {Allow: []string{"0.*"}}, {Allow: []string{"198.18.0.0/15"}}, {Allow: []string{"198.19.1.*"}},
		{Allow: []string{"fd63:6f6e:6669:6e65::1"}}, {Allow: []string{"010.*"}}, {Deny: []string{"010.*"}}, {Allow: []string{"256.*"}}, {Allow: []string{"1.2.3.4.*"}},
	} {
		r, err := Compile(p)
		if e, ok := err.(*Error); r != nil || !ok || e.Error() == "" {
			t.Errorf("%+v: %v, %v", p, r, err)
		}
	}
	if _, err := Compile(Policy{Allow: []string{"ok.com", "not ok"}}); err == nil || !strings.HasPrefix(err.Error(), `"not ok" contains`) {
		t.Errorf("the word isn't named: %v", err)
	}
}
