package emulate

import (
	"encoding/binary"
	"net"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/supervisor/denials"
)

// Flow is a destination that a caller asks for.
type Flow struct {
	Protocol string // "tcp" or "udp"
	From, To netip.AddrPort
	PID      int // of the caller
	Comm     string
}

// Gateway is the way out: it judges, carries and answers.
type Gateway interface {
	// Go has something done beside, and is waited for in the end. It is false when the run is over.
	Go(func()) bool
	// Listen serves the connections that come to a listener, which it takes.
	Listen(l *net.TCPListener, serve func(*net.TCPConn)) error
	// Admit judges a flow as far as its address tells. Any resolver may be asked.
	Admit(*Flow) bool
	// Refused notes what was refused here, and RefusedUnix the name of a socket that was; who finds the caller.
	Refused(f *Flow, why string)
	RefusedUnix(name, why string, who func() (pid int, comm string))
	// Carry serves a connection that is one of a flow.
	Carry(*Flow, *net.TCPConn)
	// Relay gives what takes the datagrams of a flow, which it doesn't keep. What comes back goes to back.
	Relay(f *Flow, back Back) (take func(datagram []byte))
}

// Back is a caller's socket for datagrams.
type Back interface {
	Say(datagram []byte)
	Refuse() // nobody is there
}

// maxCalls is how many are made at one time, for threads that wait for them.
const maxCalls = 256

// Calls makes the socket calls of a run that has no network of its own.
type Calls struct {
	g      Gateway
	places chan struct{}
	tcp    [2]netip.AddrPort // what TCP is led to: IPv4, and IPv6 or nothing
	relays relays

	mu       sync.Mutex
	expected map[route]*expectation
	own      map[uint64]bool // unix sockets that were bound inside, by SO_COOKIE
}

// route is two ends of what passes over the caller's loopback.
type route struct{ from, to netip.AddrPort }

