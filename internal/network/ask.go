package network

import (
	"net/netip"
	"slices"
	"strings"
)

// Answer is what the rules say about a place, as a person asks for it.
type Answer struct {
	Verdict
	Place string    // in canonical form: "example.com:443", "localhost", "[::1]:80"
	Needs Protocols // what may be spoken there, when it is allowed
	Paths bool      // of plain HTTP only some paths
	// Resolved: it is a name, and each of its addresses is judged once more when it is dialled.
	Resolved bool
	Internal bool // addresses that are internal are then refused, unless a word names them
}

// Ask decides about "HOST", "HOST:PORT", an address, or "localhost". Without a port it
// says whether there is one on which it may be reached. The error is an *Error.
func (r *Rules) Ask(word string) (Answer, error) {
	fail := func(err *Error) (Answer, error) {
		err.Word = word
		return Answer{}, err
	}
	host, given, err := cutPort(strings.TrimSpace(word))
	if err != nil {
		return fail(err)
	}
	var port uint16
	if given != "" {
		n, msg := parsePort(given)
		if msg != "" {
			return fail(mistake(msg, "a port is a number from 1 to 65535"))
		}
		port = n
	}
	t := target{}
	if addr, bad := netip.ParseAddr(host); bad == nil {
		if addr = plain(addr); addr.IsLoopback() {
			t.loopback = true
		} else {
			t.addr = addr
		}
	} else {
		name, err := checkName(host, false)
		if err != nil {
			return fail(err)
		}
		if t, _ = named(name); t == (target{}) {
			return fail(mistake("is not a host", hostHint))
		}
	}
	a := Answer{Place: t.text(), Resolved: t.name != "", Internal: !r.openInternal}
	if port == 0 {
		a.Verdict = r.anyPort(t)
		return a, nil
	}
	a.Place = netJoin(a.Place, port)
	if a.Verdict = r.flow(t, port); a.Allowed {
		a.Needs, a.Paths = r.Needs(t.text(), port), r.HasPath(t.text(), port)
	}
	return a, nil
}

// flow decides as the gateway asks: each kind of target by its own question.
func (r *Rules) flow(t target, port uint16) Verdict {
	switch {
	case t.loopback:
		return r.Localhost(port)
	case t.name != "":
		return r.Connect(t.name, port)
	}
	return r.Address(t.addr, port)
}

// anyPort says whether there is a port on which a target may be reached.
func (r *Rules) anyPort(t target) Verdict {
	if t.name != "" {
		return r.Name(t.name)
	}
	ports := slices.Clone(r.ports)
	any := len(ports) == 0
	for _, one := range r.allow.all {
		if one.port != 0 {
			ports = append(ports, one.port)
		}
	}
	if any {
		ports = append(ports, r.undenied())
	}
	var v Verdict
	for _, port := range ports {
		if v = r.flow(t, port); v.Allowed {
			return v
		}
	}
	v.Hint = "" // of that port
	if v.Why == ReasonNotAllowed {
		v.Hint = allowHint(t.text(), 0)
	}
	return v
}

// undenied is a port that no denied word names by its number, 0 if each is.
func (r *Rules) undenied() uint16 {
	for port := uint16(443); port != 442; port++ {
		if port != 0 && !slices.ContainsFunc(r.deny.all, func(d *rule) bool { return d.port == port }) {
			return port
		}
	}
	return 0
}
