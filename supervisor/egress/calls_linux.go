package egress

import (
	"encoding/binary"
	"net"
	"net/netip"
	"sync"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/confine/network"
	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/denials"
	"github.com/confine-run/confine/supervisor/egress/loop"
)

// maxCalls is how many are made at one time, for threads that wait for them.
const maxCalls = 256

// calls makes the socket calls of a run that has no network of its own.
type calls struct {
	g      *Gateway
	places chan struct{}
	tcp    [2]netip.AddrPort // what TCP is led to: IPv4, and IPv6 or nothing

	mu       sync.Mutex
	expected map[route]*expectation
	ports    map[netip.AddrPort]*port // by their own address
	between  map[route]*relay
	filter   []bpf.Instruction // of the caller's sockets for datagrams: from ports, and from nowhere else
	made     census            // these sockets
	own      map[uint64]bool   // unix sockets that were bound inside, by SO_COOKIE
}

// route is two ends of what passes over the caller's loopback.
type route struct{ from, to netip.AddrPort }

// Supervise begins to serve a run without a network of its own, whose socket calls
// are given to Take.
func (g *Gateway) Supervise() error {
	c := &calls{
		g: g, places: make(chan struct{}, maxCalls), expected: map[route]*expectation{},
		ports: map[netip.AddrPort]*port{}, between: map[route]*relay{}, own: map[uint64]bool{},
	}
	c.filter = relaysOnly(c.ports)
	for i, where := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.ListenTCP([]string{"tcp4", "tcp6"}[i], net.TCPAddrFromAddrPort(netip.MustParseAddrPort(where)))
		if err != nil {
			if i == 0 {
				return err
			}
			continue // a host without IPv6
		}
		c.tcp[i] = endpoint(l.Addr())
		fd, err := detach(l)
		if err == nil {
			err = g.accept(fd, c.accepted)
		}
		if err != nil {
			return err
		}
	}
	g.calls = c
	return nil
}

// Take makes a call for who waits for it, and answers, without holding anybody up.
func (g *Gateway) Take(a *denials.Asked) {
	select {
	case g.calls.places <- struct{}{}:
	default:
		a.Return(0, unix.ENOBUFS)
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.draining { // whoever is left is about to be ended
		<-g.calls.places
		a.Return(0, unix.ENETDOWN)
		return
	}
	g.flows.Go(func() {
		defer func() { <-g.calls.places }()
		c := &caller{asked: a}
		defer c.close()
		if errno := c.open(); errno != 0 {
			a.Return(0, errno)
			return
		}
		g.calls.make(c)
	})
}

// make dispatches. A call that isn't here is refused.
func (s *calls) make(c *caller) {
	args := &c.asked.Args
	var value int64
	errno := unix.EACCES
	switch c.asked.Nr {
	case unix.SYS_SOCKET:
		if errno = s.socket(c); errno == 0 {
			return
		}
	case unix.SYS_CONNECT:
		errno = s.connect(c, int(int32(args[0])), args[1], args[2])
	case unix.SYS_LISTEN:
		errno = s.listen(c, int(int32(args[0])), int(int32(args[1])))
	case unix.SYS_BIND:
		s.bound(c, int(int32(args[0])))
		c.asked.Continue()
		return
	case unix.SYS_SENDTO:
		value, errno = s.sendto(c)
	case unix.SYS_SENDMSG:
		value, errno = s.sendmsg(c)
	case unix.SYS_SENDMMSG:
		value, errno = s.sendmmsg(c)
	case unix.SYS_RECVFROM, unix.SYS_RECVMSG, unix.SYS_RECVMMSG:
		var done bool
		if value, errno, done = s.receive(c); !done {
			c.asked.Continue()
			return
		}
	}
	c.asked.Return(value, errno)
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
func (s *calls) connect(c *caller, fd int, at, size uint64) unix.Errno {
	k, errno := c.socket(fd)
	if errno != 0 {
		return errno
	}
	defer k.close()
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
	r, errno := s.relayTo(k, c.flow("udp", to))
	if errno != 0 {
		return errno
	}
	return rawConnect(k.fd, k.sockaddr(r.port.at))
}

// flow is one that a caller asks for.
func (c *caller) flow(protocol string, to netip.AddrPort) *flow {
	c.identify()
	f := &flow{protocol: protocol, to: to, pid: c.pid, comm: c.comm}
	if to.Addr().IsLoopback() {
		f.use, f.exact = handoff.UseLocalhost, true
	}
	return f
}

// dnsPort is where resolvers are asked: whichever is, ours answers.
const dnsPort = 53

// admit judges what a caller asks for, as far as its address tells.
func (s *calls) admit(f *flow) bool {
	if f.to.Port() == dnsPort || s.g.judge(f) {
		return true
	}
	s.g.note(f, status.AttemptBlocked, string(f.verdict.Why))
	return false
}

// whyListens: whoever listens could be reached from outside.
const whyListens = "listens"

// listen is listen(2). A server on the caller's own loopback would be one of the
// caller's, for everybody on the host.
func (s *calls) listen(c *caller, fd, backlog int) unix.Errno {
	k, errno := c.socket(fd)
	if errno != 0 {
		return errno
	}
	defer k.close()
	if k.family != unix.AF_UNIX {
		if own, err := unix.Getsockname(k.fd); err == nil {
			f := c.flow("tcp", loop.AddrPort(own))
			f.verdict = network.Verdict{Rule: whyListens}
			s.g.note(f, status.AttemptBlocked, whyListens)
		}
		return unix.EACCES
	}
	s.note(k)
	if err := unix.Listen(k.fd, backlog); err != nil {
		return errnoOf(err)
	}
	return 0
}

// close ends what datagrams pass through.
func (s *calls) close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.ports {
		_ = p.conn.Close()
	}
	s.made.close()
}
