package emulate

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/supervisor/denials"
)

// caller is a thread that waits for a call to be made for it. What is read of its
// memory is read once, and believed only if it still waits afterwards: until then the
// number is its own.
type caller struct {
	asked *denials.Asked
	pidfd int    // or -1
	pid   int    // 0: nobody has asked yet
	comm  string // likewise
}

// pidfdThread is PIDFD_THREAD, since Linux 6.9.
const pidfdThread = unix.O_EXCL

// open finds the process. A thread that has its own table of descriptors is told
// apart from its process only since Linux 6.9; before, descriptors are the process's.
func (c *caller) open() unix.Errno {
	var err error
	if c.pidfd, err = unix.PidfdOpen(c.asked.TID, pidfdThread); err != nil {
		c.identify()
		c.pidfd, err = unix.PidfdOpen(c.pid, 0)
	}
	switch {
	case err != nil:
		c.pidfd = -1
		return unix.EACCES
	case !c.asked.Waits():
		return unix.EACCES
	}
	return 0
}

// identify finds out who it is.
func (c *caller) identify() {
	if c.pid != 0 {
		return
	}
	if t, err := denials.Look(c.asked.TID); err == nil {
		c.pid, c.comm = t.Group, t.Comm
	}
}

func (c *caller) close() {
	if c.pidfd >= 0 {
		_ = unix.Close(c.pidfd)
	}
}

// span is a piece of the caller's memory.
type span struct{ at, size uint64 }

// read copies from the caller's memory, in one call.
func (c *caller) read(spans ...span) ([]byte, unix.Errno) {
	return c.move(nil, spans)
}

// write copies to it, as much as there is.
func (c *caller) write(b []byte, spans ...span) unix.Errno {
	if !c.asked.Waits() {
		return unix.EFAULT
	}
	_, errno := c.move(b, spans)
	return errno
}

func (c *caller) move(out []byte, spans []span) ([]byte, unix.Errno) {
	total := uint64(0)
	remote := make([]unix.RemoteIovec, 0, len(spans))
	for _, s := range spans {
		if out != nil {
			s.size = min(s.size, uint64(len(out))-total)
		}
		if s.size > 0 {
			remote = append(remote, unix.RemoteIovec{Base: uintptr(s.at), Len: int(s.size)})
			total += s.size
		}
	}
	if total == 0 {
		return nil, 0
	}
	b, do := out, unix.ProcessVMWritev
	if out == nil {
		b, do = make([]byte, total), unix.ProcessVMReadv
	}
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(int(total))
	n, err := do(c.asked.TID, local, remote, 0)
	switch {
	case err == unix.EPERM: // it can't be looked into: prctl(PR_SET_DUMPABLE), or Yama
		return nil, unix.EACCES
	case err != nil || uint64(n) != total:
		return nil, unix.EFAULT
	case !c.asked.Waits():
		return nil, unix.EACCES
	}
	return b, 0
}

// socket is a duplicate of one of the caller's: the same socket, whatever becomes of
// the caller's descriptor.
type socket struct {
	fd                     int
	family, kind, protocol int
}

// socket takes a duplicate; it has to be closed.
func (c *caller) socket(fd int) (*socket, unix.Errno) {
	own, err := unix.PidfdGetfd(c.pidfd, fd, 0)
	switch {
	case err == unix.EBADF:
		return nil, unix.EBADF
	case err != nil:
		return nil, unix.EACCES
	}
	s := &socket{fd: own}
	for _, o := range []struct {
		name int
		to   *int
	}{{unix.SO_DOMAIN, &s.family}, {unix.SO_TYPE, &s.kind}, {unix.SO_PROTOCOL, &s.protocol}} {
		if *o.to, err = unix.GetsockoptInt(own, unix.SOL_SOCKET, o.name); err != nil {
			s.close()
			return nil, unix.ENOTSOCK
		}
	}
	return s, 0
}

func (s *socket) close() { _ = unix.Close(s.fd) }

func (s *socket) inet() bool { return s.family == unix.AF_INET || s.family == unix.AF_INET6 }

// tcp and udp are exact: nothing else is led anywhere.
func (s *socket) tcp() bool {
	return s.inet() && s.kind == unix.SOCK_STREAM && s.protocol == unix.IPPROTO_TCP
}

func (s *socket) udp() bool {
	return s.inet() && s.kind == unix.SOCK_DGRAM && s.protocol == unix.IPPROTO_UDP
}

// blocks says whether the caller wants to wait.
func (s *socket) blocks(flags int) bool {
	if flags&unix.MSG_DONTWAIT != 0 {
		return false
	}
	set, err := unix.FcntlInt(uintptr(s.fd), unix.F_GETFL, 0)
	return err == nil && set&unix.O_NONBLOCK == 0
}

// pollInterval is how long a wait goes on before the caller is checked again.
const pollInterval = 50 * time.Millisecond

// retryBlocking repeats what would block until it doesn't, the socket's own patience is at
// its end, or the caller has a signal to take, as the call itself would. The socket is
// the caller's too, so it is never made to block or not to.
func (c *caller) retryBlocking(s *socket, flags int, events int16, timeout int, do func() (int, error)) (int, unix.Errno) {
	waits := s.blocks(flags)
	var end time.Time
	if tv, err := unix.GetsockoptTimeval(s.fd, unix.SOL_SOCKET, timeout); err == nil && (tv.Sec != 0 || tv.Usec != 0) {
		end = time.Now().Add(time.Duration(tv.Nano()))
	}
	for {
		n, err := do()
		if err == nil {
			return n, 0
		}
		switch errno := errnoOf(err); {
		case errno == unix.EINTR && waits:
			continue
		case errno != unix.EAGAIN || !waits:
			return 0, errno
		}
		poll := []unix.PollFd{{Fd: int32(s.fd), Events: events}, {Fd: int32(c.pidfd), Events: unix.POLLIN}}
		_, _ = unix.Poll(poll, int(pollInterval.Milliseconds()))
		switch {
		case !c.asked.Waits():
			return 0, unix.EINTR // nobody hears it
		case poll[0].Revents != 0:
			continue
		case !end.IsZero() && time.Now().After(end):
			return 0, unix.EAGAIN
		}
		if t, err := denials.Look(c.asked.TID); err != nil || t.Signalled() {
			return 0, unix.EINTR
		}
	}
}
