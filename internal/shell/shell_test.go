package shell

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// words are what a shell has a use for, if it isn't told otherwise.
var words = []string{"", "a b", "$HOME", "`id`", "$(id)", `"`, `\`, "'", "it's ''", "*", "~", "#x", "!!", "a;b", "-n", "é", "a=b", "=", "{a,b}", "x;touch PWNED;#", "\ufffd"}

// odd can't be shown as they are.
var odd = []string{"a\nb", "\x1b[31m", "\xff", "a\tb", "\u202e", "\u3164", "a\ufe0f", "\n'; echo run; '", "é\n1", "\n!!\\", "\n$(id)`id`\""}

func TestWord(t *testing.T) {
	for in, want := range map[string]string{"/a/b-c_1.toml": "/a/b-c_1.toml", "/a b": "'/a b'", "/a'b": `'/a'\''b'`, "/$(x)": "'/$(x)'", "": "''",
		"a\n1": `$'a\0121'`, "\x1b'": `$'\033\047'`, "\u202e\\": `$'\342\200\256\134'`} {
		if got := Word(in); got != want {
			t.Errorf("Word(%q) = %s, want %s", in, got, want)
		}
	}
}

// A shell makes the words of it again, and runs nothing that stands in them.
func TestLine(t *testing.T) {
	argv := append([]string{"printf", `%s\0`}, words...)
	line, ok := Line(argv)
	if !ok || !strings.HasPrefix(line, "printf ") {
		t.Errorf("%v: %s", ok, line)
	}
	if first, _ := Line([]string{"a=b", "a=b"}); first != "'a=b' a=b" {
		t.Errorf("an assignment: %s", first)
	}
	if got := split(t, "sh", line); !slices.Equal(got, argv[2:]) {
		t.Errorf("%s\n%q", line, got)
	}
	for _, w := range odd {
		if _, ok := Line([]string{"echo", w}); ok {
			t.Errorf("%q can be shown", w)
		}
	}
}

// What doesn't print is one word to any shell, and the right one to those that know $'…'.
func TestLineOfWhatDoesNotPrint(t *testing.T) {
	line, _ := Line(append([]string{"printf", `%s\0`}, odd...))
	if strings.ContainsFunc(line, func(c rune) bool { return c < ' ' || c == '\u202e' }) {
		t.Errorf("%q", line)
	}
	if got := split(t, "sh", line); len(got) != len(odd) {
		t.Errorf("%s\n%q", line, got)
	}
	if got := split(t, "bash", line); !slices.Equal(got, odd) {
		t.Errorf("%s\n%q", line, got)
	}
}

func split(t *testing.T, shell, line string) []string {
	t.Helper()
	sh, err := exec.LookPath(shell)
	if err != nil {
		t.Skip("no " + shell)
	}
	out, err := exec.Command(sh, "-c", line).Output()
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}
