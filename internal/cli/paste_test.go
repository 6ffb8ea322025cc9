package cli

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A shell makes the words of it again, and runs nothing that stands in them.
func TestShellLine(t *testing.T) {
	argv := []string{"printf", `%s\0`, "", "a b", "$HOME", "`id`", "$(id)", `"`, `\`, "'", "it's ''", "*", "~", "#x", "!!", "a;b", "-n", "é", "a=b", "="}
	line, ok := shellLine(argv)
	if !ok || !strings.HasPrefix(line, "printf ") {
		t.Errorf("%v: %s", ok, line)
	}
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no shell")
	}
	out, err := exec.Command(sh, "-c", line).Output()
	if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); err != nil || !slices.Equal(got, argv[2:]) {
		t.Errorf("%s\n%q, %v", line, got, err)
	}
	for _, odd := range []string{"a\nb", "\x1b[31m", "\xff", "a\tb", "\u202e", "\u3164", "a\ufe0f"} {
		if _, ok := shellLine([]string{"echo", odd}); ok {
			t.Errorf("%q can be shown", odd)
		}
	}
}
