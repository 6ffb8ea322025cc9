package network

import (
	"iter"
	"net/netip"
	"strings"
)

// Name says whether a name may be looked up: whether there is a port on which it may be reached.
func (r *Rules) Name(name string) Verdict {
	t, ok := named(name)
	if !ok {
		return Verdict{Why: ReasonName}
	}
	for one := range r.deny.candidates(t) {
		if one.port == 0 && one.forbids(t) {
			return denied(one)
		}
	}
	var but *rule
	for one := range r.allow.candidates(t) {
		if !one.names(t) {
			continue
		}
		ports := r.ports
		if one.port != 0 {
			ports = []uint16{one.port}
		}
		if len(ports) == 0 {
			return allowed(one) // nobody denies each of all ports by its number
		}
		for _, port := range ports {
			d := r.denies(t, port)
			if d == nil {
				return allowed(one)
			}
			but = d
		}
	}
	if but != nil {
		return denied(but)
	}
	return Verdict{Why: ReasonNotAllowed, Hint: allowHint(t.text(), 0)}
}

// Connect decides about a flow to a name, before its addresses are known. Names at and below
// localhost are the caller's loopback.
func (r *Rules) Connect(name string, port uint16) Verdict {
	t, ok := named(name)
	if !ok {
		return Verdict{Why: ReasonName}
	}
	return r.decide(t, port)
}

// Localhost decides about the caller's own loopback port, which is reached by the
// sandbox's loopback addresses. It is never asked for a name that resolves to one.
func (r *Rules) Localhost(port uint16) Verdict { return r.decide(target{loopback: true}, port) }

// Resolved decides about a flow to a name and one of the addresses that it has. It is
// asked for each, right before that address is dialled.
func (r *Rules) Resolved(name string, addr netip.Addr, port uint16) Verdict {
	v := r.Connect(name, port)
	if !v.Allowed {
		return v
	}
	t, _ := named(name)
	at := target{addr: plain(addr)}
	kind, wide := classify(at.addr)
	if d := r.denies(at, port); d != nil {
		v = denied(d)
		v.Kind = kind
		return v
	}
	if t.loopback {
		if kind == loopback {
			v.Kind = kind
			return v
		}
		return Verdict{Why: ReasonInternal, Kind: kind} // localhost is nothing else, whatever a resolver says
	}
	if kind == "" {
		return v
	}
	v.Kind = kind
	if r.unblocked(kind) {
		return v
	}
	for one := range r.allow.candidates(at) {
		// A word that wants a protocol or a path there says nothing of other names.
		if one.scheme == "" && one.names(at) && one.nearEnough(kind, wide) && r.opens(one, port) {
			v.Rule = one.word
			return v
		}
	}
	if kind == private || kind == linkLocal || kind == loopback {
		for one := range r.allow.candidates(t) {
			if one.names(t) && ownZone(one.host) && r.opens(one, port) {
				v.Rule = one.word
				return v
			}
		}
	}
	return Verdict{Why: ReasonInternal, Rule: v.Rule, Kind: kind, Hint: addressHint(at.addr, kind, port)}
}

// Address decides about a flow to a bare address: only words of addresses allow it. The
// sandbox's own loopback is Localhost's.
func (r *Rules) Address(addr netip.Addr, port uint16) Verdict {
	t := target{addr: plain(addr)}
	if !t.addr.IsValid() {
		return Verdict{Why: ReasonNotAllowed}
	}
	v := r.decide(t, port)
	v.Kind, _ = classify(t.addr)
	if v.Why == ReasonNotAllowed && (v.Kind == unspecified || v.Kind == synthetic) {
		v.Why = ReasonInternal
	}
	return v
}

// Own decides about an address that is one of the caller's host itself, which is another
// way to write its loopback: a range that names no internal address doesn't name it.
func (r *Rules) Own(addr netip.Addr, port uint16) Verdict {
	v := r.Address(addr, port)
	if v.Why == ReasonNotAllowed {
		v.Why = ReasonInternal
	}
	if !v.Allowed || v.Kind != "" {
		return v // a word has named it, if it is allowed
	}
	t := target{addr: plain(addr)}
	for one := range r.allowing(t, port) {
		if one.prefix.IsSingleIP() {
			return allowed(one)
		}
	}
	return Verdict{Why: ReasonInternal, Rule: v.Rule, Hint: t.hint(port)}
}

