package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"

	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/internal/egress/names"
)

// Why an attempt came to nothing, beside what the rules say.
const (
	whyBytes       = "network_bytes"
	whyConnections = "network_connections"
	whyNoHost      = "no_such_host"
	whyUnreachable = "unreachable"
	whyCut         = "cut" // the run had ended, and not all that it had sent was taken
)

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

// reach judges a flow and dials its other side. What comes to nothing is noted here; what is begun
// here has to be ended.
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
		f.dialled = endpoint(far.RemoteAddr()).Addr().String()
		if g.plan.Log {
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

// relay passes on both ways until both have ended.
func (g *Gateway) relay(f *flow, inside, outside *conn) {
	f.mu.Lock()
	f.outside = outside
	f.mu.Unlock()
	var mu sync.Mutex
	blocked, cut := "", false
	one := func(to *conn, err error) {
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
	var back sync.WaitGroup
	back.Go(func() { one(inside, g.back(f, said, inside, outside)) })
	one(outside, g.forward(f, said, inside, outside))
	f.mu.Lock()
	f.silent = true
	f.mu.Unlock()
	if g.inside.Err() != nil {
		f.leave()
	}
	back.Wait()
	_ = inside.Close()
	_ = outside.Close()
	switch {
	case f.incoming:
		g.log.came(f.sent.Load(), f.received.Load(), blocked)
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

// plainPort is p as rules and names know it.
func plainPort(p netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(p.Addr().Unmap().WithZone(""), p.Port())
}
