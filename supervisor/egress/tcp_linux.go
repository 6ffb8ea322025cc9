package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/egress/names"
)

// Why an attempt came to nothing, beside what the rules say.
const (
	whyBytes       = "network_bytes"
	whyConnections = "network_connections"
	whyNoHost      = "no_such_host"
	whyUnreachable = "unreachable"
)

// connection serves one connection from inside, from its beginning to its end.
func (g *Gateway) connection(c *net.TCPConn, use handoff.Use) {
	g.carry(&flow{protocol: "tcp", from: endpoint(c.RemoteAddr()), to: endpoint(c.LocalAddr()), use: use}, c)
}

// carry serves a connection that is one of a flow.
func (g *Gateway) carry(f *flow, c *net.TCPConn) {
	outside, ok := g.reach(f)
	if !ok {
		reset(c)
		return
	}
	defer g.end(f)
	f.onAbort(func() { reset(c) })
	o := outside.(*net.TCPConn)
	f.onAbort(func() { reset(o) })
	g.relay(f, c, o)
}

// reach judges a flow and dials its other side. What comes to nothing is noted here;
// what is begun here has to be ended.
func (g *Gateway) reach(f *flow) (net.Conn, bool) {
	if !f.known() {
		return nil, false
	}
	if !g.judge(f) {
		g.note(f, status.AttemptBlocked, string(f.verdict.Why))
		return nil, false
	}
	if g.spent() {
		g.note(f, status.AttemptBlocked, whyBytes)
		return nil, false
	}
	if !g.begin(f) {
		g.note(f, status.AttemptBlocked, whyConnections)
		return nil, false
	}
	ctx, cancel := context.WithTimeout(g.ctx, dialPatience)
	defer cancel()
	f.onAbort(cancel)
	list, err := g.addresses(ctx, f)
	var conn net.Conn
	if err == nil {
		conn, err = dial(ctx, f.protocol, list, f.to.Port())
	}
	switch {
	case err == nil:
		f.dialled = endpoint(conn.RemoteAddr()).Addr().String()
		if g.plan.Log {
			g.remember(f, status.AttemptAllowed, "")
		}
		return conn, true
	case errors.Is(err, errRefused):
		g.note(f, status.AttemptBlocked, string(f.verdict.Why))
	default:
		g.note(f, status.AttemptFailed, whyOf(err))
	}
	g.end(f)
	return nil, false
}

// relay passes on both ways until both have ended.
func (g *Gateway) relay(f *flow, inside, outside *net.TCPConn) {
	var blocked atomic.Pointer[string]
	f.mu.Lock()
	f.deaf = func() { _ = outside.CloseRead() }
	f.mu.Unlock()
	one := func(to *net.TCPConn, pass func() error) {
		err := pass()
		var why refusal
		switch {
		case err == nil:
			_ = to.CloseWrite()
			return
		case errors.As(err, &why):
			word := string(why)
			if blocked.CompareAndSwap(nil, &word) {
				g.remember(f, status.AttemptBlocked, word) // as long as there is a socket to be found
			}
		}
		f.abort()
	}
	done, answered := make(chan struct{}), make(chan int, 1)
	go func() {
		defer close(done)
		one(inside, func() error { return g.back(f, inside, outside, answered) })
	}()
	one(outside, func() error { return g.forward(f, inside, outside, answered) })
	f.silent.Store(true)
	if g.ending() {
		f.leave()
	}
	<-done
	_ = inside.Close()
	_ = outside.Close()
	if f.incoming {
		return
	}
	if why := blocked.Load(); why != nil {
		g.note(f, status.AttemptBlocked, *why)
		return
	}
	g.note(f, status.AttemptAllowed, "")
}

// refusal ends a flow that had begun: the attempt is blocked for this reason.
type refusal string

func (r refusal) Error() string { return string(r) }

// reset ends a connection as a refusal would.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}

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
