package confine

import (
	"errors"
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
		{"https://example.com/*", "https://example.com/*"},
		{"HTTPS://Example.com", "https://example.com/*"},
		{"https://example.com:443", "https://example.com/*"},
		{"http://example.com/", "http://example.com/*"},
		{"https://example.com:8443/*", "https://example.com:8443/*"},
		{"https://[::1]/*", "https://[::1]/*"},
		{"http://[::1]:80/*", "http://[::1]/*"},
		{"https://*.example.com/*", "https://*.example.com/*"},
		{"http://localhost:3000/*", "http://localhost:3000/*"},
		{"http://example.com/api/*", "http://example.com/api/*"},
		{"http://example.com/API", "http://example.com/API"},
		{"http://example.com:8080/a/b/", "http://example.com:8080/a/b/"},
		{"http://example.com/%7euser/a%20b", "http://example.com/~user/a%20b"},
		{"http://example.com/a,b:c", "http://example.com/a%2Cb%3Ac"},
		{"::ffff:10.0.0.0/104", "10.0.0.0/8"},
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
		{"https://example.com/path", "!encrypted"},
		{"http://example.com/*/x", "!star within"},
		{"http://example.com/a*", "!star within"},
		{"http://example.com/a?b", "!more than a path"},
		{"http://example.com/a#b", "!more than a path"},
		{"http://example.com/../a", "!two ways"},
		{"http://example.com/a//b", "!two ways"},
		{"http://example.com/a%2fb", "!two ways"},
		{"http://example.com/%2e%2e/a", "!two ways"},
		{"http://example.com//*", "!two ways"},
		{"http://10.0.0.0/8/*/x", "!star within"},
		{"**.example.com", "!two stars"},
		{"10.1*", "!whole address"},
		{"300.*", "!whole address"},
		{"0.0.0.0", "!no address"},
		{"[::]:80", "!no address"},
		{"198.18.0.5", "!stand for inside"},
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
	tryCanonical(t, "deny-network", here, []canonCase{
		{"https://evil.com/*", "evil.com:443"}, {"http://evil.com:8080", "evil.com:8080"}, {"10.0.0.0/8:25", "10.0.0.0/8:25"},
		{"0.0.0.0", "0.0.0.0"}, {"*:25", "*:25"}, {"http://evil.com/admin/*", "!only hosts can be denied"}, {"ftp://evil.com", "!unknown scheme"},
		{"*.internal", "*.internal"}, {"localhost", "localhost"}, {"all", "!allow nothing"}})
}

func TestPorts(t *testing.T) {
	tryCanonical(t, "allow-port", here, []canonCase{
		{"1", "1"}, {"443", "443"}, {"65535", "65535"}, {"0", "!is zero"}, {"65536", "!too large"}, {"-1", "!negative"}, {"http", "!not a number"}, {"", "!not a number"},
	})
	tryCanonical(t, "publish", here, []canonCase{
		{"8080:80", "8080:80"}, {"80", "!no port inside"}, {"0:80", "!outside that is zero"}, {"80:0", "!inside that is zero"}, {"a:80", "!outside"}, {"1:2:3", "!inside"},
	})
}

// Whatever is accepted is its own canonical form, and has nothing in it that a list of words
// could be split at.
func FuzzHost(f *testing.F) {
	for _, s := range []string{"example.com:443", "[::1]:80", "10.0.0.0/8", "https://a/*", "http://a/b,c/*", "a,b", "all"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, option := range []string{"allow-network", "deny-network"} {
			o := LookupOption(option)
			got, err := o.canonical(place{}, s)
			if err != nil {
				var u *UsageError
				if !errors.As(err, &u) || u.Msg == "" {
					t.Fatalf("%s %q: %v", option, s, err)
				}
				continue
			}
			if got == "" || strings.ContainsAny(got, ", \t\r\n\x00") {
				t.Fatalf("%s %q became %q", option, s, got)
			}
			if again, err := o.canonical(place{}, got); err != nil || again != got {
				t.Fatalf("%s %q became %q, then %q, %v", option, s, got, again, err)
			}
		}
	})
}
