package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/network"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/internal/egress/names"
)

// flow is one connection, or the datagrams between two addresses.
type flow struct {
	protocol string // "tcp" or "udp"
	from, to netip.AddrPort
	use      handoff.Use

	name    string // that the address in to stands for; "": it stands for itself
	verdict network.Verdict

	claimed  string // what the client said that it talks to, if that is another
	dialled  string // the address that name turned out to have
	incoming bool   // it began outside
	exact    bool   // there is no loopback inside: a loopback address means the caller's
	early    []byte // what the client has said already
	pid      int    // of the process inside, if it was looked for
	comm     string

	sent, received atomic.Int64 // bytes, by the inside

	ending
}

// ending is what it takes to end a flow from another goroutine.
type ending struct {
	mu      sync.Mutex
	closers []func()
	aborted bool
	outside *conn  // of TCP, once there is one
	recall  func() // has the poller give the connections back, if it has them
	silent  bool   // nothing more comes from inside

	reached bool              // the other side is dialled, at an address
	at      netip.Addr        // that
	needs   network.Protocols // what of it is not refused, by the rules that it began under
	revoked *network.Verdict  // by rules that came later
}

// onAbort has abort call end; at once if the flow is aborted already.
func (f *ending) onAbort(end func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closers = append(f.closers, end)
	if f.aborted {
		end()
	}
}

// abort ends the flow at once.
func (f *ending) abort() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.aborted = true
	for _, end := range f.closers {
		end()
	}
	if f.recall != nil {
		f.recall()
	}
}

// leave stops reading what the other side answers, once the inside is gone and has sent everything. What was sent
// still arrives: a reset would take back what the other side hasn't got yet.
func (f *ending) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.silent && f.outside != nil {
		_ = f.outside.CloseRead()
	}
}

// silence notes that nothing more comes from inside, and leaves if the inside is over.
func (f *ending) silence(inside context.Context) {
	f.mu.Lock()
	f.silent = true
	f.mu.Unlock()
	if inside.Err() != nil {
		f.leave()
	}
}

// acknowledged is how many bytes the other side has confirmed.
func (f *ending) acknowledged() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.outside == nil {
		return 0
	}
	return acknowledged(f.outside)
}

// what is the other side as a rule names it: HOST:PORT.
func (f *flow) what() string {
	if f.use == handoff.UseLocalhost {
		return hostPort("localhost", f.to.Port())
	}
	if f.name != "" {
		return hostPort(f.name, f.to.Port())
	}
	return f.to.String()
}

// host is the other side without its port.
func (f *flow) host() string {
	switch {
	case f.use == handoff.UseLocalhost:
		return "localhost"
	case f.name != "":
		return f.name
	}
	return f.to.Addr().String()
}

// known is false for a flow to the gateway's own sockets, which no program means.
func (f *flow) known() bool { return f.use == handoff.UseLocalhost || !f.to.Addr().IsLoopback() }

// isOwn says whether an address is the run's own.
func isOwn(a netip.Addr) bool {
	own := names.HostAddresses()
	return a == own.V4 || a == own.V6
}

// resolverPort is where questions are answered, whatever address they are for.
const resolverPort = 53

// judge finds the name that the flow is for, and asks the rules about that name, or else about the address,
// and the port.
func (p *policy) judge(f *flow) bool {
	to, port := f.to.Addr(), f.to.Port()
	switch {
	case f.use == handoff.UseLocalhost:
		f.verdict = p.rules().Localhost(port)
	case f.name != "": // a proxy was told it
		f.verdict = p.rules().Connect(f.name, port)
	case names.Synthetic(to):
		name, ok := p.pool.Name(to)
		if !ok {
			f.verdict = network.Verdict{Why: network.ReasonNotAllowed}
			break
		}
		f.name = name
		f.verdict = p.rules().Connect(name, port)
	default:
		f.verdict = p.rules().Address(to, port)
	}
	return f.verdict.Allowed
}

// Why an attempt came to nothing, beside what the rules say.
const (
	whyBytes       = "network_bytes"
	whyConnections = "network_connections"
	whyNoHost      = "no_such_host"
	whyUnreachable = "unreachable"
	whyCut         = "cut" // the run had ended, and not all that it had sent was taken
)

// Exhausted says whether an attempt was refused for a limit.
func Exhausted(a *status.Attempt) bool { return a.Why == whyBytes || a.Why == whyConnections }

// carry serves a connection that is one of a flow.
func (g *Gateway) carry(f *flow, inside *conn) {
	far, ok := g.reach(f)
	if !ok {
		inside.reset()
		return
	}
	defer g.end(f)
	outside := newConn(far.(*net.TCPConn))
	f.onAbort(inside.reset)
	f.onAbort(outside.reset)
	g.relay(f, inside, outside)
}

// reach judges a flow and dials its other side. Where it fails, it has noted why; where it is ok, the caller has to
// end the flow.
func (g *Gateway) reach(f *flow) (far net.Conn, ok bool) {
	if !f.known() {
		return nil, false
	}
	why := ""
	switch {
	case !g.judge(f):
		why = string(f.verdict.Why)
	case g.spent():
		why = whyBytes
	case !g.begin(f):
		why = whyConnections
	}
	if why != "" {
		g.note(f, status.AttemptBlocked, why)
		return nil, false
	}
	ctx, cancel := context.WithTimeout(g.ctx, dialPatience)
	defer cancel()
	f.onAbort(cancel)
	list, err := g.addresses(ctx, f)
	if err == nil {
		far, err = dial(ctx, f.protocol, list, f.to.Port())
	}
	switch {
	case err == nil:
		at := endpoint(far.RemoteAddr()).Addr()
		f.dialled = at.String()
		if v := g.enter(f, at); !v.Allowed {
			_ = far.Close()
			f.verdict = v
			g.note(f, status.AttemptBlocked, string(v.Why))
			break
		}
		if g.now.Load().Log {
			g.remember(f, status.AttemptAllowed, "")
		}
		return far, true
	case errors.Is(err, errRefused):
		g.note(f, status.AttemptBlocked, string(f.verdict.Why))
	case errors.Is(err, names.ErrNotFound):
		g.note(f, status.AttemptFailed, whyNoHost)
	default:
		g.note(f, status.AttemptFailed, whyUnreachable)
	}
	g.end(f)
	return nil, false
}

