package changes

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/confine-run/confine/internal/unseen"
)

// Quote makes a name safe for a terminal, as git does: within double quotes with
// octal escapes if it has a quote, a backslash, or anything that doesn't print. Within
// quotes too if it could be taken for a name and what diff says of it, or has a blank at an end
// or two in a row, which nobody sees; else as it is.
func Quote(name string) string {
	plain := name != "" && !annotated(name) && !blanks(name)
	for i, r := range name {
		if bad(name, i, r) || r == '"' || r == '\\' {
			plain = false
			break
		}
	}
	if plain {
		return name
	}
	const short = "\a\b\t\n\v\f\r\"\\"
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(name); {
		r, n := utf8.DecodeRuneInString(name[i:])
		at := -1
		if r < utf8.RuneSelf {
			at = strings.IndexByte(short, byte(r))
		}
		switch {
		case at >= 0:
			b.WriteByte('\\')
			b.WriteByte(`abtnvfr"\`[at])
		case bad(name, i, r):
			for _, c := range []byte(name[i : i+n]) {
				b.Write([]byte{'\\', '0' + c>>6, '0' + c>>3&7, '0' + c&7})
			}
		default:
			b.WriteString(name[i : i+n])
		}
		i += n
	}
	b.WriteByte('"')
	return b.String()
}

func blanks(name string) bool {
	return name[0] == ' ' || name[len(name)-1] == ' ' || strings.Contains(name, "  ") ||
		strings.Contains(name, " /") || strings.Contains(name, "/ ")
}

// annotated: the name ends, or goes on, as a line of diff does behind a name.
func annotated(name string) bool {
	if strings.Contains(name, " → ") || strings.Contains(name, " (") {
		return true
	}
	mode := name[max(0, len(name)-5):]
	return len(mode) == 5 && mode[0] == ' ' && strings.Trim(mode[1:], "01234567") == ""
}

// bad: what a terminal may take for an order, or doesn't show.
func bad(s string, i int, r rune) bool {
	if r == utf8.RuneError {
		_, n := utf8.DecodeRuneInString(s[i:])
		return n <= 1
	}
	return r != ' ' && !unicode.IsPrint(r) || unseen.Is(r)
}

// escapes is said above a patch in which something is escaped.
const escapes = `# escaped, so not for patch(1): \xNN is a byte, \uNNNN or \UNNNNNNNN a character, \\ a backslash` + "\n"

// printable makes the lines of a patch safe for a terminal: tab and newline stay. Where
// something has to be escaped, backslashes are too, so that no other text looks the same; but
// not the one that begins a line, which is the patch's own.
func printable(text []byte) (out []byte, escaped bool) {
	before := rune(-1)
	for i := 0; i < len(text) && !escaped; {
		r, n := utf8.DecodeRune(text[i:])
		escaped = unprintable(r, n) || hidden(before, r, text[i+n:]) // the first has nothing escaped before it
		before = r
		i += n
	}
	if !escaped {
		return text, false
	}
	out = make([]byte, 0, len(text))
	before = -1
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		switch {
		case r == '\\' && i > 0 && text[i-1] != '\n':
			out = append(out, `\\`...)
		case unprintable(r, n):
			for _, c := range text[i : i+n] {
				out = fmt.Appendf(out, `\x%02x`, c)
			}
			r = -1 // none that anything could belong to
		case hidden(before, r, text[i+n:]) && r > 0xffff:
			out = fmt.Appendf(out, `\U%08x`, r)
		case hidden(before, r, text[i+n:]):
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			out = append(out, text[i:i+n]...)
		}
		before = r
		i += n
	}
	return out, true
}

// unprintable: a control character that is none of the text's own, or no character at all.
func unprintable(r rune, n int) bool {
	return r == utf8.RuneError && n <= 1 || r < 0x20 && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0
}

// hidden: a character that nobody sees, and that isn't how an emoji is written.
func hidden(before, r rune, rest []byte) bool {
	if !unseen.Is(r) {
		return false
	}
	after, _ := utf8.DecodeRune(rest)
	return !unseen.Emoji(before, r, after)
}

// encode makes any bytes a string that JSON keeps. decode takes nothing but what
// encode makes.
func encode(name string) string {
	q := strconv.QuoteToASCII(name)
	return q[1 : len(q)-1]
}

func decode(s string) (string, error) {
	name, err := strconv.Unquote(`"` + s + `"`)
	if err != nil || encode(name) != s {
		return "", fmt.Errorf("name %q isn't encoded as it should be", s)
	}
	return name, nil
}
