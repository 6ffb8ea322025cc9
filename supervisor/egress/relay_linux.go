package egress

import (
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// maxRelays bounds the sockets for datagrams. The one that was silent for longest goes first.
const maxRelays = 256

// relay is a socket on loopback that stands for one address outside, for one socket of
// a caller's and nobody else: it is connected to it.
type relay struct {
	conn *net.UDPConn
	at   netip.AddrPort // its own
	way  route          // from the caller's socket to whom it asked for
	flow *flow          // who asked
	seen atomic.Int64   // when something passed
}

// introduce says whose an exchange is.
func (r *relay) introduce(f *flow) {
	if r != nil {
		f.pid, f.comm, f.exact = r.flow.pid, r.flow.comm, r.flow.exact
	}
}

// say sends to the caller's socket.
func (r *relay) say(payload []byte) {
	r.seen.Store(time.Now().UnixNano())
	_, _ = r.conn.Write(payload)
}

// refuse lets the caller hear that nobody is there, with the next that it sends.
func (r *relay) refuse() {
	if r != nil {
		_ = r.conn.Close()
	}
}

// relayTo is the relay of a caller's socket for what a flow is to.
func (s *calls) relayTo(k *socket, f *flow) (*relay, unix.Errno) {
	to := f.to
	loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if to.Addr().Is6() {
		loopback = netip.IPv6Loopback()
	}
	from, errno := k.from(loopback)
	if errno != 0 {
		return nil, errno
	}
	f.from = from
	way := route{from, to}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.between[way]; r != nil {
		return r, 0
	}
	if s.g.ctx.Err() != nil {
		return nil, unix.ENETDOWN
	}
	if len(s.between) >= maxRelays {
		s.evict()
	}
	conn, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(loopback, 0)), net.UDPAddrFromAddrPort(from))
	if err != nil {
		var errno unix.Errno
		if !errors.As(err, &errno) {
			errno = unix.ENETUNREACH
		}
		return nil, errno
	}
	r := &relay{conn: conn, at: endpoint(conn.LocalAddr()), way: way, flow: f}
	r.seen.Store(time.Now().UnixNano())
	s.relays[r.at], s.between[way] = r, r
	s.g.all.Go(func() { s.pass(r) })
	return r, 0
}

// evict ends the relay that was silent for longest. The lock is held.
func (s *calls) evict() {
	var oldest *relay
	for _, r := range s.between {
		if oldest == nil || r.seen.Load() < oldest.seen.Load() {
			oldest = r
		}
	}
	_ = oldest.conn.Close()
	s.remove(oldest)
}

func (s *calls) remove(r *relay) {
	if s.relays[r.at] == r {
		delete(s.relays, r.at)
	}
	if s.between[r.way] == r {
		delete(s.between, r.way)
	}
}

// pass serves a relay until it is closed.
func (s *calls) pass(r *relay) {
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.remove(r)
	}()
	d := &door{conn: r.conn, use: r.flow.use, relay: r, flows: map[[2]netip.AddrPort]*exchange{}}
	buf := make([]byte, maxDatagram)
	for {
		n, err := r.conn.Read(buf)
		switch {
		case errors.Is(err, net.ErrClosed) || s.g.ctx.Err() != nil:
			_ = r.conn.Close()
			return
		case err != nil:
			continue // the caller's socket is gone, or there again
		}
		r.seen.Store(time.Now().UnixNano())
		if r.way.to.Port() == dnsPort {
			s.question(r, append([]byte(nil), buf[:n]...))
		} else {
			s.g.take(d, r.way.from, r.way.to, buf[:n])
		}
	}
}

// question answers one that was sent to a resolver, whichever it was.
func (s *calls) question(r *relay, query []byte) {
	if len(query) > maxQuestion {
		return
	}
	select {
	case s.g.asking <- struct{}{}:
	default:
		return
	}
	s.g.flows.Go(func() {
		defer func() { <-s.g.asking }()
		f := &flow{protocol: "udp", from: r.way.from, to: r.way.to, pid: r.flow.pid, comm: r.flow.comm}
		if answer := s.g.resolve(f, query, false); answer != nil {
			r.say(answer)
		}
	})
}

// sender is whom a datagram that came from one of our relays is shown to be from.
func (s *calls) sender(from netip.AddrPort) netip.AddrPort {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.relays[from]; r != nil {
		return r.way.to
	}
	return from
}
