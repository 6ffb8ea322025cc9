package changes

import (
	"strconv"
	"strings"
	"testing"
)

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
