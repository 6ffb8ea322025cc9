package network

import (
	"net/netip"
	"strconv"
	"strings"
)

// Reason says what decided.
type Reason string

// The closed set of reasons.
const (
	ReasonAllowed    Reason = "allowed"
	ReasonNotAllowed Reason = "not_allowed" // no word names it
	ReasonDenied     Reason = "denied"      // a denied word names it
	ReasonPort       Reason = "port"        // words name it, on other ports
	ReasonInternal   Reason = "internal"    // it leads to an internal address, which no word names
	ReasonScheme     Reason = "scheme"      // the words that name it want another protocol
	ReasonPath       Reason = "path"        // the words that name it want other paths
	ReasonName       Reason = "name"        // it is no name that can be allowed
)

// Verdict is a decision and what it rests on.
type Verdict struct {
	Allowed bool
	Rule    string // the word that decided: "*.github.com:443", "deny evil.com"; "" if none names it
	Why     Reason
	Hint    string // the flag that would allow it, whole; "" if none would
	Kind    string // of an internal address: "private", "metadata"…; "" for others

	denies string // the word that denied it
}

// Word is the word of the option that decided: of --deny-network where denied, else of --allow-network.
func (v Verdict) Word() (word string, denied bool) {
	if v.denies != "" {
		return v.denies, true
	}
	return v.Rule, false
}

// Protocols are what the first bytes of a flow may be: a set.
type Protocols uint8

const (
	TLS  Protocols = 1 << iota // a ClientHello, with the name
	HTTP                       // plain HTTP requests, with the name
	Raw                        // anything else, and UDP

	Any = TLS | HTTP | Raw
)

// Takes says whether what was spoken is one of them.
func (c Protocols) Takes(spoken Protocols) bool { return spoken != 0 && c&spoken == spoken }

func (c Protocols) String() string {
	switch c {
	case 0:
		return "nothing"
	case Any:
		return "anything"
	}
	var words []string
	for i, word := range [...]string{"TLS", "HTTP", "raw"} {
		if c&(1<<i) != 0 {
			words = append(words, word)
		}
	}
	return strings.Join(words, " or ")
}

func allowed(rule *rule) Verdict {
	return Verdict{Allowed: true, Why: ReasonAllowed, Rule: rule.word}
}

func denied(rule *rule) Verdict {
	return Verdict{Why: ReasonDenied, Rule: "deny " + rule.word, denies: rule.word}
}

// allowHint is the flag that names a host; port 0 is any.
func allowHint(host string, port uint16) string {
	word := host
	if port != 0 {
		word = netJoin(host, port)
	}
	return flagFor(word)
}

func flagFor(word string) string {
	if strings.ContainsAny(word, "[]~*") {
		word = "'" + word + "'" // a shell has a use for these
	}
	return "--allow-network " + word
}

func netJoin(host string, port uint16) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(int(port))
}

// addressHint is the flag that names an address, if one can.
func addressHint(a netip.Addr, kind string, port uint16) string {
	if kind == unspecified || kind == synthetic || port == 0 {
		return ""
	}
	return allowHint(a.String(), port)
}
