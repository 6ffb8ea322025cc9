package network

import (
	"net/netip"
	"slices"
	"strings"
)

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
