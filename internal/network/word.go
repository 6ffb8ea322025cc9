package network

import (
	"net/netip"
	"strconv"
	"strings"
)

const hostHint = `it takes "example.com", "*.example.com", "10.0.0.0/8", "[::1]:8080", "localhost:8080" or "https://example.com/*"`

// Canonical gives the one form in which an allowed word is kept: lower case but
// for a path, [SCHEME://]HOST[:PORT][/PATH], without a port that the scheme says already.
// The error is an *Error.
func Canonical(word string) (string, error) {
	r, err := parse(word)
	if err != nil {
		return "", err
	}
	return r.word, nil
}

// CanonicalDeny is the same for a denied word. Its scheme becomes its port:
// what is denied is the port, whatever is spoken there.
func CanonicalDeny(word string) (string, error) {
	r, err := parseDeny(word)
	if err != nil {
		return "", err
	}
	return r.word, nil
}

// CheckPort reads a port.
func CheckPort(word string) (uint16, error) {
	n, msg := parsePort(word)
	if msg != "" {
		return 0, mistake(msg, "a port is a number from 1 to 65535")
	}
	return n, nil
}

func parse(word string) (*rule, error) {
	r, err := read(word)
	if err == nil && r.prefix.IsValid() {
		err = reachable(r.prefix)
	}
	if err != nil {
		return nil, err
	}
	r.spell()
	return r, nil
}

func parseDeny(word string) (*rule, error) {
	r, err := read(word)
	if err != nil {
		return nil, err
	}
	if r.path != "" {
		return nil, mistake("names a path, and only hosts can be denied", "allow the paths that may be asked for, or deny the host")
	}
	r.scheme, r.protocols = "", Any
	r.spell()
	return r, nil
}

// read takes a word apart.
func read(word string) (*rule, *Error) {
	if word == "all" {
		return nil, mistake("is not a host", `as the only word it stands for the caller's whole network; "*" is every name, "0.0.0.0/0" every IPv4 address`)
	}
	r := &rule{protocols: Any}
	rest, err := r.cutScheme(word)
	if err != nil {
		return nil, err
	}
	host, given, err := cutPort(rest)
	if err != nil {
		return nil, err
	}
	if given != "" {
		n, msg := parsePort(given)
		if msg != "" {
			return nil, mistake("has a port that "+msg, hostHint)
		}
		r.port = n
	}
	if err := r.readHost(host); err != nil {
		return nil, err
	}
	return r, nil
}

// schemes are those that a word can begin with.
var schemes = [...]struct {
	name      string
	port      uint16
	protocols Protocols
}{{"http", 80, HTTP}, {"https", 443, TLS}}

// cutScheme takes "https://" and the path away.
func (r *rule) cutScheme(word string) (rest string, err *Error) {
	scheme, after, ok := strings.Cut(word, "://")
	if !ok {
		return word, nil
	}
	known := make([]string, 0, len(schemes))
	for _, s := range schemes {
		if strings.EqualFold(scheme, s.name) {
			r.scheme, r.port, r.protocols = s.name, s.port, s.protocols
		}
		known = append(known, s.name)
	}
	if r.scheme == "" {
		return "", &Error{Msg: "has an unknown scheme", Hint: hostHint, Unknown: scheme, Known: known}
	}
	host, path, _ := strings.Cut(after, "/")
	if path == "" || path == "*" {
		return host, nil // http://h and http://h/ are the same to everybody
	}
	if r.protocols == TLS {
		return "", mistake("names a path, which is encrypted and can't be told from outside", `end it with "/*"; a path can be held for plain http only`)
	}
	return host, r.readPath("/" + path)
}

