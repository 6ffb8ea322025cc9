// Package quote writes text as files have it.
package quote

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// TOML makes a basic string. TOML has no way to write bytes that are not UTF-8: those become U+FFFD.
func TOML(s string) string {
	const hex = "0123456789ABCDEF"
	b := []byte{'"'}
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < ' ' || r == 0x7f:
			b = append(b, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return string(append(b, '"'))
}

// Size is the shortest form of a number of bytes: 64M, 1000.
func Size(n int64) string {
	if n == 0 {
		return "none"
	}
	unit := -1
	for unit < 5 && n&1023 == 0 {
		n >>= 10
		unit++
	}
	s := strconv.FormatInt(n, 10)
	if unit >= 0 {
		s += "KMGTPE"[unit : unit+1]
	}
	return s
}

// Most is how many Some names.
const Most = 3

// Some names the first of several paths.
func Some(paths []string) string {
	text := make([]string, 0, Most)
	for _, p := range paths[:min(len(paths), Most)] {
		text = append(text, strconv.Quote(p))
	}
	s := strings.Join(text, ", ")
	if n := len(paths) - Most; n > 0 {
		s += " and " + strconv.Itoa(n) + " more"
	}
	return s
}
