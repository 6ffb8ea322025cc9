package egress

import (
	"github.com/confine-run/confine/confine/network"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/egress/names"
)

// note enters a flow in the journal.
func (g *Gateway) note(f *flow, verdict, why string) {
	a := status.Attempt{
		Protocol: f.protocol, What: f.what(), Name: f.name, Address: f.to.Addr().String(), Port: int(f.to.Port()),
		Verdict: verdict, Why: why, Claimed: f.claimed, Rule: f.verdict.Rule, Hint: f.verdict.Hint,
		SentBytes: f.sent.Load(), ReceivedBytes: f.received.Load(),
	}
	if f.name != "" {
		a.Address = f.dialled
	}
	if why == whyBytes {
		a.Hint = "--network-bytes SIZE"
	}
	g.unhurried(f, key{a.Protocol, a.What, verdict, why}, func() {
		g.log.add(a, func() (int, string) {
			if verdict != status.AttemptAllowed {
				g.identify(f)
			}
			return f.pid, f.comm
		})
	})
}

// unhurried does what takes time for what is new, which is told and looked into: other
// connections don't wait for that.
func (g *Gateway) unhurried(f *flow, k key, do func()) {
	if f.onLoop && g.log.fresh(k) {
		g.loop.Do(do)
		return
	}
	do()
}

// noteQuestion enters a question that was refused, which is not answered before it is
// known whose it is.
func (g *Gateway) noteQuestion(f *flow, name, why string, v network.Verdict) {
	if why == string(names.WhyNotAllowed) && v.Why == network.ReasonDenied {
		why = string(v.Why) // as for an address: some word names it
	}
	a := status.Attempt{Protocol: "dns", What: name, Name: name, Verdict: status.AttemptBlocked, Why: why, Rule: v.Rule, Hint: v.Hint}
	known := g.log.add(a, func() (int, string) {
		if f.pid != 0 {
			return f.pid, f.comm
		}
		return g.process.of(f.protocol, f.from)
	})
	if known != nil {
		<-known
	}
}

// remember finds out whose flow it is, while that can be found, if it will be told. To
// look for it is work, which a target must not make us do as often as it likes: it is
// done once for each kind.
func (g *Gateway) remember(f *flow, verdict, why string) {
	if k := (key{f.protocol, f.what(), verdict, why}); g.log.seek(k) {
		g.unhurried(f, k, func() {
			g.identify(f)
			g.log.found(k, whose{f.pid, f.comm})
		})
	}
}

func (g *Gateway) identify(f *flow) {
	if f.pid == 0 && !f.incoming {
		f.pid, f.comm = g.process.of(f.protocol, f.from)
	}
}
