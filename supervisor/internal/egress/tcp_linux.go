package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"

	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/internal/egress/loop"
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
func (g *Gateway) carry(f *flow, c *loop.Conn) {
	f.onLoop = true
	var outside *loop.Conn
	ok := g.reach(f, func(ctx context.Context) (_ netip.Addr, err error) {
		list, known, err := g.atHand(f)
		if !known {
			g.loop.Do(func() { list, err = g.addresses(ctx, f) })
		}
		if err != nil {
			return netip.Addr{}, err
		}
		var d loop.Dialer
		f.onAbort(d.Cancel)
		if outside, err = g.loop.Dial(&d, list, f.to.Port(), dialPatience); err != nil {
			return netip.Addr{}, err
		}
		return outside.RemoteAddr().Addr(), nil
	})
	if !ok {
		c.Reset()
		return
	}
	defer g.end(f)
	f.onAbort(c.Reset)
	f.onAbort(outside.Reset)
	g.relay(f, c, outside)
}

// reach judges a flow and has its other side dialled. What comes to nothing is noted
// here; what is begun here has to be ended.
func (g *Gateway) reach(f *flow, dial func(context.Context) (netip.Addr, error)) bool {
	if !f.known() {
		return false
	}
	if !g.judge(f) {
		g.note(f, status.AttemptBlocked, string(f.verdict.Why))
		return false
	}
	if g.spent() {
		g.note(f, status.AttemptBlocked, whyBytes)
		return false
	}
	if !g.begin(f) {
		g.note(f, status.AttemptBlocked, whyConnections)
		return false
	}
	ctx, cancel := context.WithTimeout(g.ctx, dialPatience)
	defer cancel()
	f.onAbort(cancel)
	dialled, err := dial(ctx)
	switch {
	case err == nil:
		f.dialled = dialled.Unmap().String()
		if g.plan.Log {
			g.remember(f, status.AttemptAllowed, "")
		}
		return true
	case errors.Is(err, errRefused):
		g.note(f, status.AttemptBlocked, string(f.verdict.Why))
	default:
		g.note(f, status.AttemptFailed, whyOf(err))
	}
	g.end(f)
	return false
}

// relay passes on both ways until both have ended.
func (g *Gateway) relay(f *flow, inside, outside *loop.Conn) {
	blocked, cut := "", false
	f.mu.Lock()
	f.deaf, f.waiting = outside.CloseRead, outside.Queued
	f.mu.Unlock()
	one := func(to *loop.Conn, pass func() error) {
		err := pass()
		var why refusal
		switch {
		case err == nil:
			to.CloseWrite()
			return
		case errors.As(err, &why) && blocked == "":
			blocked = string(why)
			g.remember(f, status.AttemptBlocked, blocked) // as long as there is a socket to be found
		case to == outside && g.ctx.Err() != nil:
			cut = true
		}
		f.abort()
	}
	main, done := g.loop.Current(), false
	g.loop.Go(func() {
		one(inside, func() error { return g.back(f, inside, outside) })
		done = true
		main.Wake()
	})
	one(outside, func() error { return g.forward(f, inside, outside) })
	f.silent.Store(true)
	if g.ending() {
		f.leave()
	}
	g.loop.Until(func() bool { return done })
	inside.Close()
	outside.Close()
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

func whyOf(err error) string {
	if errors.Is(err, names.ErrNotFound) {
		return whyNoHost
	}
	return whyUnreachable
}
