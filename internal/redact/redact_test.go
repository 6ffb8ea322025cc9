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

func TestEnv(t *testing.T) {
	got := Env([]string{"SECRET_KEY=a", "HOME=/x", "GITHUB_TOKEN=", "DB=postgres://u:p@h/d"})
	want := []string{"SECRET_KEY=" + Mask, "HOME=/x", "GITHUB_TOKEN=", "DB=postgres://u:" + Mask + "@h/d"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
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
