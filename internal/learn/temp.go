package learn

import (
	"path"
	"strings"
)

// isTemp says whether a name looks as if it was made up by the run: of mkstemp, of an
// editor, of an atomic replacement, or with a number, digest or UUID in it (of which the last
// part is one of twelve hexadecimal digits).
func isTemp(name string) bool {
	name = path.Base(name)
	for _, end := range [...]string{".tmp", ".temp", ".swp", ".swx", ".swo", ".part", ".partial", ".lock", ".new", "~"} {
		if strings.HasSuffix(name, end) && len(name) > len(end) {
			return true
		}
	}
	for _, begin := range [...]string{"tmp", ".tmp", "temp", ".goutputstream-", ".nfs", "go-build", "pip-", "cc"} {
		if rest, ok := strings.CutPrefix(name, begin); ok && random(strings.Trim(rest, "-._")) {
			return true
		}
	}
	for part := range strings.FieldsFuncSeq(name, func(r rune) bool { return strings.ContainsRune("-._~+#,@:= ", r) }) {
		if random(part) {
			return true
		}
	}
	return false
}

// random: long enough, and of a kind that nobody types: digits only, hexadecimal, or
// letters of both cases and digits mixed.
func random(s string) bool {
	const short, digest = 6, 12
	digits, upper, lower, hex := 0, 0, 0, 0
	for i := range len(s) {
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			digits++
			hex++
		case c >= 'a' && c <= 'z':
			lower++
			if c <= 'f' {
				hex++
			}
		case c >= 'A' && c <= 'Z':
			upper++
		case c != '_':
			return false
		}
	}
	n := len(s)
	switch {
	case n < short:
		return false
	case digits == n:
		return true
	case hex == n && n >= digest && digits >= n/8:
		return true
	case n <= 16 && upper > 0 && lower > 0:
		return digits > 0 && flips(s) > 2 || flips(s) > 4
	}
	return n <= 16 && digits >= 2 && lower+upper >= 2 && flips(s) > 2
}

// flips counts changes between kinds of letters.
func flips(s string) (n int) {
	kind := func(c byte) int {
		switch {
		case c >= '0' && c <= '9':
			return 0
		case c >= 'a' && c <= 'z':
			return 1
		}
		return 2
	}
	for i := 1; i < len(s); i++ {
		if kind(s[i]) != kind(s[i-1]) {
			n++
		}
	}
	return n
}