// New begins to serve a run whose socket calls are given to Take.
func New(g Gateway) (*Calls, error) {
	s := &Calls{g: g, places: make(chan struct{}, maxCalls), expected: map[route]*expectation{}, own: map[uint64]bool{}}
	s.relays = relays{g: g, ports: map[netip.AddrPort]*port{}, between: map[route]*relay{}}
	s.relays.filter = relaysOnly(s.relays.ports)
	for i, where := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.ListenTCP([]string{"tcp4", "tcp6"}[i], net.TCPAddrFromAddrPort(netip.MustParseAddrPort(where)))
		if err != nil && i > 0 {
			break // a host without IPv6
		}
		if err != nil {
			return nil, err
		}
		s.tcp[i] = unmapped(l.Addr().(*net.TCPAddr).AddrPort())
		if err := g.Listen(l, s.accepted); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Take makes a call for who waits for it, and answers, without holding anybody up.
func (s *Calls) Take(a *denials.Asked) {
	select {
	case s.places <- struct{}{}:
	default:
		a.Return(0, unix.ENOBUFS)
		return
	}
	begun := s.g.Go(func() {
		defer func() { <-s.places }()
		c := &caller{asked: a}
		defer c.close()
		if errno := c.open(); errno != 0 {
			a.Return(0, errno)
			return
		}
		s.make(c)
	})
	if !begun { // whoever is left is about to be ended
		<-s.places
		a.Return(0, unix.ENETDOWN)
	}
}

// make dispatches. A call that isn't here is refused.
func (s *Calls) make(c *caller) {
	var value int64
	var errno unix.Errno
	switch c.asked.Nr {
	case unix.SYS_SOCKET:
		if errno = s.relays.socket(c); errno == 0 {
			return
		}
	case unix.SYS_BIND:
		if k, errno := c.socket(int(int32(c.asked.Args[0]))); errno == 0 {
			s.rememberBound(k)
			k.close()
		}
		c.asked.Continue()
		return
	case unix.SYS_RECVFROM, unix.SYS_RECVMSG, unix.SYS_RECVMMSG:
		var done bool
		if value, errno, done = s.receive(c); !done {
			c.asked.Continue()
			return
		}
	default:
		value, errno = s.onSocket(c)
	}
	c.asked.Return(value, errno)
}

// onSocket is a call whose first argument is a socket.
func (s *Calls) onSocket(c *caller) (value int64, errno unix.Errno) {
	a := &c.asked.Args
	k, errno := c.socket(int(int32(a[0])))
	if errno != 0 {
		return 0, errno
	}
	defer k.close()
	n := 0
	switch c.asked.Nr {
	case unix.SYS_CONNECT:
		errno = s.connect(c, k, a[1], a[2])
	case unix.SYS_LISTEN:
		errno = s.listen(c, k, int(int32(a[1])))
	case unix.SYS_SENDTO:
		m := &message{flags: int(int32(a[3]))}
		if m.to, errno = c.address(a[4], a[5]); errno == 0 {
			n, errno = s.sendAll(c, k, m, []span{{a[1], a[2]}})
		}
	case unix.SYS_SENDMSG:
		n, errno = s.sendHeader(c, k, a[1], int(int32(a[2])))
	case unix.SYS_SENDMMSG:
		n, errno = s.sendmmsg(c, k)
	default:
		errno = unix.EACCES
	}
	return int64(n), errno
}

// maxAddress is sizeof(struct sockaddr_storage).
const maxAddress = 128

// address reads a sockaddr.
func (c *caller) address(at, size uint64) ([]byte, unix.Errno) {
	n := int32(size)
	if n < 2 || n > maxAddress {
		return nil, unix.EINVAL
	}
	return c.read(span{at, uint64(n)})
}

func familyOf(sockaddr []byte) int { return int(binary.NativeEndian.Uint16(sockaddr)) }

// target is what a sockaddr of IPv4 or IPv6 says. An IPv4 address that is mapped into
// IPv6 is the IPv4 address that it stands for.
func (s *socket) target(sockaddr []byte) (to netip.AddrPort, errno unix.Errno) {
	switch family := familyOf(sockaddr); {
	case family == unix.AF_INET && len(sockaddr) >= unix.SizeofSockaddrInet4:
		if s.family == unix.AF_INET6 && s.kind == unix.SOCK_STREAM {
			return to, unix.EAFNOSUPPORT
		}
		to = netip.AddrPortFrom(netip.AddrFrom4([4]byte(sockaddr[4:8])), binary.BigEndian.Uint16(sockaddr[2:]))
	case family == unix.AF_INET6 && s.family == unix.AF_INET6 && len(sockaddr) >= 24:
		to = netip.AddrPortFrom(netip.AddrFrom16([16]byte(sockaddr[8:24])).Unmap(), binary.BigEndian.Uint16(sockaddr[2:]))
	case family == unix.AF_INET || family == unix.AF_INET6 && s.family == unix.AF_INET6:
		return to, unix.EINVAL
	default:
		return to, unix.EAFNOSUPPORT
	}
	return to, 0
}

// connect is connect(2).
func (s *Calls) connect(c *caller, k *socket, at, size uint64) unix.Errno {
	sockaddr, errno := c.address(at, size)
	if errno != 0 {
		return errno
	}
	switch {
	case k.family == unix.AF_UNIX:
		return s.connectUnix(c, k, sockaddr)
	case !k.tcp() && !k.udp():
		return unix.EACCES
	case familyOf(sockaddr) == unix.AF_UNSPEC: // lets go of what it was connected to
		return rawConnect(k.fd, make([]byte, 16))
	}
	to, errno := k.target(sockaddr)
	if errno != 0 {
		return errno
	}
	if k.tcp() {
		return s.connectTCP(c, k, to)
	}
	if to.Port() == 0 {
		return unix.EACCES // C libraries ask so for the way to an address, and send nothing
	}
	// Nothing is sent yet, and C libraries connect so to sort addresses: what is sent is judged.
	r, errno := s.relays.to(k, c.flow("udp", to))
	if errno != 0 {
		return errno
	}
	return rawConnect(k.fd, k.sockaddr(r.port.at))
}

// flow is one that a caller asks for.
func (c *caller) flow(protocol string, to netip.AddrPort) *Flow {
	c.identify()
	return &Flow{Protocol: protocol, To: to, PID: c.pid, Comm: c.comm}
}

// whyListens: whoever listens could be reached from outside.
const whyListens = "listens"

// listen is listen(2). A server on the caller's own loopback would be one of the
// caller's, for everybody on the host.
func (s *Calls) listen(c *caller, k *socket, backlog int) unix.Errno {
	if k.family != unix.AF_UNIX {
		if own, err := unix.Getsockname(k.fd); err == nil {
			s.g.Refused(c.flow("tcp", addrPort(own)), whyListens)
		}
		return unix.EACCES
	}
	s.rememberBound(k)
	if err := unix.Listen(k.fd, backlog); err != nil {
		return errnoOf(err)
	}
	return 0
}

// Close ends what datagrams pass through.
func (s *Calls) Close() { s.relays.close() }
