// Package quote writes text as files have it.
package quote

import "unicode/utf8"

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
