package gitdir

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/must"
)

var gitConfigs = [...]struct{ text, want string }{
	{"[core]\n\thooksPath = .husky/_\n", "core.hookspath=.husky/_"},
	{"[Core] HooksPath=a b # no\n", "core.hookspath=a b"},
	{"; no\n# [core]\n[core]\nx\ny = \n", "core.x= core.y="},
	{"[include]\n\tpath = \"a#b;c\" ; no\n", "include.path=a#b;c"},
	{"[includeIf \"gitdir:~/w]\\\"x/\"]\n\tpath=../inc\n", "includeif.path=../inc"},
	{"[a \"b]\"] c = d\n[e.f]\n g=h", "a.c=d e.g=h"},
	{"[a]\nb = one\\\n two\\t\\\"three\\\"\\\\\n", "a.b=one two\t\"three\"\\"},
	{"\ufeff[a]\r\nb = c \t \r\nd = \" e \"\r\n", "a.b=c a.d= e "},
	{"[a]\nb = c\\\r\nd\n", "a.b=cd"},
	{"x = 1\n", ".x=1"},
	{"[a", ""},
	{"[a]\nb = \"c", "a.b=c"},
	{"[a]\nb = c\\", "a.b=c"},
}

// blanks: before 2.45 git made each blank in a value a space.
var blanks = strings.NewReplacer("\t", " ", "\r", " ")

func flat(all []Setting) string {
	var parts []string
	for _, s := range all {
		parts = append(parts, s.section+"."+s.Key+"="+s.Value)
	}
	return strings.Join(parts, " ")
}

func TestGitConfigIsRead(t *testing.T) {
	for _, c := range gitConfigs {
		if got := flat(ParseConfig(c.text)); got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}

// What git reads is read here, and as git does.
func FuzzGitConfig(f *testing.F) {
	for _, c := range gitConfigs {
		f.Add(c.text)
	}
	git, _ := exec.LookPath("git")
	f.Fuzz(func(t *testing.T, text string) {
		all := ParseConfig(text)
		name := filepath.Join(t.TempDir(), "config")
		must.Do(t, os.WriteFile(name, []byte(text), 0o600))
		if git == "" {
			return
		}
		out, err := exec.Command(git, "config", "--no-includes", "--null", "--list", "--file", name).Output()
		if err != nil {
			return // git refuses it
		}
		for entry := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
			name, value, _ := strings.Cut(entry, "\n")
			if name == "" {
				continue
			}
			section, key := "", name
			if i := strings.LastIndexByte(name, '.'); i >= 0 {
				section, key = name[:i], name[i+1:]
			}
			section, _, _ = strings.Cut(section, ".")
			want := Setting{section: section, Key: key, Value: blanks.Replace(value)}
			if !slices.ContainsFunc(all, func(s Setting) bool { s.Value, s.subsection = blanks.Replace(s.Value), ""; return s == want }) && !strings.Contains(value, "\n") {
				t.Errorf("%q: git reads %+v, here it is %s", text, want, fmt.Sprint(all))
			}
		}
	})
}