// relay passes bytes on in both directions until both have ended.
func (g *Gateway) relay(f *flow, inside, outside *conn) {
	f.mu.Lock()
	f.outside = outside
	f.mu.Unlock()
	var mu sync.Mutex
	blocked, cut := "", false
	end := func(to *conn, err error) {
		if err == nil {
			_ = to.CloseWrite()
			return
		}
		mu.Lock()
		defer mu.Unlock()
		var why refusal
		switch {
		case errors.As(err, &why) && blocked == "":
			blocked = string(why)
			g.remember(f, status.AttemptBlocked, blocked) // as long as there is a socket to be found
		case to == outside && g.ctx.Err() != nil:
			cut = true
		}
		f.abort()
	}
	said := &answer{told: make(chan struct{})}
	there, here := true, true // which directions there are still
	forward := func() error { return g.forward(f, said, inside, outside) }
	back := func() error { return g.back(f, said, inside, outside) }
	for there || here {
		var other sync.WaitGroup
		if here {
			other.Go(func() {
				err := back()
				if here = err == errInteractive; !here {
					end(inside, err)
				}
			})
		}
		if there {
			err := forward()
			if there = err == errInteractive; !there {
				end(outside, err)
				f.silence(g.inside)
			}
		}
		other.Wait()
		if there && here {
			if to, err := f.interact(g, inside, outside); err != nil {
				end(to, err)
				break
			}
		}
		forward = func() error { return g.copy(outside, inside, &f.sent) }
		back = func() error { return g.copy(inside, outside, &f.received) }
	}
	_ = inside.Close()
	_ = outside.Close()
	revoked := f.isRevoked()
	switch {
	case f.incoming:
		g.log.countIncoming(f.sent.Load(), f.received.Load(), blocked)
	case revoked:
		g.note(f, status.AttemptBlocked, string(f.verdict.Why))
	case cut:
		g.note(f, status.AttemptFailed, whyCut)
	case blocked != "":
		g.note(f, status.AttemptBlocked, blocked)
	default:
		g.note(f, status.AttemptAllowed, "")
	}
}

// refusal ends a flow that had begun: the attempt is blocked for this reason.
type refusal string

func (r refusal) Error() string { return string(r) }

func endpoint(a net.Addr) netip.AddrPort {
	var p netip.AddrPort
	switch a := a.(type) {
	case *net.TCPAddr:
		p = a.AddrPort()
	case *net.UDPAddr:
		p = a.AddrPort()
	}
	return plainPort(p)
}

// plainPort is an address in the form in which rules compare it.
func plainPort(p netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(p.Addr().Unmap().WithZone(""), p.Port())
}

// maxSwapSearches is for how many kinds of flows that new rules end their process is searched first.
const maxSwapSearches = 16

// Swap has other rules and limits hold from now on, and ends the flows that they don't allow. When it returns, nothing is
// reached any more that they refuse.
//
// A flow that is being judged or dialled meanwhile is in no list that could be looked through. So whoever dials says first that
// the other side is reached, and then looks which rules hold; Swap says first which rules hold, and then looks who has
// reached anything. One of the two sees the other.
//
// fixed: the gateway listens on the ports that were named at first, and on no others. Rules that name another, or none, are a [PortError],
// and nothing changes.
func (g *Gateway) Swap(n *plan.Network, fixed bool) error {
	if fixed && n.Rules.AnyPort() {
		return PortError(0)
	}
	if named, _ := n.Rules.NamedPorts(); fixed {
		for _, port := range named {
			if !g.sockets.serve(port) {
				return PortError(port)
			}
		}
	}
	g.now.Store(n)
	searches := maxSwapSearches
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
	return nil
}

// PortError is a port that rules name, and on which nobody listens where flows can't be led to a gateway; 0: a rule names none.
type PortError uint16

func (e PortError) Error() string {
	if e == 0 {
		return "a rule names no port, and this host leads only ports that were named when it was opened to the gateway"
	}
	return fmt.Sprintf("port %d is none of those that the gateway listens on, and this host leads no others there", uint16(e))
}

// enter is called when a flow has reached an address, before anything passes, and says whether the rules of this moment allow it.
func (p *policy) enter(f *flow, at netip.Addr) network.Verdict {
	f.mu.Lock()
	f.reached, f.at = true, at
	f.mu.Unlock()
	v := p.still(f)
	needs := p.rules().Needs(f.host(), f.to.Port())
	f.mu.Lock()
	defer f.mu.Unlock()
	f.needs = needs
	if v.Allowed {
		return f.verdict // has the words that it was judged by
	}
	return v
}

// still judges a flow that has reached an address by the rules of this moment.
func (p *policy) still(f *flow) (v network.Verdict) {
	rules, port := p.rules(), f.to.Port()
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
		v = p.checkOwn(rules, at, f, v)
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
