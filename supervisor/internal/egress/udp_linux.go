package egress

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/network"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/internal/egress/emulate"
	"github.com/confine-run/confine/supervisor/internal/egress/peek"
)

const (
	// datagramsIdle is how long datagrams between two addresses belong together.
	datagramsIdle = 60 * time.Second
	// datagramsHeld is how many wait for the other side's address to be found.
	datagramsHeld = 64
	maxDatagram   = 64 << 10
)

// udpListener is a socket that datagrams from inside arrive at.
type udpListener struct {
	g    *Gateway
	conn *net.UDPConn
	use  handoff.Use
	// redirected: they were meant for others, and answers have to be sent in their name.
	redirected bool
	// Of a run that has no network of its own: who asked for it, and how that is answered.
	asked *flow
	back  emulate.Back

	mu    sync.Mutex
	flows map[[2]netip.AddrPort]*session
}

// session is the datagrams between two addresses.
type session struct {
	flow
	listener *udpListener
	queue    chan []byte
	over     chan string  // nothing comes back any more, and why not
	seen     atomic.Int64 // when the last one passed, in nanoseconds
}

// datagrams serves a socket until it is closed.
func (g *Gateway) datagrams(c *net.UDPConn, s *handoff.Socket) {
	d := &udpListener{g: g, conn: c, use: s.Use, flows: map[[2]netip.AddrPort]*session{}}
	d.redirected = s.Role == handoff.RoleRedirect || s.Role == handoff.RoleRedirectIPv6
	receiveAll(c, maxDatagram, func(from, to netip.AddrPort, payload []byte) { d.take(plainPort(from), to, payload) })
}

// questions answers what is asked of resolvers by datagrams.
func (g *Gateway) questions(c *net.UDPConn) {
	receiveAll(c, maxQuestion, func(from, to netip.AddrPort, query []byte) {
		g.question(&flow{protocol: "udp", from: plainPort(from), to: to}, bytes.Clone(query), func(answer []byte) {
			_, _, _ = c.WriteMsgUDPAddrPort(answer, sendAs(to.Addr()), from)
		})
	})
}

// receiveAll reads datagrams of at most so many bytes, and the address that each was sent to, until the socket is closed.
func receiveAll(c *net.UDPConn, most int, take func(from, to netip.AddrPort, payload []byte)) {
	buf, oob := make([]byte, most), make([]byte, 128)
	for {
		n, oobn, _, from, err := c.ReadMsgUDPAddrPort(buf, oob)
		switch to, ok := meantFor(oob[:oobn]); {
		case errors.Is(err, net.ErrClosed):
			return
		case err == nil && ok: // an error is what an earlier answer brought back
			take(from, to, buf[:n])
		}
	}
}

// take gives a datagram to the session that it belongs to, or begins one.
func (d *udpListener) take(from, to netip.AddrPort, payload []byte) {
	at := [2]netip.AddrPort{from, to}
	if d.hold(at, payload) {
		return
	}
	e := &session{flow: flow{protocol: "udp", from: from, to: to, use: d.use}, listener: d}
	e.queue, e.over = make(chan []byte, datagramsHeld), make(chan string, 1)
	if d.asked != nil {
		e.pid, e.comm, e.exact = d.asked.pid, d.asked.comm, d.asked.exact
	}
	if why := e.wants(payload); why != "" {
		if e.known() {
			d.g.note(&e.flow, status.AttemptBlocked, why)
			e.sendUnreachable(len(payload))
			if d.back != nil {
				d.back.Refuse()
			}
		}
		return
	}
	d.mu.Lock()
	d.flows[at] = e
	d.mu.Unlock()
	d.hold(at, payload)
	d.g.all.Go(func() {
		e.carry()
		d.forget(at)
	})
}

// hold keeps a datagram for the session that it belongs to, if there is one. What
// there is no room for is dropped, as a busy network would.
func (d *udpListener) hold(at [2]netip.AddrPort, payload []byte) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.flows[at]
	if e == nil {
		return false
	}
	size := int64(len(payload))
	if d.g.hold(size) {
		select {
		case e.queue <- append([]byte(nil), payload...):
		default:
			d.g.release(size)
		}
	}
	return true
}

// forget is for an session that has ended, with what is still held of it.
func (d *udpListener) forget(at [2]netip.AddrPort) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.flows[at]
	delete(d.flows, at)
	for len(e.queue) > 0 {
		d.g.release(int64(len(<-e.queue)))
	}
}

// wants says why an session may not begin.
func (e *session) wants(payload []byte) (why string) {
	if !e.known() {
		return "gateway"
	}
	if !e.listener.g.judge(&e.flow) {
		return string(e.verdict.Why)
	}
	if why = e.refusePayload(payload); why != "" {
		return why
	}
	switch {
	case e.listener.g.spent():
		return whyBytes
	case e.listener.g.connections.Load() >= e.listener.g.most():
		return whyConnections
	}
	return ""
}

// whyQUIC: the server name in it can't be seen. Clients fall back to TCP.
const whyQUIC = "quic"

// refusePayload says why a datagram is not sent on: it claims another name, or the rules want
// a protocol, which of datagrams can't be told.
func (e *session) refusePayload(payload []byte) (why string) {
	if e.name != "" {
		if why = e.misnamed(payload); why != "" {
			return why
		}
	}
	if v := e.listener.g.rules().Speaks(e.host(), e.to.Port(), network.Raw); !v.Allowed {
		e.verdict = v
		return string(v.Why)
	}
	return ""
}

// misnamed says why a datagram is not to the name that was asked for.
func (e *session) misnamed(payload []byte) (why string) {
	if peek.QUIC(payload) {
		return whyQUIC
	}
	name, hello, err := peek.DTLSServerName(payload)
	var broken peek.Reason
	switch {
	case errors.As(err, &broken):
		return string(broken)
	case hello && name != e.name:
		e.claimed = name
		return whyServerName
	}
	return ""
}

