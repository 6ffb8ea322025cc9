package network

import (
	"iter"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Policy is what a user said, in canonical words.
type Policy struct {
	Allow, Deny   []string
	Ports         []int // for allowed words without a port of their own; empty: any
	BlockInternal bool
}

// Rules is a compiled Policy. It doesn't change: any number may ask it at once. The zero
// value allows nothing.
type Rules struct {
	allow, deny  list
	ports        []uint16
	openInternal bool
}

// rule is one word.
type rule struct {
	word      string // canonical
	scheme    string
	host      string
	port      uint16 // 0: none of its own
	protocols Protocols
	path      string // decoded; "" is any
	below     bool   // the path is where the paths begin

	labels    []string     // of a name or a pattern
	prefix    netip.Prefix // or else of addresses
	localhost bool         // localhost or a name below it
	loopback  bool         // it stands for the caller's loopback: localhost, or addresses there
}

// target is what rules are about: the caller's loopback, a name, or an address.
type target struct {
	loopback bool
	name     string
	addr     netip.Addr
}

// list is rules; those for one name are found by it.
type list struct {
	exact map[string][]*rule
	rest  []*rule
	all   []*rule
}

// Compile reads the words. The error is an *Error.
func Compile(p Policy) (*Rules, error) {
	r := &Rules{openInternal: !p.BlockInternal}
	for _, port := range p.Ports {
		n, msg := parsePort(strconv.Itoa(port))
		if msg != "" {
			return nil, &Error{Word: strconv.Itoa(port), Msg: msg, Hint: "a port is a number from 1 to 65535"}
		}
		r.ports = append(r.ports, n)
	}
	if err := r.allow.fill(p.Allow, parse); err != nil {
		return nil, err
	}
	if err := r.deny.fill(p.Deny, parseDeny); err != nil {
		return nil, err
	}
	return r, nil
}

func (l *list) fill(words []string, read func(string) (*rule, error)) error {
	l.exact = make(map[string][]*rule)
	for _, word := range words {
		one, err := read(word)
		if err != nil {
			if e, ok := err.(*Error); ok {
				e.Word = word
			}
			return err
		}
		l.all = append(l.all, one)
		if one.single() {
			l.exact[one.host] = append(l.exact[one.host], one)
		} else {
			l.rest = append(l.rest, one)
		}
	}
	return nil
}

// candidates are all rules that could be about a target.
func (l *list) candidates(t target) iter.Seq[*rule] {
	return func(yield func(*rule) bool) {
		if t.name != "" {
			for _, r := range l.exact[t.name] {
				if !yield(r) {
					return
				}
			}
		}
		for _, r := range l.rest {
			if !yield(r) {
				return
			}
		}
	}
}

// single: it is about one name and nothing else.
func (r *rule) single() bool {
	return r.labels != nil && !r.localhost && !strings.Contains(r.host, "*")
}

// names says whether an allowed word is about a target. An address that is
// internal has to lie in a range that names it, see nearEnough. A name is never
// below localhost: those are loopback.
func (r *rule) names(t target) bool {
	switch {
	case t.loopback:
		return r.loopback
	case t.name != "":
		return r.labels != nil && matchName(r.labels, t.name)
	}
	return r.prefix.IsValid() && r.prefix.Contains(t.addr)
}

// forbids says whether a denied word is about a target. It goes further: whatever
// may be the same place is denied with it.
func (r *rule) forbids(t target) bool {
	everything := r.host == "*"
	switch {
	case t.loopback:
		return everything || r.loopback || r.localhost ||
			r.prefix.IsValid() && (r.prefix.Contains(loopback4()) || r.prefix.Contains(netip.IPv6Loopback())) ||
			r.labels != nil && matchName(r.labels, localhost)
	case t.name != "":
		return r.labels != nil && matchName(r.labels, t.name)
	}
	kind, _ := classify(t.addr)
	if everything || r.localhost && kind == loopback {
		return true
	}
	if !r.prefix.IsValid() {
		return false
	}
	if r.prefix.Contains(t.addr) {
		return true
	}
	if !t.addr.Is4() {
		four, n := embedded(t.addr)
		return slices.ContainsFunc(four[:n], r.prefix.Contains)
	}
	return false
}

// nearEnough says whether a range that holds an internal address names it: it lies in the
// range that makes it internal.
func (r *rule) nearEnough(kind string, wide netip.Prefix) bool {
	switch kind {
	case unspecified, synthetic:
		return false
	case metadata:
		return r.prefix.IsSingleIP()
	}
	return r.prefix.Bits() >= wide.Bits()
}

// opens says whether an allowed word is about a port.
func (r *Rules) opens(one *rule, port uint16) bool {
	if one.port != 0 {
		return one.port == port
	}
	return len(r.ports) == 0 || slices.Contains(r.ports, port)
}

// BlocksInternal says whether internal addresses have to be named.
func (r *Rules) BlocksInternal() bool { return !r.openInternal }

// unblocked: BlockInternal=false opens what an allowed name or range leads to,
// but for what nobody means by that.
func (r *Rules) unblocked(kind string) bool {
	switch kind {
	case metadata, multicast, unspecified, synthetic:
		return false
	}
	return r.openInternal
}

// NamedPorts are the ports that words name, sorted: where a host can't send every port to
// one listener, what to listen on. If any is set, some word is open to each. The caller's
// loopback is not among them.
func (r *Rules) NamedPorts() (ports []uint16, any bool) {
	return r.portsOf(func(one *rule) bool { return !one.loopback })
}

// AnyPort says whether some word is open to every port.
func (r *Rules) AnyPort() bool {
	_, any := r.NamedPorts()
	return any
}

// LocalhostPorts are the same for the caller's loopback.
func (r *Rules) LocalhostPorts() (ports []uint16, any bool) {
	return r.portsOf(func(one *rule) bool { return one.loopback })
}

func (r *Rules) portsOf(counts func(*rule) bool) (ports []uint16, any bool) {
	for _, one := range r.allow.all {
		switch {
		case !counts(one):
		case one.port != 0:
			ports = append(ports, one.port)
		case len(r.ports) > 0:
			ports = append(ports, r.ports...)
		default:
			any = true
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports), any
}
