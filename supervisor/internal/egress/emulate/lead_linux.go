package emulate

import (
	"net/netip"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/supervisor/internal/egress/loop"
)

// expectation is a connection that a caller's socket is about to make to us.
type expectation struct {
	flow  *Flow
	since time.Time
}

const (
	// maxExpected bounds what is about to connect, and expectedFor how long it may take
	// where there are more.
	maxExpected = 4096
	expectedFor = 30 * time.Second
)

// connectTCP leads a caller's socket to one of ours, which knows by both ends whose it
// is before it comes. The caller's socket is given the address by us alone, so there is
// nothing that could change after the check.
func (s *Calls) connectTCP(c *caller, k *socket, to netip.AddrPort) unix.Errno {
	f := c.flow("tcp", to)
	if !s.admit(f) {
		return unix.EACCES
	}
	at := s.tcp[0]
	if to.Addr().Is6() {
		at = s.tcp[1]
	}
	if !at.IsValid() {
		return unix.ENETUNREACH
	}
	if _, err := unix.Getpeername(k.fd); err == nil { // asked again, or once too often: the kernel knows the answer
		return rawConnect(k.fd, k.sockaddr(at))
	}
	from, errno := k.from(at.Addr())
	if errno != 0 {
		return errno
	}
	f.From = from
	way, e := route{from, at}, &expectation{f, time.Now()}
	if !s.expect(way, e) {
		return unix.EALREADY
	}
	errno = rawConnect(k.fd, k.sockaddr(at))
	if errno == unix.EINTR { // a signal of our own: it goes on
		errno = 0
		if err := loop.Connected(k.fd); err != nil {
			errno = errnoOf(err)
		}
	}
	if errno != 0 && errno != unix.EINPROGRESS {
		s.forget(way, e)
	}
	return errno
}

func errnoOf(err error) unix.Errno {
	if errno, ok := err.(unix.Errno); ok {
		return errno
	}
	return unix.EIO
}

// expect enters what will come.
func (s *Calls) expect(way route, e *expectation) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.expected) >= maxExpected {
		for other, old := range s.expected {
			if e.since.Sub(old.since) > expectedFor {
				delete(s.expected, other)
			}
		}
	}
	if old := s.expected[way]; old != nil && e.since.Sub(old.since) <= expectedFor || len(s.expected) >= maxExpected {
		return false
	}
	s.expected[way] = e
	return true
}

func (s *Calls) forget(way route, e *expectation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.expected[way] == e {
		delete(s.expected, way)
	}
}

// accepted serves what came. Whoever is not expected is somebody else on this host, or
// the target by a way that it found: it hears nothing.
func (s *Calls) accepted(c *loop.Conn) {
	way := route{c.RemoteAddr(), c.LocalAddr()}
	s.mu.Lock()
	e := s.expected[way]
	delete(s.expected, way)
	s.mu.Unlock()
	switch {
	case e == nil:
		c.Reset()
	case e.flow.To.Port() == dnsPort:
		s.g.Questions(e.flow, c)
	default:
		s.g.Carry(e.flow, c)
	}
}

// from is where a socket's packets to a loopback address come from; it gets an address
// if it has none.
func (k *socket) from(to netip.Addr) (netip.AddrPort, unix.Errno) {
	for range 2 {
		own, err := unix.Getsockname(k.fd)
		if err != nil {
			return netip.AddrPort{}, errnoOf(err)
		}
		if a := loop.AddrPort(own); a.Port() != 0 {
			if a.Addr().IsUnspecified() {
				return netip.AddrPortFrom(to, a.Port()), 0
			}
			return a, 0
		}
		b := k.sockaddr(netip.AddrPortFrom(to, 0))
		_, _, errno := unix.Syscall(unix.SYS_BIND, uintptr(k.fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
		if errno != 0 && errno != unix.EINVAL { // EINVAL: somebody was faster
			return netip.AddrPort{}, errno
		}
	}
	return netip.AddrPort{}, unix.EADDRNOTAVAIL
}

// sockaddr is an address as a socket of this family takes it.
func (k *socket) sockaddr(a netip.AddrPort) []byte {
	port := []byte{byte(a.Port() >> 8), byte(a.Port())}
	if k.family == unix.AF_INET {
		b := make([]byte, unix.SizeofSockaddrInet4)
		*(*uint16)(unsafe.Pointer(&b[0])) = unix.AF_INET
		copy(b[2:], port)
		v4 := a.Addr().As4()
		copy(b[4:], v4[:])
		return b
	}
	b := make([]byte, unix.SizeofSockaddrInet6)
	*(*uint16)(unsafe.Pointer(&b[0])) = unix.AF_INET6
	copy(b[2:], port)
	v6 := a.Addr().As16()
	copy(b[8:], v6[:])
	return b
}

func rawConnect(fd int, sockaddr []byte) unix.Errno {
	_, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&sockaddr[0])), uintptr(len(sockaddr)))
	return errno
}
