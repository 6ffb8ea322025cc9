package learn

import (
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/confine-run/confine/internal/network"
	"github.com/confine-run/confine/status"
)

// hosts are the words for what was reached.
func (s *Seen) hosts(n *notes) (line Line) {
	line = Line{Key: "allow_domains", list: true}
	has := map[string]int{}
	add := func(host, why string) {
		canon, err := network.Canonical(host)
		if err != nil {
			n.refused("reach "+word(host), "", "no rule can name it")
			return
		}
		if _, found := has[canon]; !found {
			has[canon] = len(line.Items)
			line.Items = append(line.Items, Item{canon, why})
		}
	}
	reached := map[string]bool{} // names that were connected to
	for i := range s.Attempts {
		a := &s.Attempts[i]
		switch {
		case a.Protocol == "dns":
		case a.Verdict == status.AttemptBlocked:
			why := s.blocked(a)
			if a.Hint != "" {
				why += "; " + a.Hint
			}
			n.refused("reach "+word(a.What), a.Comm, word(why))
		default:
			name, why := placeOf(a), a.Protocol+" by "+commOf(a)
			if a.Verdict == status.AttemptFailed {
				why += "; could not be reached: " + word(a.Why)
			}
			reached[a.Name] = true
			add(name, why)
			if at := internalAddress(a); at != "" {
				add(at, "what "+word(a.Name)+" leads to: an internal address has to be named")
			}
		}
	}
	for i := range s.Attempts {
		if a := &s.Attempts[i]; a.Protocol == "dns" && !reached[nameOf(a)] && !strings.HasPrefix(a.What, "localhost") {
			if a.Verdict == status.AttemptBlocked {
				n.refused("look up "+word(a.What), a.Comm, word(s.blocked(a)))
			} else {
				n.refused("look up "+word(a.What), a.Comm, "it was not connected to; --allow-network "+word(a.What)+" would let it be looked up")
			}
		}
	}
	if s.OtherAttempts > 0 {
		n.add(plural(s.OtherAttempts, "attempt") + " to reach further hosts were not kept.")
	}
	return line
}

// blocked says in words why something was.
func (s *Seen) blocked(a *status.Attempt) string {
	switch network.Reason(a.Why) {
	case network.ReasonDenied:
		return "denied by --deny-network"
	case network.ReasonNotAllowed: // of names, also where a rule denies them
		switch {
		case s.DenySaid && s.AllowSaid:
			return "denied by --deny-network, or not named by --allow-network"
		case s.DenySaid:
			return "denied by --deny-network"
		}
		return "not named by --allow-network"
	case network.ReasonInternal:
		return "an internal address, which has to be named"
	case network.ReasonPort:
		return "at a port that is not allowed"
	}
	return a.Why
}

func commOf(a *status.Attempt) string {
	if a.Comm == "" {
		return "the command"
	}
	return word(a.Comm)
}

func nameOf(a *status.Attempt) string {
	if a.Name != "" {
		return a.Name
	}
	return a.What
}

// placeOf is the word for what an attempt was about: an exact name or address, and the port.
func placeOf(a *status.Attempt) string {
	switch {
	case strings.HasPrefix(a.What, "localhost:"):
		return a.What
	case a.Name != "" && a.Port > 0:
		return net.JoinHostPort(a.Name, strconv.Itoa(a.Port))
	}
	return a.What
}

// internalAddress is the address to name beside a name, or "".
func internalAddress(a *status.Attempt) string {
	addr, err := netip.ParseAddr(a.Address)
	if a.Name == "" || err != nil || addr.IsLoopback() && strings.HasPrefix(a.What, "localhost") {
		return ""
	}
	if _, internal := network.Internal(addr); !internal {
		return ""
	}
	return netip.AddrPortFrom(addr.Unmap(), uint16(a.Port)).String()
}
