package terminal

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

const hex = "0123456789abcdef"

// Visible returns s with everything that isn't a printable character written out
// as Go would: control characters (C0, DEL, C1), line and paragraph
// separators, what reorders or hides text (bidirectional controls, zero-width
// and tag characters), spaces that aren't U+0020, and bytes that aren't UTF-8.
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
		case strconv.IsPrint(r):
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
		if !strconv.IsPrint(r) || r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD") {
			return i
		}
	}
	return -1
}

// appendJSON appends s as a JSON string in which nothing but printable characters
// stands as itself. Bytes that aren't UTF-8 become U+FFFD.
func appendJSON(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\t':
			b = append(b, `\t`...)
		case strconv.IsPrint(r):
			b = utf8.AppendRune(b, r)
		case r >= 0x10000:
			r -= 0x10000
			b = appendUnit(b, 0xd800+r>>10)
			b = appendUnit(b, 0xdc00+r&0x3ff)
		default:
			b = appendUnit(b, r)
		}
	}
	return append(b, '"')
}

// appendUnit appends one UTF-16 unit, escaped.
func appendUnit(b []byte, r rune) []byte {
	return append(b, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
}
