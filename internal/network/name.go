package network

import (
	"strconv"
	"strings"
)

const (
	localhost  = "localhost"
	longest    = 253 // of a domain name, without the dot at its end
	longestOne = 63  // of a label
)

// CanonicalName gives the form in which names are compared. It isn't ok for what
// is no name, or could be one to us and an address to somebody else.
func CanonicalName(name string) (_ string, ok bool) {
	name, err := checkName(name, false)
	return name, err == nil
}

// checkName checks a domain name or, with stars, a pattern of one.
func checkName(host string, stars bool) (string, *Error) {
	host = strings.TrimSuffix(host, ".")
	if len(host) > longest {
		return "", mistake("is longer than a domain name can be", hostHint)
	}
	label := ""
	for label = range strings.SplitSeq(host, ".") {
		if label == "" || len(label) > longestOne || label[0] == '-' || label[len(label)-1] == '-' {
			return "", mistake("is not a host", hostHint)
		}
		for _, c := range label {
			switch {
			case c >= 0x80:
				return "", mistake("has letters beyond ASCII", `write the name as DNS does, "xn--…"`)
			case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '*' && stars:
			default:
				return "", mistake("contains "+strconv.QuoteRune(c), hostHint)
			}
		}
		if strings.Contains(label, "**") {
			return "", mistake("has two stars in a row", `"*.example.com" is every name below example.com, at any depth`)
		}
	}
	if numeric(label) {
		return "", mistake("is neither a name nor a whole address", "write an address with four decimal numbers")
	}
	return strings.ToLower(host), nil
}

// numeric says whether a name that ends in the label is an address to some
// resolvers: "127.1", "0x7f.1", "010.0.0.1".
func numeric(label string) bool {
	if strings.Trim(label, "0123456789") == "" {
		return true
	}
	if len(label) > 1 && label[0] == '0' && (label[1] == 'x' || label[1] == 'X') {
		return strings.Trim(label[2:], "0123456789abcdefABCDEF") == ""
	}
	if label[0] < '0' || label[0] > '9' {
		return false
	}
	_, err := strconv.ParseUint(label, 0, 64) // "0b1", "0o7"
	return err == nil
}

// matchName says whether a canonical name is one that the labels of a pattern stand for.
func matchName(pattern []string, name string) bool {
	deep := pattern[0] == "*" // stands for one label or more
	for i := len(pattern) - 1; i >= 0; i-- {
		if i == 0 && deep {
			return name != ""
		}
		label := name
		if dot := strings.LastIndexByte(name, '.'); dot >= 0 {
			name, label = name[:dot], name[dot+1:]
		} else {
			name = ""
		}
		if label == "" || !matchLabel(pattern[i], label) {
			return false
		}
	}
	return name == ""
}

// matchLabel: a star stands for any letters, also none. It takes the least
// that it can and goes back only to the last star, so it is quadratic at worst.
func matchLabel(pattern, label string) bool {
	p, l, star, from := 0, 0, -1, 0
	for l < len(label) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, l
			p++
		case p < len(pattern) && pattern[p] == label[l]:
			p++
			l++
		case star >= 0:
			from++
			p, l = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// isLocalhost: RFC 6761 gives everything below localhost to loopback.
func isLocalhost(name string) bool {
	return name == localhost || strings.HasSuffix(name, "."+localhost)
}

// ownZones are where one's own services have their names; nobody can buy one there.
var ownZones = [...]string{
	".local",     // RFC 6762, multicast DNS
	".internal",  // reserved by ICANN for private use
	".lan",       // what home routers give
	".home.arpa", // RFC 8375
}

// ownZone says whether a pattern lies literally in one of them.
func ownZone(host string) bool {
	for _, zone := range ownZones {
		if strings.HasSuffix(host, zone) {
			return true
		}
	}
	return false
}
