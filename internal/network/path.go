package network

import (
	"strings"
	"unicode/utf8"
)

const longestPath = 4096

// lookalikes are what some servers make a dot or a slash of.
const lookalikes = "\uff0e\u2024\uff0f\u2044\u2215\uff3c"

// cleanPath decodes the path of a request. It isn't ok for one that two servers could
// take for two paths: dots and slashes that are encoded, segments that lead upwards or
// nowhere, what would be decoded twice.
func cleanPath(raw string) (path string, ok bool) {
	if raw == "" || raw[0] != '/' || len(raw) > longestPath {
		return "", false
	}
	decoded := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		switch {
		case c == '%':
			if i+2 >= len(raw) {
				return "", false
			}
			high, low := unhex(raw[i+1]), unhex(raw[i+2])
			if high < 0 || low < 0 {
				return "", false
			}
			c = byte(high<<4 | low)
			if c < ' ' || c == 0x7f || strings.IndexByte(`/\.%`, c) >= 0 {
				return "", false
			}
			i += 2
		case c <= ' ' || c >= 0x7f || strings.IndexByte(`\?#`, c) >= 0:
			return "", false
		}
		decoded = append(decoded, c)
	}
	path = string(decoded)
	if !utf8.ValidString(path) || strings.ContainsAny(path, lookalikes) {
		return "", false
	}
	rest := path[1:]
	for rest != "" {
		segment, after, _ := strings.Cut(rest, "/")
		name, _, _ := strings.Cut(segment, ";") // servlets drop what follows, then go upwards
		if segment == "" || (name != "" && strings.Trim(name, ". ") == "") {
			return "", false
		}
		rest = after
	}
	return path, true
}

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// encodePath is the one spelling of a decoded path. It has nothing in it that a list
// of words, or a shell, would split.
func encodePath(path string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(path) {
		switch c := path[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~/", c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
	return b.String()
}

// readPath reads the path of a word.
func (r *rule) readPath(raw string) *Error {
	const hint = `it takes "http://example.com/*", "http://example.com/api/*" or "http://example.com/api"`
	if strings.ContainsAny(raw, "?#") {
		return mistake("names more than a path", "leave away what follows it: "+hint)
	}
	raw, r.below = strings.CutSuffix(raw, "/*")
	if r.below {
		raw += "/"
	}
	if strings.Contains(raw, "*") {
		return mistake("has a star within its path", hint+"; a star of the path itself is %2A")
	}
	path, ok := cleanPath(raw)
	if !ok || len(path) > longestPath/4 {
		return mistake("has a path that could be read in two ways", hint)
	}
	r.path = path
	return nil
}

func (r *rule) takesPath(path string) bool {
	if r.below {
		return strings.HasPrefix(path, r.path)
	}
	return path == r.path
}
