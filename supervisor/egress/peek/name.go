package peek

import (
	"net/netip"
	"strings"
)

// hostName makes a name canonical: lower case. It has no dot at its end.
func hostName(b []byte) (string, error) {
	switch {
	case len(b) == 0:
		return "", refuse(EmptyName, "the server name is empty")
	case b[len(b)-1] == '.':
		return "", refuse(TrailingDot, "the server name ends in a dot")
	case len(b) > 253:
		return "", refuse(BadName, "the server name is longer than 253 bytes")
	}
	if _, err := netip.ParseAddr(string(b)); err == nil {
		return "", refuse(AddressName, "the server name is an address")
	}
	for _, c := range b {
		if !nameByte(c) && c != '.' {
			return "", refuse(BadName, "the server name has a character that no host name has")
		}
	}
	name := strings.ToLower(string(b))
	last := name
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 {
			return "", refuse(BadName, "a label of the server name is empty or longer than 63 bytes")
		}
		last = label
	}
	// 127.1, 0x7f.1 and the like: addresses for some resolvers.
	if strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") {
		return "", refuse(AddressName, "the server name ends in a number, as addresses do")
	}
	return name, nil
}

func nameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}
