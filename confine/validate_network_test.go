package confine

import (
	"net/netip"
	"strings"
	"testing"
)

func TestHosts(t *testing.T) {
	long := strings.Repeat("a", 63)
	tryCanonical(t, "allow-network", here, []canonCase{
		{"all", "all"},
		{"example.com", "example.com"},
		{"Example.COM.", "example.com"},
		{"example.com:443", "example.com:443"},
		{"*.github.com", "*.github.com"},
		{"api.*.com", "api.*.com"},
		{"127.*", "127.*"},
		{"192.168.*", "192.168.*"},
		{"*", "*"},
		{"*:443", "*:443"},
		{"localhost:8080", "localhost:8080"},
		{"a_b.example", "a_b.example"},
		{"xn--bcher-kva.example", "xn--bcher-kva.example"},
		{"10.1.2.3", "10.1.2.3"},
		{"10.1.2.3:80", "10.1.2.3:80"},
		{"10.0.0.0/8", "10.0.0.0/8"},
		{"10.0.0.0/8:443", "10.0.0.0/8:443"},
		{"fd00::/8", "fd00::/8"},
		{"[fd00::/8]:443", "[fd00::/8]:443"},
		{"::1", "::1"},
		{"0:0::1", "::1"},
		{"[::1]", "::1"},
		{"[::1]:8080", "[::1]:8080"},
		{"::ffff:10.0.0.1", "10.0.0.1"},
		{"https://example.com/*", "example.com:443"},
		{"HTTPS://example.com", "example.com:443"},
		{"http://example.com/", "example.com:80"},
		{"https://example.com:8443/*", "example.com:8443"},
		{"https://[::1]/*", "[::1]:443"},
		{long + ".example", long + ".example"},

		{"", "!no host"},
		{":80", "!no host"},
		{"https://", "!no host"},
		{".", "!is not a host"},
		{"..", "!is not a host"},
		{"a..b", "!is not a host"},
		{".example.com", "!is not a host"},
		{"-a.example", "!is not a host"},
		{"a-.example", "!is not a host"},
		{"a" + long + ".example", "!is not a host"},
		{strings.Repeat("a.", 127) + "com", "!longer"},
		{"exa mple.com", "!contains ' '"},
		{"example.com ", "!contains ' '"},
		{"example.com\r", `!contains '\r'`},
		{"example.com\nevil", `!contains '\n'`},
		{"example.com\x00.evil", "!NUL"},
		{"example.com%00.evil", "!contains '%'"},
		{"fe80::1%eth0", "!not an address"},
		{"user@example.com", "!contains '@'"},
		{"bücher.example", "!xn--"},
		{"example.com/x", "!range of addresses"},
		{"example.com:443/x", "!a port that"},
		{"https://example.com/path", "!names a path"},
		{"https://example.com/*/x", "!names a path"},
		{"ftp://example.com", "!unknown scheme"},
		{"htps://example.com", `!did you mean "http`},
		{"example.com:", "!no port"},
		{"example.com:0", "!is zero"},
		{"example.com:65536", "!too large"},
		{"example.com:http", "!not a number"},
		{"example.com:80:90", "!not an address"},
		{"[::1", "!is not a host"},
		{"[::1]x", "!is not a host"},
		{"[::1]:", "!is not a host"},
		{"[example.com]:80", "!is not a host"},
		{"::1]:80", "!not an address"},
		{"10.1.2.3/8", `!it takes "10.0.0.0/8"`},
		{"10.0.0.0/33", "!range of addresses"},
		{"127.1", "!whole address"},
		{"2130706433", "!whole address"},
		{"0x7f.1", "!whole address"},
		{"0x7f000001", "!whole address"},
		{"010.0.0.1", "!whole address"},
		{"1.2.3.4.5", "!whole address"},
		{"256.1.1.1", "!whole address"},
		{"1.2.3.4.", "!whole address"},
	})
	tryCanonical(t, "deny-network", here, []canonCase{{"*.internal", "*.internal"}, {"localhost", "localhost"}, {"all", "!allow nothing"}})
}

func TestPorts(t *testing.T) {
	tryCanonical(t, "allow-port", here, []canonCase{
		{"1", "1"}, {"443", "443"}, {"65535", "65535"}, {"0", "!is zero"}, {"65536", "!too large"}, {"-1", "!negative"}, {"http", "!not a number"}, {"", "!not a number"},
	})
	tryCanonical(t, "publish", here, []canonCase{
		{"8080:80", "8080:80"}, {"80", "!no port inside"}, {"0:80", "!outside that is zero"}, {"80:0", "!inside that is zero"}, {"a:80", "!outside"}, {"1:2:3", "!inside"},
	})
}

// Whatever is accepted is printable ASCII without anything that another reader
// could split, and is its own canonical form.
func FuzzHost(f *testing.F) {
	for _, s := range []string{"example.com:443", "*.a.b", "[::1]:80", "10.0.0.0/8", "https://a/*", "a%00b", "::ffff:1.2.3.4", "0x7f.1", "A.b.", "[fd00::/8]:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := checkHost(place{}, s)
		if err != nil {
			return
		}
		if got == "" || strings.Trim(got, "abcdefghijklmnopqrstuvwxyz0123456789.-_*:[]/") != "" {
			t.Fatalf("%q became %q", s, got)
		}
		if again, err := checkHost(place{}, got); err != nil || again != got {
			t.Fatalf("%q became %q, then %q, %v", s, got, again, err)
		}
		if a, err := netip.ParseAddr(s); err == nil && a.Unmap().String() != got {
			t.Fatalf("the address %q became %q", s, got)
		}
	})
}
