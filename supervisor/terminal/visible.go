package terminal

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/unseen"
)

const hex = "0123456789abcdef"

// Visible returns s with everything that isn't a printable character written out
// as Go would: control characters (C0, DEL, C1), line and paragraph
// separators, what reorders or hides text (bidirectional controls, zero-width
// and tag characters, variation selectors), letters that look blank, spaces that aren't U+0020, and bytes that aren't UTF-8.
func Visible(s string) string {
	i := firstHidden(s)
	if i < 0 {
		return s
	}
	var b strings.Builder
	b.WriteString(s[:i])
	for i < len(s) {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			b.WriteString(`\x`)
			b.WriteByte(hex[s[i]>>4])
			b.WriteByte(hex[s[i]&15])
		case shows(r):
			b.WriteString(s[i : i+n])
		default:
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		}
		i += n
	}
	return b.String()
}

// firstHidden is where Visible has something to do, or -1.
func firstHidden(s string) int {
	for i, r := range s {
		if !shows(r) || r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD") {
			return i
		}
	}
	return -1
}

func shows(r rune) bool { return strconv.IsPrint(r) && !unseen.Is(r) }

// Blame is what a command says of an error: a line of what it is, and one of what to do about it. Nothing in either breaks out of its line: names of files in an
// error are somebody's who chose them.
func Blame(command string, err error) string {
	text, remedy := hint.Split(err)
	said := command + ": " + Visible(text)
	if remedy != "" {
		said += "\n" + command + ": hint: " + Visible(remedy)
	}
	return said
}
