package network

import (
	"net/netip"
	"slices"
)

// Wider says in which part a policy allows something that another doesn't: by what it allows, by what it doesn't deny, or by the ports
// of words without one. It compares what the words mean; where it can't be shown that one lies within the other, it is wider. That
// internal addresses are open is not looked at.
func Wider(p, most Policy) (allow, deny, ports bool) {
	r, err := Compile(p)
	if err != nil {
		return true, true, true
	}
	c, err := Compile(most)
	if err != nil {
		return true, true, true
	}
	for _, one := range r.allow.all {
		a, n := c.spans(one, r.portsFor(one))
		allow, ports = allow || a, ports || n
	}
	for _, d := range c.deny.all {
		deny = deny || !slices.ContainsFunc(r.deny.all, func(e *rule) bool { return e.forbidsAll(d) })
	}
	return allow, deny, ports
}

// portsFor are the ports of an allowed word; none: any.
func (r *Rules) portsFor(one *rule) []uint16 {
	if one.port != 0 {
		return []uint16{one.port}
	}
	return r.ports
}

// spans says how an allowed word goes beyond all of the rules': by what it names, or by its ports alone.
func (r *Rules) spans(one *rule, ports []uint16) (beyond, atPorts bool) {
	var open []uint16 // by words that name all that it does
	named := false    // one of them leaves the ports to Policy.Ports
	for _, wide := range r.allow.all {
		if !r.namesAll(wide, one) {
			continue
		}
		here := r.portsFor(wide)
		if len(here) == 0 {
			return false, false
		}
		open, named = append(open, here...), named || wide.port == 0
	}
	if len(ports) > 0 && !slices.ContainsFunc(ports, func(n uint16) bool { return !slices.Contains(open, n) }) {
		return false, false
	}
	return !named || one.port != 0, named && one.port == 0
}

// namesAll says whether an allowed word of these rules, wide, is about all that another is about, whatever is spoken there, but for ports.
func (r *Rules) namesAll(wide, one *rule) bool {
	if !wide.protocols.Takes(one.protocols) || !wide.takesAllPaths(one) || one.loopback && !wide.loopback {
		return false
	}
	switch {
	case one.prefix.IsValid():
		return r.holdsAll(wide, one)
	case one.loopback:
		return true // a name at or below localhost is nothing else
	}
	return wide.labels != nil && matchPattern(wide.labels, one.labels) && (r.openInternal || !ownZone(one.host) || ownZone(wide.host))
}

// holdsAll is namesAll of ranges. What lies within an internal range names its addresses, and what doesn't leaves them out; one address alone
// names it even if it is one of the caller's host.
func (r *Rules) holdsAll(wide, one *rule) bool {
	a, b := one.prefix, wide.prefix
	if !contains(b, a) {
		return false
	}
	if a == b {
		return true
	}
	if a.IsSingleIP() {
		kind, in := classify(a.Addr())
		return kind != "" && (r.unblocked(kind) || wide.nearEnough(kind, in))
	}
	left := func(kind string, in netip.Prefix) bool {
		return in.Overlaps(a) && one.nearEnough(kind, in) && !wide.nearEnough(kind, in) && !r.unblocked(kind)
	}
	for i := range internal4 {
		if left(internal4[i].kind, internal4[i].prefix()) {
			return false
		}
	}
	for i := range internal6 {
		if left(internal6[i].kind, internal6[i].prefix()) {
			return false
		}
	}
	return true
}

func contains(wide, p netip.Prefix) bool {
	return wide.IsValid() && p.IsValid() && wide.Bits() <= p.Bits() && wide.Contains(p.Addr())
}

func (r *rule) takesAllPaths(one *rule) bool {
	switch {
	case r.path == "":
		return true
	case one.path == "":
		return false
	case one.below && !r.below:
		return false
	}
	return r.takesPath(one.path)
}

// forbidsAll says whether a denied word is about all that another one is about.
func (r *rule) forbidsAll(one *rule) bool {
	if r.port != 0 && r.port != one.port {
		return false
	}
	if r.host == "*" {
		return true
	}
	if one.labels == nil {
		return contains(r.prefix, one.prefix)
	}
	here := target{loopback: true}
	return r.labels != nil && matchPattern(r.labels, one.labels) && (r.localhost || !one.localhost) && (r.forbids(here) || !one.forbids(here))
}

// matchPattern says whether each name that a pattern stands for is one that a wider pattern stands for.
func matchPattern(wide, pattern []string) bool {
	if wide[0] == "*" { // one label or more
		wide = wide[1:]
		if len(pattern) <= len(wide) {
			return false
		}
		pattern = pattern[len(pattern)-len(wide):]
	} else if pattern[0] == "*" || len(pattern) != len(wide) {
		return false
	}
	for i := range wide {
		// A star is no letter, so nothing but a star takes it: with whatever it stands for.
		if !matchLabel(wide[i], pattern[i]) {
			return false
		}
	}
	return true
}
