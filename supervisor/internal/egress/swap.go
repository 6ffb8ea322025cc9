package egress

import (
	"net/netip"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/network"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/status"
)

// Swap has other rules and limits hold from now on, and ends the flows that they don't allow. When it returns, nothing is
// reached any more that they refuse.
//
// A flow that is being judged or dialled meanwhile is in no list that could be looked through. So whoever dials says first that
// the other side is reached, and then looks which rules hold; Swap says first which rules hold, and then looks who has
// reached anything. One of the two sees the other.
func (g *Gateway) Swap(n *plan.Network) {
	g.now.Store(n)
	searches := maxSearching
	g.everyFlow(func(f *flow) {
		f.mu.Lock()
		reached := f.reached
		f.mu.Unlock()
		if !reached {
			return
		}
		v := g.still(f)
		if v.Allowed {
			return
		}
		// Whose it is can be found as long as there is a socket. Few are searched for: the others wait to be ended.
		if k := (key{f.protocol, f.what(), status.AttemptBlocked, string(v.Why)}); searches > 0 && g.log.startSearch(k) {
			searches--
			pid, comm := g.process.of(f.protocol, f.from)
			g.log.setOwner(k, owner{pid, comm})
		}
		f.revoke(v)
	})
}

// enter is called when a flow has reached an address, before anything passes, and says whether the rules of this moment allow it.
func (g *Gateway) enter(f *flow, at netip.Addr) network.Verdict {
	f.mu.Lock()
	f.reached, f.at = true, at
	f.mu.Unlock()
	v := g.still(f)
	needs := g.rules().Needs(f.host(), f.to.Port())
	f.mu.Lock()
	defer f.mu.Unlock()
	f.needs = needs
	if v.Allowed {
		return f.verdict // has the words that it was judged by
	}
	return v
}

// still judges a flow that has reached an address by the rules of this moment.
func (g *Gateway) still(f *flow) (v network.Verdict) {
	rules, port := g.rules(), f.to.Port()
	f.mu.Lock()
	at, needs := f.at, f.needs
	f.mu.Unlock()
	switch {
	case f.use == handoff.UseLocalhost:
		v = rules.Localhost(port)
	case f.name != "":
		v = rules.Resolved(f.name, at, port)
	default:
		v = rules.Address(f.to.Addr(), port)
	}
	if v.Allowed && f.use != handoff.UseLocalhost {
		v = g.checkOwn(rules, at, f, v)
	}
	switch {
	case !v.Allowed || needs == 0: // nothing has passed yet, and what does is judged by rules that hold then
	case needs&^rules.Needs(f.host(), port) != 0:
		v = network.Verdict{Why: network.ReasonScheme, Rule: v.Rule}
	case rules.HasPath(f.host(), port): // the request that is under way was for some path
		v = network.Verdict{Why: network.ReasonPath, Rule: v.Rule}
	}
	return v
}

// revoke ends a flow that new rules don't allow.
func (f *flow) revoke(v network.Verdict) {
	f.mu.Lock()
	f.revoked = &v
	f.mu.Unlock()
	f.abort()
}

// isRevoked says whether new rules have ended a flow. Its verdict is theirs then.
func (f *flow) isRevoked() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.revoked != nil {
		f.verdict = *f.revoked
	}
	return f.revoked != nil
}
