package changes

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Two texts never look the same in a patch, whatever they are made of.
func TestAPatchSaysWhatIsEscaped(t *testing.T) {
	for name, c := range map[string]struct {
		old, new, want string
		note           bool
	}{
		"a control character and its escape": {"x\r\n", "x\\x0d\n", "-x\\x0d\n+x\\\\x0d\n", true},
		"the other way round":                {"x\\x0d\n", "x\r\n", "-x\\\\x0d\n+x\\x0d\n", true},
		"a hidden one":                       {"a\u202eb\n", "a\\u202eb\n", "-a\\u202eb\n+a\\\\u202eb\n", true},
		"a byte that is no character":        {"\xff\n", "\\xff\n", "-\\xff\n+\\\\xff\n", true},
		"in a line that stays":               {"\\\x1b\nx\n", "\\\x1b\ny\n", " \\\\\\x1b\n-x\n+y\n", true},
		"backslashes alone":                  {"a\\n\n", "a\\\\x0d\n", "-a\\n\n+a\\\\x0d\n", false},
		"without an end":                     {"x\r", "\\", "-x\\x0d\n\\ No newline at end of file\n+\\\\\n\\ No newline at end of file\n", true},
		"without an end, and plain":          {"x", "\\ No", "-x\n\\ No newline at end of file\n+\\ No\n\\ No newline at end of file\n", false},
		"tabs":                               {"\ta\n", "\tb\n", "-\ta\n+\tb\n", false},
		"what looks like a head":             {"a\n@@ -1 +1 @@\n", "b\n@@ -1 +1 @@\n", "-a\n+b\n @@ -1 +1 @@\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, map[string]string{"f": c.old}, map[string]string{"f": c.new})
			got := diffOf(t, s.keep(t), DiffOptions{Patch: true})
			_, hunk, _ := strings.Cut(got, " @@\n")
			if hunk != c.want {
				t.Errorf("%q, want %q", hunk, c.want)
			}
			head := "M f\ndiff a/f b/f\n"
			if c.note {
				head += escapes
			}
			if !strings.HasPrefix(got, head+"--- a/f\n+++ b/f\n@@ ") {
				t.Errorf("%q", got)
			}
		})
	}
}

// Names with blanks end in a tab, as diff and git have them.
func TestAPatchOfNamesWithBlanks(t *testing.T) {
	old := map[string]string{"sp d/f f": "1\n", "plain": "1\n", "two  blanks": "1\n", "gone now": "1\n", "q\"uote d": "1\n"}
	new := map[string]string{"sp d/f f": "2\n", "plain": "2\n", "two  blanks": "2\n", "new one/of these": "2\n", "q\"uote d": "2\n", "back\\slash": "a\\n\n", "ü ä": "2"}
	s := newScene(t, old, new)
	whiteout(t, s.upper+"/gone now")
	r := s.keep(t)
	patch := diffOf(t, r, DiffOptions{Patch: true})
	for _, want := range []string{
		"--- a/sp d/f f\t\n+++ b/sp d/f f\t\n@@ ", "--- a/plain\n+++ b/plain\n@@ ", "--- \"a/two  blanks\"\t\n+++ \"b/two  blanks\"\t\n",
		"--- a/gone now\t\n+++ /dev/null\n@@ ", "--- /dev/null\n+++ b/new one/of these\t\n@@ ",
	} {
		if !strings.Contains(patch, want) {
			t.Errorf("%q isn't in %s", want, patch)
		}
	}
	delete(old, "gone now")
	for _, words := range []string{"patch -p1 -s", "git apply -p1"} {
		t.Run(words, func(t *testing.T) {
			tool := strings.Fields(words)
			if _, err := exec.LookPath(tool[0]); err != nil {
				t.Skip(err)
			}
			dir := t.TempDir()
			build(t, dir, old)
			build(t, dir, map[string]string{"gone now": "1\n"})
			cmd := exec.Command(tool[0], tool[1:]...)
			cmd.Dir, cmd.Stdin = dir, strings.NewReader(patch)
			cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s\n%s", err, out, patch)
			}
			for name, want := range new {
				if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
					t.Errorf("%s: %q, %v", name, got, err)
				}
			}
			if _, err := os.Lstat(dir + "/gone now"); err == nil {
				t.Error("not removed")
			}
			if all, err := os.ReadDir(dir); err != nil || len(all) != len(new) {
				t.Errorf("%v, %v", all, err)
			}
		})
	}
}

// unescaped reads what printable has made of lines that all begin with a sign.
func unescaped(t *testing.T, s string) string {
	var out []byte
	for i := 0; i < len(s); {
		n := 1
		if s[i] != '\\' {
			out = append(out, s[i])
		} else if s[i+1] == '\\' {
			out, n = append(out, '\\'), 2
		} else {
			digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[i+1]]
			c, err := strconv.ParseUint(s[i+2:i+2+digits], 16, 32)
			if err != nil || digits == 0 {
				t.Fatalf("%q at %d: %v", s, i, err)
			}
			if n = 2 + digits; digits == 2 {
				out = append(out, byte(c))
			} else {
				out = append(out, string(rune(c))...)
			}
		}
		i += n
	}
	return string(out)
}

// What was there can be told from what is shown, and what is shown holds nothing that isn't.
func FuzzPrintable(f *testing.F) {
	for _, s := range []string{`a\x0d`, "a\r", "\\\\\r\nb", "\xff\\xff", "\u202e\\u202e\\\\", "plain\\n", "❤\ufe0f\ufe0f\U000e0041\\U000e0041", "1\ufe0f", "\xff\ufe0f"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = "+" + strings.ReplaceAll(text, "\n", "\n+")
		shown, escaped := printable([]byte(text))
		if back := string(shown); !escaped && back != text || escaped && unescaped(t, back) != text {
			t.Errorf("%q: %q", text, shown)
		}
		if _, more := printable(shown); more {
			t.Errorf("%q: %q", text, shown)
		}
	})
}