// cutPort splits HOST:PORT. A bare IPv6 address has no port; one with a port
// needs its brackets.
func cutPort(s string) (host, port string, err *Error) {
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

// parsePort gives a port, or what is wrong with it.
func parsePort(s string) (port uint16, msg string) {
	digits := strings.TrimPrefix(s, "-")
	switch {
	case digits == "" || strings.Trim(digits, "0123456789") != "":
		if whole, frac, ok := strings.Cut(digits, "."); ok && whole+frac != "" && strings.Trim(whole+frac, "0123456789") == "" {
			return 0, "is not a whole number"
		}
		return 0, "is not a number"
	case strings.Trim(digits, "0") == "":
		return 0, "is zero"
	case s != digits:
		return 0, "is negative"
	}
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil {
		return 0, "is too large"
	}
	return uint16(n), ""
}

// spell writes the canonical word.
func (r *rule) spell() {
	host := r.host
	bracket := strings.Contains(host, ":") && (r.scheme != "" || r.port != 0)
	if bracket {
		host = "[" + host + "]"
	}
	port := ""
	if r.port != 0 && r.port != defaultPort(r.scheme) {
		port = ":" + strconv.Itoa(int(r.port))
	}
	switch {
	case r.scheme == "":
		r.word = host + port
	case r.path == "":
		r.word = r.scheme + "://" + host + port + "/*"
	default:
		r.word = r.scheme + "://" + host + port + encodePath(r.path)
		if r.below {
			r.word += "*"
		}
	}
}

func defaultPort(scheme string) uint16 {
	for _, s := range schemes {
		if s.name == scheme {
			return s.port
		}
	}
	return 0
}

// reachable refuses addresses that no word can make reachable, so that
// nobody believes it did.
func reachable(p netip.Prefix) *Error {
	switch kind, _ := classify(p.Addr()); {
	case kind == unspecified && within(p, kind):
		return mistake("names no address that can be reached", `"0.0.0.0/0" is every IPv4 address, "localhost" the caller's loopback`)
	case kind == synthetic && within(p, kind):
		return mistake("lies in a range that names stand for inside", "name the host")
	}
	return nil
}

// readHost reads a name, a pattern, an address or a range.
func (r *rule) readHost(host string) *Error {
	switch {
	case host == "":
		return mistake("has no host", hostHint)
	case strings.Contains(host, "/"):
		p, err := netip.ParsePrefix(host)
		if err != nil {
			return mistake("is not a range of addresses", `it takes "10.0.0.0/8" or "fd00::/8"`)
		}
		if p.Masked() != p {
			return mistake("has bits beyond its mask", "it takes "+strconv.Quote(p.Masked().String()))
		}
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		r.setPrefix(p, p.String())
		return nil
	case strings.Contains(host, ":"):
		a, err := netip.ParseAddr(host)
		if err != nil || a.Zone() != "" {
			return mistake("is not an address", hostHint)
		}
		r.setAddr(a.Unmap())
		return nil
	}
	if a, err := netip.ParseAddr(host); err == nil {
		r.setAddr(a)
		return nil
	}
	name, err := checkName(host, true)
	if err != nil {
		return err
	}
	labels := strings.Split(name, ".")
	p, err := octets(labels)
	switch {
	case err != nil:
		return err
	case p.IsValid():
		r.setPrefix(p, name)
	default:
		r.host, r.labels = name, labels
		r.localhost = labels[len(labels)-1] == localhost
		r.loopback = r.localhost
	}
	return nil
}

func (r *rule) setAddr(a netip.Addr) {
	r.setPrefix(netip.PrefixFrom(a, a.BitLen()), a.String())
}

func (r *rule) setPrefix(p netip.Prefix, word string) {
	r.host, r.prefix = word, p
	r.loopback = (p.Contains(loopback4()) || p.Contains(netip.IPv6Loopback())) && within(p, loopback)
}

func loopback4() netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 0, 1}) }

// octets takes "192.168.*" for the range of addresses that it looks like. It
// isn't valid where the labels look like a name.
func octets(labels []string) (p netip.Prefix, _ *Error) {
	whole := mistake("is neither a name nor a whole address", `write an address with four decimal numbers, or a range such as "192.168.0.0/16"`)
	last := labels[len(labels)-1]
	if last != "*" {
		if stem := strings.ReplaceAll(last, "*", ""); stem != last && stem != "" && strings.Trim(stem, "0123456789") == "" {
			return p, whole // "10.1*": of which addresses, nobody knows
		}
		return p, nil
	}
	given := 0
	for given < len(labels) && strings.Trim(labels[given], "0123456789") == "" {
		given++
	}
	for _, l := range labels[given:] {
		if l != "*" {
			return p, nil
		}
	}
	if given == 0 {
		return p, nil
	}
	if len(labels) > 4 {
		return p, whole
	}
	var ip [4]byte
	for i, l := range labels[:given] {
		n, err := strconv.ParseUint(l, 10, 8)
		if err != nil || (len(l) > 1 && l[0] == '0') {
			return p, whole
		}
		ip[i] = byte(n)
	}
	return netip.PrefixFrom(netip.AddrFrom4(ip), 8*given), nil
}

// Error is what is wrong with one word.
type Error struct {
	Word string // "" where the caller knows it: Canonical leaves it out
	Msg  string // goes on after the word: `has no host`
	Hint string

	// Unknown is the part that was none of Known, for a caller who can guess what was meant.
	Unknown string
	Known   []string
}

func (e *Error) Error() string {
	if e.Word == "" {
		return e.Msg
	}
	return strconv.Quote(e.Word) + " " + e.Msg
}

func mistake(msg, hint string) *Error { return &Error{Msg: msg, Hint: hint} }
