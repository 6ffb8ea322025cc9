package emulate

import (
	"net"
	"net/netip"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
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
	if !s.g.Admit(f) {
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
	ends, e := route{from, at}, &expectation{f, time.Now()}
	if !s.expect(ends, e) {
		return unix.EALREADY
	}
	errno = rawConnect(k.fd, k.sockaddr(at))
	if errno == unix.EINTR { // a signal of our own: it goes on
		errno = 0
		if err := Connected(k.fd); err != nil {
			errno = errnoOf(err)
		}
	}
	if errno != 0 && errno != unix.EINPROGRESS {
		s.forget(ends, e)
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
func (s *Calls) expect(ends route, e *expectation) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.expected) >= maxExpected {
		for other, old := range s.expected {
			if e.since.Sub(old.since) > expectedFor {
				delete(s.expected, other)
			}
		}
	}
	if old := s.expected[ends]; old != nil && e.since.Sub(old.since) <= expectedFor || len(s.expected) >= maxExpected {
		return false
	}
	s.expected[ends] = e
	return true
}

func (s *Calls) forget(ends route, e *expectation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.expected[ends] == e {
		delete(s.expected, ends)
	}
}

// accepted serves what came. Whoever is not expected is somebody else on this host, or
// the target by a way that it found: it hears nothing.
func (s *Calls) accepted(c *net.TCPConn) {
	ends := route{unmapped(c.RemoteAddr().(*net.TCPAddr).AddrPort()), unmapped(c.LocalAddr().(*net.TCPAddr).AddrPort())}
	s.mu.Lock()
	e := s.expected[ends]
	delete(s.expected, ends)
	s.mu.Unlock()
	if e == nil {
		_ = c.SetLinger(0)
		_ = c.Close()
		return
	}
	s.g.Carry(e.flow, c)
}

// from is where a socket's packets to a loopback address come from; it gets an address
// if it has none.
func (k *socket) from(to netip.Addr) (netip.AddrPort, unix.Errno) {
	for range 2 {
		own, err := unix.Getsockname(k.fd)
		if err != nil {
			return netip.AddrPort{}, errnoOf(err)
		}
		if a := addrPort(own); a.Port() != 0 {
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

// addrPort is an address without what only sockets make of it.
func addrPort(a unix.Sockaddr) netip.AddrPort {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr).Unmap(), uint16(a.Port))
	}
	return netip.AddrPort{}
}

func unmapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

// connectPatience is far more than a loopback takes.
const connectPatience = 5 * time.Second

// Connected waits until a connection of a socket that doesn't block is made or refused.
func Connected(fd int) error {
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	for end := time.Now().Add(connectPatience); time.Now().Before(end); {
		n, err := unix.Poll(poll, int(time.Until(end).Milliseconds())+1)
		switch {
		case err == unix.EINTR || err == nil && n == 0:
			continue
		case err != nil:
			return err
		}
		errno, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
		if err == nil && errno != 0 {
			err = unix.Errno(errno)
		}
		return err
	}
	return unix.ETIMEDOUT
}