// carry passes datagrams on, both ways, until none came for a while.
func (e *session) carry() {
	g := e.listener.g
	far, ok := g.reach(&e.flow)
	if !ok {
		e.sendUnreachable(0)
		return
	}
	defer g.end(&e.flow)
	e.onAbort(func() { _ = far.Close() })
	e.touch()
	g.all.Go(func() { e.over <- e.answers(far) })
	why := e.forwardAll(far)
	_ = far.Close()
	if e.isRevoked() {
		why = string(e.verdict.Why)
	}
	if why != "" {
		g.note(&e.flow, status.AttemptBlocked, why)
		return
	}
	g.note(&e.flow, status.AttemptAllowed, "")
}

// forwardAll passes on what comes from inside; why is whatever refused more.
func (e *session) forwardAll(conn net.Conn) (why string) {
	g := e.listener.g
	idle := time.NewTimer(datagramsIdle)
	defer idle.Stop()
	for {
		select {
		case payload := <-e.queue:
			g.release(int64(len(payload)))
			if why := e.refusePayload(payload); why != "" {
				return why
			}
			if !g.spend(int64(len(payload))) {
				return whyBytes
			}
			e.touch()
			if _, err := conn.Write(payload); err == nil {
				e.sent.Add(int64(len(payload)))
			} else if errors.Is(err, unix.ECONNREFUSED) {
				e.sendUnreachable(len(payload))
			}
		case why := <-e.over:
			return why
		case <-idle.C:
			rest := datagramsIdle - e.idleFor()
			if rest <= 0 {
				return ""
			}
			idle.Reset(rest)
		case <-g.inside.Done():
			if len(e.queue) == 0 {
				return ""
			}
		}
	}
}

func (e *session) touch() { e.seen.Store(time.Now().UnixNano()) }

func (e *session) idleFor() time.Duration {
	return time.Duration(time.Now().UnixNano() - e.seen.Load())
}

// answers brings back what the other side sends, until that has an end; why is
// whatever refused more.
func (e *session) answers(conn net.Conn) (why string) {
	g := e.listener.g
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return ""
	}
	for {
		buf, n, err := receive(conn, raw, &g.datagramBuffers, maxDatagram, maxDatagram)
		switch {
		case errors.Is(err, unix.ECONNREFUSED):
			e.sendUnreachable(0)
			continue
		case err != nil:
			return ""
		case !g.spend(int64(n)):
			return whyBytes
		}
		e.touch()
		e.received.Add(int64(n))
		e.answer((*buf)[:n])
		g.datagramBuffers.Put(buf)
	}
}

// answer sends a datagram inside, in the name of the other side.
func (e *session) answer(payload []byte) {
	if e.listener.back != nil {
		e.listener.back.Say(payload)
		return
	}
	if e.listener.redirected {
		e.listener.g.sockets.raw.send(e.from.Addr(), datagram(e.to, e.from, payload))
		return
	}
	_, _, _ = e.listener.conn.WriteMsgUDPAddrPort(payload, sendAs(e.to.Addr()), e.from)
}

// sendUnreachable tells the inside at once that nobody answers.
func (e *session) sendUnreachable(size int) {
	e.listener.g.sockets.raw.send(e.from.Addr(), unreachable(e.from, e.to, size))
}

// rawSockets answer inside for others.
type rawSockets struct {
	mu  sync.Mutex
	fds [2]int // IPv4 and IPv6, or -1
}

func (r *rawSockets) take(family uint16, fd int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if family == unix.AF_INET6 {
		r.fds[1] = fd
	} else {
		r.fds[0] = fd
	}
}

// send sends a whole packet inside.
func (r *rawSockets) send(to netip.Addr, packet []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if to.Is6() {
		if r.fds[1] >= 0 {
			_ = unix.Sendto(r.fds[1], packet, unix.MSG_DONTWAIT, &unix.SockaddrInet6{Addr: to.As16()})
		}
	} else if r.fds[0] >= 0 {
		_ = unix.Sendto(r.fds[0], packet, unix.MSG_DONTWAIT, &unix.SockaddrInet4{Addr: to.As4()})
	}
}

func (r *rawSockets) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, fd := range r.fds {
		if fd >= 0 {
			_ = unix.Close(fd)
			r.fds[i] = -1
		}
	}
}

// sendAs is the control message that sends a datagram from addr.
func sendAs(addr netip.Addr) []byte {
	if addr.Is6() {
		return unix.PktInfo6(&unix.Inet6Pktinfo{Addr: addr.As16()})
	}
	return unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: addr.As4()})
}

// meantFor is the address that a datagram was sent to, by its control messages.
func meantFor(oob []byte) (to netip.AddrPort, ok bool) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return to, false
	}
	for _, m := range messages {
		switch {
		case m.Header.Level == unix.SOL_IP && m.Header.Type == unix.IP_ORIGDSTADDR && len(m.Data) >= unix.SizeofSockaddrInet4:
			addr := netip.AddrFrom4([4]byte(m.Data[4:8]))
			return netip.AddrPortFrom(addr, binary.BigEndian.Uint16(m.Data[2:])), true
		case m.Header.Level == unix.SOL_IPV6 && m.Header.Type == unix.IPV6_ORIGDSTADDR && len(m.Data) >= unix.SizeofSockaddrInet6:
			addr := netip.AddrFrom16([16]byte(m.Data[8:24]))
			return plainPort(netip.AddrPortFrom(addr, binary.BigEndian.Uint16(m.Data[2:]))), true
		}
	}
	return to, false
}
