package redact

import (
	"slices"
	"strings"
	"testing"
)

func TestRedact(t *testing.T) {
	for _, c := range []struct{ in, want []string }{
		{[]string{"curl", "--token", "x1", "u"}, []string{"curl", "--token", Mask, "u"}},
		{[]string{"p", "--password=hunter2"}, []string{"p", "--password=" + Mask}},
		{[]string{"p", "--password", "--verbose"}, []string{"p", "--password", "--verbose"}},
		{[]string{"env", "API_KEY=abc", "A=b"}, []string{"env", "API_KEY=" + Mask, "A=b"}},
		{[]string{"git", "clone", "https://me:pw@host/x"}, []string{"git", "clone", "https://me:" + Mask + "@host/x"}},
		{[]string{"curl", "-H", "Authorization: Bearer abc.def"}, []string{"curl", "-H", "Authorization: Bearer " + Mask}},
		{[]string{"x", "ghp_0123456789abcdef0123"}, []string{"x", "ghp_" + Mask}},
		{[]string{"x", "key:AKIA0123456789ABCDEF;"}, []string{"x", "key:AKIA" + Mask + ";"}},
		{[]string{"git", "--author=me", "PWD=/x", "ghp_short"}, []string{"git", "--author=me", "PWD=/x", "ghp_short"}},
		{[]string{"sh", "-c", "echo $((1==2))"}, []string{"sh", "-c", "echo $((1==2))"}},
		{[]string{"task-runner", "risk-0123456789012345678901"}, []string{"task-runner", "risk-0123456789012345678901"}},
		{[]string{"x", "--max-tokens", "5", "--tokenizer=bpe", "--password-file", "/p"}, []string{"x", "--max-tokens", "5", "--tokenizer=bpe", "--password-file", "/p"}},
		{[]string{"mysql", "-uroot", "-phunter2", "-p", "db"}, []string{"mysql", "-uroot", "-p" + Mask, "-p", "db"}},
		{[]string{"sudo", "/usr/bin/mysql", "-phunter2"}, []string{"sudo", "/usr/bin/mysql", "-p" + Mask}},
		{[]string{"mkdir", "-phunter2"}, []string{"mkdir", "-phunter2"}},
		{[]string{"sshpass", "-p", "hunter2", "ssh", "-p", "22"}, []string{"sshpass", "-p", Mask, "ssh", "-p", Mask}},
		{[]string{"curl", "-u", "me:pw", "--user=me:pw", "-ume:pw", "-u", "me"}, []string{"curl", "-u", "me:" + Mask, "--user=me:" + Mask, "-ume:" + Mask, "-u", "me"}},
		{[]string{"curl", "https://h/p?a=b&access_token=x1&c=d#e"}, []string{"curl", "https://h/p?a=b&access_token=" + Mask + "&c=d#e"}},
		{[]string{"curl", "-HX-Api-Key: abc", "-H", "Accept: text/html"}, []string{"curl", "-HX-Api-Key: " + Mask, "-H", "Accept: text/html"}},
		{[]string{"curl", "-d", `{"user":"me","password": "a\"b","n":1}`}, []string{"curl", "-d", `{"user":"me","password": "` + Mask + `","n":1}`}},
		{[]string{"mount", "-o", "user=a,password=b,ro"}, []string{"mount", "-o", "user=a,password=" + Mask + ",ro"}},
		{[]string{"sh", "-c", "curl --token abc 'https://me:pw@h/' && PASSWORD=x mysql -pfoo db"}, []string{"sh", "-c", "curl --token " + Mask + " 'https://me:" + Mask + "@h/' && PASSWORD=" + Mask + " mysql -p" + Mask + " db"}},
		{[]string{"x", "-----BEGIN EC PRIVATE KEY-----\nabc\n-----END EC PRIVATE KEY-----\n"}, []string{"x", "-----BEGIN EC PRIVATE KEY-----" + Mask + "-----END EC PRIVATE KEY-----\n"}},
		{[]string{"x", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"}, []string{"x", "eyJ" + Mask}},
		{[]string{"git", "clone", "https://ghp_0123456789abcdef0123@host/x"}, []string{"git", "clone", "https://ghp_" + Mask + "@host/x"}},
		{[]string{"python3", "-c", "print('a: b', 1 == 2)\nx = {'k': 'v'}"}, []string{"python3", "-c", "print('a: b', 1 == 2)\nx = {'k': 'v'}"}},
		{[]string{"x", "SECRET_KEY=a", "HOME=/x", "GITHUB_TOKEN=", "DB=postgres://u:p@h/d"}, []string{"x", "SECRET_KEY=" + Mask, "HOME=/x", "GITHUB_TOKEN=", "DB=postgres://u:" + Mask + "@h/d"}},
		{nil, []string{}},
	} {
		before := slices.Clone(c.in)
		if got := Redact(c.in); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.in, got, c.want)
		}
		if !slices.Equal(before, c.in) {
			t.Errorf("%q was changed in place", before)
		}
	}
}

// Whatever stands around it, a known token never comes through.
func FuzzRedact(f *testing.F) {
	const secret = "ghp_SECRETSECRETSECRETSECRET"
	for _, s := range []string{"a ", "mysql -p", "https://x:", "\"token\": \"", "Cookie: ", "x=", "\xff", "---", "sh -c '"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, before, after string) {
		if n := len(before); n > 0 && letter(before[n-1]) {
			before += " "
		}
		for _, argv := range [][]string{{"x", before + secret + after}, {before, secret, after}, {"sh", "-c", before, secret + after}} {
			got := Redact(argv)
			if len(got) != len(argv) {
				t.Fatalf("%q: %q", argv, got)
			}
			for _, w := range got {
				if strings.Contains(w, secret[4:]) {
					t.Errorf("%q: %q", argv, got)
				}
			}
		}
	})
}

func FuzzWord(f *testing.F) {
	for _, s := range []string{"https://a:b@c", "--token=x", "Authorization: Basic x", "://://@:", "ghp_0123456789abcdef0123"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once := Word(s)
		if twice := Word(once); strings.Count(twice, Mask) < strings.Count(once, Mask) {
			t.Errorf("%q: %q, then %q", s, once, twice)
		}
		if got := Word("PASSWORD=" + s); s != "" && got != "PASSWORD="+Mask {
			t.Errorf("%q", got)
		}
	})
}
