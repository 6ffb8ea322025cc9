package emulate

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// maxRelays bounds the ports for datagrams, of IPv4 and of IPv6 each. The relay that was
// silent for longest makes room. More than 254 don't fit into one jump of a filter.
const maxRelays = 250

const maxDatagram = 64 << 10

// port is a socket of ours on loopback. It is bound until the run ends, also while it
// serves no relay: the target's sockets hear what comes from there, so nobody else may
// ever send from it.
type port struct {
	conn *net.UDPConn
	raw  syscall.RawConn
	at   netip.AddrPort // its own

	mu    sync.Mutex
	relay *relay // the last that it served, or nil
	open  bool   // it still does
}

// relays are the ports, and what they stand for.
type relays struct {
	g Gateway

	mu      sync.Mutex
	ports   map[netip.AddrPort]*port // by their own address
	between map[route]*relay
	filter  []bpf.Instruction // of the caller's sockets for datagrams: from ports, and from nowhere else
	made    socketCount       // these sockets
	over    bool
}

// relay is what a port does for one socket of a caller's and nobody else, to which it is
// connected: it stands for one address outside.
type relay struct {
	all  *relays
	port *port
	ends route // from the caller's socket to whom it asked for
	take func(datagram []byte)
	seen atomic.Int64 // when something passed
}

// Say sends to the caller's socket.
func (r *relay) Say(payload []byte) {
	p := r.port
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.open || p.relay != r {
		return
	}
	r.seen.Store(time.Now().UnixNano())
	_ = p.raw.Control(func(fd uintptr) { _, _ = unix.Write(int(fd), payload) })
}

// Refuse lets the caller hear that nobody is there, with the next that it sends.
func (r *relay) Refuse() {
	r.all.mu.Lock()
	defer r.all.mu.Unlock()
	r.all.end(r)
}

// end leaves a relay's port to others. The lock is held.
func (s *relays) end(r *relay) {
	if s.between[r.ends] != r {
		return // it has ended
	}
	delete(s.between, r.ends)
	p := r.port
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = false
	_ = p.connect(p.at)
}

// connect makes a port hear one address alone. Connected to itself it hears nobody: the
// kernel answers all others that nobody is there.
func (p *port) connect(to netip.AddrPort) (err error) {
	sockaddr := (&socket{family: familyAt(to)}).sockaddr(to)
	failed := p.raw.Control(func(fd uintptr) {
		if errno := rawConnect(int(fd), sockaddr); errno != 0 {
			err = errno
		}
	})
	if failed != nil {
		return failed
	}
	return err
}

func familyAt(a netip.AddrPort) int {
	if a.Addr().Is6() {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

// serve gives a port to a relay. What came before is nothing that its caller has sent.
func (p *port) serve(r *relay) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.connect(p.at); err != nil {
		return err
	}
	var b [1]byte
	_ = p.raw.Control(func(fd uintptr) {
		for {
			if _, err := unix.Read(int(fd), b[:]); err == unix.EAGAIN {
				return
			}
		}
	})
	if err := p.connect(r.ends.from); err != nil {
		return err
	}
	p.relay, p.open = r, true
	return nil
}

// to is the relay of a caller's socket for what a flow is to. The socket hears it.
func (s *relays) to(k *socket, f *Flow) (*relay, unix.Errno) {
	to := f.To
	loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if to.Addr().Is6() {
		loopback = netip.IPv6Loopback()
	}
	from, errno := k.from(loopback)
	if errno != 0 {
		return nil, errno
	}
	f.From = from
	ends := route{from, to}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.between[ends]; r != nil {
		return r, s.updateFilter(k)
	}
	if s.over {
		return nil, unix.ENETDOWN
	}
	p, err := s.portOn(loopback)
	if err != nil {
		return nil, errnoOf(err)
	}
	r := &relay{all: s, port: p, ends: ends}
	r.take = s.g.Relay(f, r)
	r.seen.Store(time.Now().UnixNano())
	if err := p.serve(r); err != nil {
		return nil, errnoOf(err)
	}
	s.between[ends] = r
	return r, s.updateFilter(k)
}

// portOn is a port of an address of loopback that serves nobody. The lock is held.
func (s *relays) portOn(loopback netip.Addr) (*port, error) {
	n, used := 0, make(map[*port]bool, len(s.between))
	for _, r := range s.between {
		used[r.port] = true
	}
	for _, p := range s.ports {
		if p.at.Addr() != loopback {
			continue
		}
		if n++; !used[p] {
			return p, nil
		}
	}
	if n < maxRelays {
		return s.newPort(loopback)
	}
	var oldest *relay
	for _, r := range s.between {
		if r.port.at.Addr() == loopback && (oldest == nil || r.seen.Load() < oldest.seen.Load()) {
			oldest = r
		}
	}
	s.end(oldest)
	return oldest.port, nil
}

// newPort binds another one. The lock is held.
func (s *relays) newPort(loopback netip.Addr) (*port, error) {
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(loopback, 0)))
	if err != nil {
		var errno unix.Errno
		if !errors.As(err, &errno) {
			errno = unix.ENETUNREACH
		}
		return nil, errno
	}
	p := &port{conn: conn, at: unmapped(conn.LocalAddr().(*net.UDPAddr).AddrPort())}
	if p.raw, err = p.conn.SyscallConn(); err != nil {
		_ = p.conn.Close()
		return nil, err
	}
	if !s.g.Go(func() { s.pass(p) }) {
		_ = p.conn.Close()
		return nil, unix.ENETDOWN
	}
	s.ports[p.at] = p
	s.filter = relaysOnly(s.ports)
	return p, nil
}

// pass serves a port until the run ends.
func (s *relays) pass(p *port) {
	defer p.conn.Close()
	buf := make([]byte, maxDatagram)
	for {
		var n int
		var r *relay
		var err error
		failed := p.raw.Read(func(fd uintptr) bool {
			p.mu.Lock() // or it could be another relay's
			defer p.mu.Unlock()
			n, err = unix.Read(int(fd), buf)
			if r = nil; p.open {
				r = p.relay
			}
			return err != unix.EAGAIN
		})
		switch {
		case failed != nil:
			return
		case err != nil || r == nil:
			continue // the caller's socket is gone, or there again
		}
		r.seen.Store(time.Now().UnixNano())
		r.take(buf[:n])
	}
}

// sender is the address that a caller is shown as the sender of a datagram from one of our ports: the one that the
// port stood for last, for that socket.
func (s *relays) sender(k *socket, from netip.AddrPort) netip.AddrPort {
	s.mu.Lock()
	p := s.ports[from]
	s.mu.Unlock()
	if p == nil {
		return from
	}
	own, err := unix.Getsockname(k.fd)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil || p.relay == nil || p.relay.ends.from.Port() != addrPort(own).Port() {
		return from
	}
	return p.relay.ends.to
}

// close ends what passes.
func (s *relays) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	for _, p := range s.ports {
		_ = p.conn.Close()
	}
	s.made.close()
}
