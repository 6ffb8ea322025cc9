package loop

import (
	"io"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Conn is a TCP connection. One task may read while another one writes.
type Conn struct {
	l              *Loop
	fd             int            // -1: closed
	remote         netip.AddrPort // or nothing
	reader, writer *Task
	writable       bool // since it is connected
	dry            bool // all that there was to read is read
	ended          bool // what comes to be read is the end
	urgent         bool // there was a byte that a read stops before, whatever lies behind
	readBy         time.Time
	writeBy        time.Time
}

const edges = unix.EPOLLIN | unix.EPOLLPRI | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET

// Adopt takes a connected socket that doesn't block. The descriptor is the loop's in
// any case.
func (l *Loop) Adopt(fd int) (*Conn, error) {
	c := &Conn{l: l, fd: fd}
	if err := l.watch(fd, edges); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	l.tell(fd, c)
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	return c, nil
}

func (c *Conn) happened(events uint32) {
	const ends = unix.EPOLLHUP | unix.EPOLLERR
	if events&(unix.EPOLLIN|unix.EPOLLPRI|unix.EPOLLRDHUP|ends) != 0 {
		c.dry = false
		c.urgent = c.urgent || events&unix.EPOLLPRI != 0
		c.ended = c.ended || events&(unix.EPOLLRDHUP|ends) != 0
		if c.reader != nil {
			c.reader.Wake()
		}
	}
	if events&(unix.EPOLLOUT|ends) != 0 {
		c.writable = true
		if c.writer != nil {
			c.writer.Wake()
		}
	}
}

// SetReadDeadline bounds the waits of reads from here on; the zero time is none.
func (c *Conn) SetReadDeadline(at time.Time) { c.readBy = at }

// SetWriteDeadline does it for writes.
func (c *Conn) SetWriteDeadline(at time.Time) { c.writeBy = at }

// Drained says that less was read than was asked for, so that nothing is there until
// the next event. An end that is there already has no event of its own, nor has what
// lies behind an urgent byte.
func (c *Conn) Drained() { c.dry = !c.ended && !c.urgent }

// Urgent says whether there was an urgent byte (MSG_OOB), which splice never gets past.
func (c *Conn) Urgent() bool { return c.urgent }

// inline leaves urgent bytes among the others: nobody is told of them here, and of a
// protocol that has them none would be missing.
func inline(fd int) { _ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_OOBINLINE, 1) }

// RawRead calls f until it says that it is done, each time that there may be something
// to read. f may close nothing.
func (c *Conn) RawRead(f func(fd int) (done bool)) error {
	return c.try(&c.reader, c.readBy, func(fd int) bool { return !c.dry && f(fd) })
}

// RawWrite is the same for writing.
func (c *Conn) RawWrite(f func(fd int) (done bool)) error {
	return c.try(&c.writer, c.writeBy, f)
}

// try calls f until it says that it is done, each time that whoever waits is woken.
func (c *Conn) try(waits **Task, by time.Time, f func(fd int) (done bool)) error {
	c.l.step()
	var r *timer
	for {
		switch {
		case c.fd < 0:
			return net.ErrClosed
		case f(c.fd):
			return nil
		case r != nil && r.fired:
			return os.ErrDeadlineExceeded
		}
		if r == nil && !by.IsZero() {
			r = c.l.after(time.Until(by))
			defer r.stop()
		}
		*waits = c.l.current
		c.l.park()
		*waits = nil
	}
}

// Read is io.Reader's.
func (c *Conn) Read(b []byte) (n int, err error) {
	failed := c.RawRead(func(fd int) bool {
		for {
			n, err = unix.Read(fd, b)
			if err != unix.EINTR {
				return err != unix.EAGAIN
			}
		}
	})
	switch {
	case failed != nil:
		return 0, failed
	case err != nil:
		return 0, err
	case n == 0 && len(b) > 0:
		return 0, io.EOF
	}
	return n, nil
}

// Write is io.Writer's.
func (c *Conn) Write(b []byte) (total int, err error) {
	failed := c.RawWrite(func(fd int) bool {
		for total < len(b) {
			var n int
			n, err = unix.SendmsgN(fd, b[total:], nil, nil, unix.MSG_NOSIGNAL)
			switch {
			case err == unix.EINTR:
				continue
			case err == unix.EAGAIN:
				return false
			case err != nil:
				return true
			}
			total += n
		}
		return true
	})
	if failed != nil {
		err = failed
	}
	return total, err
}

// Queued is how much of what was written the other end has not acknowledged.
func (c *Conn) Queued() int {
	if c.fd < 0 {
		return 0
	}
	n, err := unix.IoctlGetInt(c.fd, unix.SIOCOUTQ)
	if err != nil {
		return 0
	}
	return n
}

// CloseWrite says that nothing more will be said.
func (c *Conn) CloseWrite() {
	if c.fd >= 0 {
		_ = unix.Shutdown(c.fd, unix.SHUT_WR)
	}
}

// CloseRead hears no more; whoever reads comes to the end.
func (c *Conn) CloseRead() {
	if c.fd >= 0 {
		_ = unix.Shutdown(c.fd, unix.SHUT_RD)
	}
}

// Close closes the connection. Whoever waits for it is told [net.ErrClosed].
func (c *Conn) Close() {
	if c.fd < 0 {
		return
	}
	c.l.forget(c.fd)
	c.fd = -1
	for _, t := range []*Task{c.reader, c.writer} {
		if t != nil {
			t.Wake()
		}
	}
}

// Reset closes it as a refusal would.
func (c *Conn) Reset() {
	if c.fd >= 0 {
		_ = unix.SetsockoptLinger(c.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
		c.Close()
	}
}

// LocalAddr is this end.
func (c *Conn) LocalAddr() netip.AddrPort { return c.address(unix.Getsockname) }

// RemoteAddr is the other end.
func (c *Conn) RemoteAddr() netip.AddrPort {
	if c.remote.IsValid() {
		return c.remote
	}
	return c.address(unix.Getpeername)
}

func (c *Conn) address(ask func(int) (unix.Sockaddr, error)) netip.AddrPort {
	a, err := ask(c.fd)
	if err != nil {
		return netip.AddrPort{}
	}
	return AddrPort(a)
}

// AddrPort is an address without what only sockets make of it.
func AddrPort(a unix.Sockaddr) netip.AddrPort {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr).Unmap(), uint16(a.Port))
	}
	return netip.AddrPort{}
}