// decide is what all flows have in common.
func (r *Rules) decide(t target, port uint16) Verdict {
	if port == 0 {
		return Verdict{Why: ReasonPort}
	}
	if d := r.denies(t, port); d != nil {
		return denied(d)
	}
	for one := range r.allowing(t, port) {
		return allowed(one)
	}
	v := Verdict{Why: ReasonNotAllowed, Hint: t.hint(port)}
	for one := range r.allow.candidates(t) {
		if !one.names(t) {
			continue
		}
		switch {
		case r.opens(one, port): // a range that is too wide to name it
			return Verdict{Why: ReasonInternal, Rule: one.word, Hint: v.Hint}
		case v.Rule == "":
			v.Why, v.Rule = ReasonPort, one.word
		}
	}
	return v
}

// denies gives the denied word that is about a port of a target.
func (r *Rules) denies(t target, port uint16) *rule {
	for one := range r.deny.candidates(t) {
		if (one.port == 0 || one.port == port) && one.forbids(t) {
			return one
		}
	}
	return nil
}

// allowing gives the allowed words that are about a port of a target.
func (r *Rules) allowing(t target, port uint16) iter.Seq[*rule] {
	return func(yield func(*rule) bool) {
		var kind string
		var wide netip.Prefix
		if t.addr.IsValid() {
			kind, wide = classify(t.addr)
		}
		for one := range r.allow.candidates(t) {
			if !one.names(t) || !r.opens(one, port) {
				continue
			}
			if kind != "" && !one.nearEnough(kind, wide) && !r.unblocked(kind) {
				continue
			}
			if !yield(one) {
				return
			}
		}
	}
}

// named is the target of a name.
func named(name string) (t target, ok bool) {
	name, ok = CanonicalName(name)
	if isLocalhost(name) {
		return target{loopback: true}, ok
	}
	return target{name: name}, ok
}

func (t target) text() string {
	switch {
	case t.loopback:
		return localhost
	case t.name != "":
		return t.name
	}
	return t.addr.String()
}

func (t target) hint(port uint16) string {
	if t.addr.IsValid() {
		kind, _ := classify(t.addr)
		return addressHint(t.addr, kind, port)
	}
	return allowHint(t.text(), port)
}

// Needs says what the first bytes of an allowed flow may be: whatever one of the words that
// allow it takes. It is 0 for a flow that is not allowed. Where Raw is not
// in it, UDP is refused too: its protocols can't be told.
//
// Here and below a name can also be "localhost" or an address as text.
func (r *Rules) Needs(name string, port uint16) (c Protocols) {
	t, ok := anyTarget(name)
	if !ok || !r.decide(t, port).Allowed {
		return 0
	}
	for one := range r.allowing(t, port) {
		c |= one.protocols
	}
	return c
}

// Speaks decides once it is known what a flow speaks: TLS, HTTP or Raw.
func (r *Rules) Speaks(name string, port uint16, spoken Protocols) Verdict {
	t, ok := anyTarget(name)
	if !ok {
		return Verdict{Why: ReasonName}
	}
	v := r.decide(t, port)
	if !v.Allowed {
		return v
	}
	for one := range r.allowing(t, port) {
		if one.protocols.Takes(spoken) {
			return allowed(one)
		}
	}
	return Verdict{Why: ReasonScheme, Rule: v.Rule, Hint: t.hint(port)}
}

// HasPath says whether the path of each plain HTTP request has to be asked about.
func (r *Rules) HasPath(name string, port uint16) (has bool) {
	t, ok := anyTarget(name)
	if !ok || !r.decide(t, port).Allowed {
		return false
	}
	for one := range r.allowing(t, port) {
		if one.protocols.Takes(HTTP) {
			if one.path == "" {
				return false
			}
			has = true
		}
	}
	return has
}

// Path decides about the path of a plain HTTP request, as it was sent; a query behind it is
// left out.
func (r *Rules) Path(name string, port uint16, path string) Verdict {
	v := r.Speaks(name, port, HTTP)
	if !v.Allowed {
		return v
	}
	path, _, _ = strings.Cut(path, "?")
	clean, ok := cleanPath(path)
	t, _ := anyTarget(name)
	var want *rule
	for one := range r.allowing(t, port) {
		switch {
		case !one.protocols.Takes(HTTP):
		case one.path == "", ok && one.takesPath(clean):
			return allowed(one)
		case want == nil:
			want = one
		}
	}
	v = Verdict{Why: ReasonPath, Rule: want.word}
	if ok && len(clean) < longestHint {
		host := t.text()
		switch {
		case port != 80:
			host = netJoin(host, port)
		case strings.Contains(host, ":"):
			host = "[" + host + "]"
		}
		word := "http://" + host + encodePath(clean)
		if clean == "/" {
			word += "*"
		}
		v.Hint = flagFor(word)
	}
	return v
}

const longestHint = 200

// anyTarget reads a name, localhost, or an address.
func anyTarget(name string) (target, bool) {
	if t, ok := named(name); ok {
		return t, true
	}
	a, err := netip.ParseAddr(name)
	return target{addr: plain(a)}, err == nil
}
