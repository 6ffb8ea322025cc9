package network

import (
	"net/netip"
	"strings"
)

// Needs says what the first bytes of an allowed flow may be: whatever one of the words that
// allow it takes. It is 0 for a flow that is not allowed. Where Raw is not
// in it, UDP is refused too: its protocols can't be told.
//
// Here and below a name can also be "localhost" or an address as text.
func (r *Rules) Needs(name string, port uint16) (c Claim) {
	t, ok := anyTarget(name)
	if !ok || !r.decide(t, port).Allowed {
		return 0
	}
	for one := range r.allowing(t, port) {
		c |= one.claim
	}
	return c
}

// Speaks decides once it is known what a flow speaks: TLS, HTTP or Raw.
func (r *Rules) Speaks(name string, port uint16, spoken Claim) Verdict {
	t, ok := anyTarget(name)
	if !ok {
		return Verdict{Why: ReasonName}
	}
	v := r.decide(t, port)
	if !v.Allowed {
		return v
	}
	for one := range r.allowing(t, port) {
		if one.claim.Takes(spoken) {
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
		if one.claim.Takes(HTTP) {
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
		case !one.claim.Takes(HTTP):
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
