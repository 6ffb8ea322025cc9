package confine

import (
	"net/netip"
	"strconv"
	"strings"
)

const hostHint = `it takes "example.com", "*.example.com", "10.0.0.0/8", "[::1]:8080", "localhost:8080" or "https://example.com/*"`

func checkAllowHost(base place, word string) (string, error) {
	if word == wordAll {
		return word, nil
	}
	return checkHost(base, word)
}

// checkHost gives the one form in which a host or a pattern is kept: lower case,
// without a scheme, HOST[:PORT]. What it doesn't know in full it refuses: another
// reader of the same word might take it for another host.
func checkHost(_ place, word string) (string, error) {
	if word == wordAll {
		return "", mistake("stands only for what is allowed", "to reach nothing, allow nothing")
	}
	rest, port, err := cutScheme(word)
	if err != nil {
		return "", err
	}
	host, given, err := cutPort(rest)
	if err != nil {
		return "", err
	}
	if given != "" {
		if port, err = checkPort(place{}, given); err != nil {
			return "", mistake("has a port that "+err.(*UsageError).Msg, hostHint)
		}
	}
	if host, err = canonicalHost(host); err != nil {
		return "", err
	}
	if port == "" {
		return host, nil
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + port, nil
}

// cutScheme takes "https://" and the path away. Only a whole site can be
// allowed: what path is asked for can't be seen from outside.
func cutScheme(word string) (rest, port string, err error) {
	scheme, after, ok := strings.Cut(word, "://")
	if !ok {
		return word, "", nil
	}
	switch strings.ToLower(scheme) {
	case "http":
		port = "80"
	case "https":
		port = "443"
	default:
		return "", "", mistake("has an unknown scheme"+meant(scheme, []string{"http", "https"}), hostHint)
	}
	host, path, ok := strings.Cut(after, "/")
	if ok && path != "" && path != "*" {
		return "", "", mistake("names a path, which can't be told from outside", `end it with "/*"`)
	}
	return host, port, nil
}

// cutPort splits HOST:PORT. A bare IPv6 address has no port; one with a port
// needs its brackets.
func cutPort(s string) (host, port string, err error) {
	if inner, ok := strings.CutPrefix(s, "["); ok {
		host, port, ok = strings.Cut(inner, "]")
		if !ok || !strings.Contains(host, ":") || (port != "" && port[0] != ':') || port == ":" {
			return "", "", mistake("is not a host", hostHint)
		}
		return host, strings.TrimPrefix(port, ":"), nil
	}
	if strings.Count(s, ":") != 1 {
		return s, "", nil
	}
	host, port, _ = strings.Cut(s, ":")
	if port == "" {
		return "", "", mistake("has no port after its colon", hostHint)
	}
	return host, port, nil
}

func canonicalHost(host string) (string, error) {
	switch {
	case host == "":
		return "", mistake("has no host", hostHint)
	case strings.Contains(host, "/"):
		p, err := netip.ParsePrefix(host)
		if err != nil {
			return "", mistake("is not a range of addresses", `it takes "10.0.0.0/8" or "fd00::/8"`)
		}
		if p.Masked() != p {
			return "", mistake("has bits beyond its mask", "it takes "+strconv.Quote(p.Masked().String()))
		}
		return p.String(), nil
	case strings.Contains(host, ":"):
		a, err := netip.ParseAddr(host)
		if err != nil || a.Zone() != "" {
			return "", mistake("is not an address", hostHint)
		}
		return a.Unmap().String(), nil
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return a.String(), nil
	}
	return canonicalName(host)
}

// canonicalName checks a domain name or a pattern of one.
func canonicalName(host string) (string, error) {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if len(host) > 253 {
		return "", mistake("is longer than a domain name can be", hostHint)
	}
	label := ""
	for label = range strings.SplitSeq(host, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return "", mistake("is not a host", hostHint)
		}
		for _, r := range label {
			if r >= 0x80 {
				return "", mistake("has letters beyond ASCII", `write the name as DNS does, "xn--…"`)
			}
			if c := byte(r); !isLetter(c) && !isDigit(c) && c != '-' && c != '_' && c != '*' {
				return "", mistake("contains "+strconv.QuoteRune(r), hostHint)
			}
		}
	}
	// "127.1", "0x7f.1" and "010.0.0.1" are addresses to some resolvers and names to others.
	if isDigit(label[0]) && !strings.Contains(label, "*") {
		if _, err := strconv.ParseUint(label, 0, 64); err == nil || strings.Trim(label, "0123456789") == "" {
			return "", mistake("is neither a name nor a whole address", "write an address with four decimal numbers")
		}
	}
	return host, nil
}

func checkPort(_ place, word string) (string, error) {
	n, err := parseCount(word, 65535)
	if err != nil {
		return "", mistake(err.Error(), "a port is a number from 1 to 65535")
	}
	return strconv.FormatInt(n, 10), nil
}

func checkPublish(_ place, word string) (string, error) {
	const hint = `it takes "HOSTPORT:PORT", such as "8080:80"`
	outside, inside, ok := strings.Cut(word, ":")
	if !ok {
		return "", mistake("has no port inside", hint)
	}
	a, err := checkPort(place{}, outside)
	if err != nil {
		return "", mistake("has a port outside that "+err.(*UsageError).Msg, hint)
	}
	b, err := checkPort(place{}, inside)
	if err != nil {
		return "", mistake("has a port inside that "+err.(*UsageError).Msg, hint)
	}
	return a + ":" + b, nil
}
