package names

import "strings"

// Host is the sandbox's own name.
const Host = "confine"

const (
	maxName  = 253 // in text, without the dot at the end
	maxLabel = 63
)

// canonical is a name from the wire the way names are kept: lower case, without the
// dot at its end. So neither case nor a dot makes two names of one. ok is false for what
// is no name of a host, the root among them.
func canonical(wire string) (name string, ok bool) {
	name = lower(strings.TrimSuffix(wire, "."))
	return name, IsCanonical(name)
}

// lower is not strings.ToLower, which makes a plain "k" of the sign for Kelvin, U+212A.
func lower(name string) string {
	b := []byte(name)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// IsCanonical tells whether a name is one of a host, the way names are kept here:
// labels of lower case letters, digits, "-" and "_" (which RFC 952 hasn't, and
// hosts have), and no address in any notation.
func IsCanonical(name string) bool {
	if name == "" || len(name) > maxName {
		return false
	}
	start := 0
	for i := range len(name) + 1 {
		if i < len(name) && name[i] != '.' {
			if !ofLabel(name[i]) {
				return false
			}
			continue
		}
		if i == start || i-start > maxLabel {
			return false
		}
		if i < len(name) {
			start = i + 1
		}
	}
	return !numeric(name[start:])
}

func ofLabel(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

// numeric tells whether a last label makes the name an address to somebody:
// inet_aton(3) takes 127.1, 0x7f.1 and 2130706433 for one, and what is an address to
// the caller's resolver is no name that was looked up. No top-level domain is like that.
func numeric(label string) bool {
	digits, set := label, "0123456789"
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		digits, set = hex, "0123456789abcdef"
	}
	return strings.Trim(digits, set) == ""
}

// under tells whether a name is another one or below it.
func under(name, top string) bool {
	rest, ok := strings.CutSuffix(name, top)
	return ok && (rest == "" || strings.HasSuffix(rest, "."))
}

// printable is a name from the wire for a log: lower case and without the dot at its
// end, so that neither makes two of one, and what isn't plain as \DDD, the way zone files
// have it. A log is read by people and programs that a newline or an escape could deceive.
func printable(wire string) string {
	if wire == "." {
		return wire
	}
	wire = lower(strings.TrimSuffix(wire, "."))
	b := make([]byte, 0, len(wire))
	for i := range len(wire) {
		switch c := wire[i]; {
		case c == '\\' || c == '"':
			b = append(b, '\\', c)
		case '!' <= c && c <= '~':
			b = append(b, c)
		default:
			b = append(b, '\\', '0'+c/100, '0'+c/10%10, '0'+c%10)
		}
	}
	return string(b)
}
