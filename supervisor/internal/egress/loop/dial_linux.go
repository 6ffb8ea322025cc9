package loop

import (
	"errors"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// headStart is what an address gets before the next one is tried beside it (RFC 8305).
	headStart = 250 * time.Millisecond
	// mostUnder is how many are tried beside each other: each has a descriptor, and whoever
	// serves a name's zone says how many addresses it has.
	mostUnder = 2
	// alive, in seconds, is after which silence, and how often, the other side is asked
	// whether it is still there.
	alive = 15
)

// Dialer connects once. Cancel ends that from outside of the task, but within the loop.
type Dialer struct {
	task     *Task
	canceled bool
}

// Cancel makes Dial end with [net.ErrClosed].
func (d *Dialer) Cancel() {
	d.canceled = true
	if d.task != nil {
		d.task.Wake()
	}
}

// Dial connects to the first of the addresses that answers, with a head start for each
// before the next.
func (l *Loop) Dial(d *Dialer, list []netip.Addr, port uint16, patience time.Duration) (_ *Conn, err error) {
	var under []*Conn
	defer func() {
		for _, c := range under {
			c.Close()
		}
	}()
	err = errors.New("no address")
	end := time.Now().Add(patience)
	for next, at := 0, time.Now(); ; {
		if now := time.Now(); next < len(list) && !now.Before(at) {
			if len(under) == mostUnder { // the oldest had its time
				under[0].Close()
				under = append(under[:0], under[1:]...)
			}
			c, failed := l.connect(netip.AddrPortFrom(list[next], port))
			if next++; failed != nil {
				err = failed
				continue
			}
			under, at = append(under, c), now.Add(headStart)
		}
		for i := 0; i < len(under); i++ {
			done, failed := under[i].connected()
			if !done {
				continue
			}
			c := under[i]
			under = append(under[:i], under[i+1:]...)
			if failed == nil {
				return c, nil
			}
			c.Close()
			err, at = failed, time.Now()
			i--
		}
		until := end
		switch {
		case d.canceled:
			return nil, net.ErrClosed
		case !time.Now().Before(end):
			return nil, unix.ETIMEDOUT
		case next < len(list) && at.Before(end):
			until = at
		case next == len(list) && len(under) == 0:
			return nil, err
		}
		l.either(d, under, until)
	}
}

// either waits until one of them has something to say, or for some time.
func (l *Loop) either(d *Dialer, all []*Conn, until time.Time) {
	r := l.after(time.Until(until))
	d.task = l.current
	for _, c := range all {
		c.writer = l.current
	}
	l.park()
	for _, c := range all {
		c.writer = nil
	}
	d.task = nil
	r.stop()
}

// connect begins to connect.
func (l *Loop) connect(to netip.AddrPort) (*Conn, error) {
	var sockaddr unix.Sockaddr
	family, a := unix.AF_INET6, to.Addr().Unmap()
	if a.Is4() {
		family, sockaddr = unix.AF_INET, &unix.SockaddrInet4{Port: int(to.Port()), Addr: a.As4()}
	} else {
		sockaddr = &unix.SockaddrInet6{Port: int(to.Port()), Addr: a.As16()}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	if err != nil {
		return nil, err
	}
	for _, o := range [][3]int{
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{unix.SOL_SOCKET, unix.SO_OOBINLINE, 1},
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, alive},
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, alive},
	} {
		_ = unix.SetsockoptInt(fd, o[0], o[1], o[2])
	}
	err = unix.Connect(fd, sockaddr)
	if err != nil && err != unix.EINPROGRESS && err != unix.EINTR {
		_ = unix.Close(fd)
		return nil, err
	}
	c, err := l.Adopt(fd)
	if err != nil {
		return nil, err
	}
	if _, err := unix.Getpeername(fd); err == nil { // so it is when the other side is on this host
		c.remote = netip.AddrPortFrom(a, to.Port())
	}
	return c, nil
}

// connected says whether that has come to an end, and to which.
func (c *Conn) connected() (done bool, err error) {
	switch {
	case c.remote.IsValid():
		return true, c.itself(c.remote)
	case !c.writable:
		return false, nil
	}
	errno, err := unix.GetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	switch {
	case err != nil:
		return true, err
	case errno != 0:
		return true, unix.Errno(errno)
	}
	peer, err := unix.Getpeername(c.fd)
	if err != nil {
		return err != unix.ENOTCONN, err
	}
	return true, c.itself(AddrPort(peer))
}

// itself refuses a connection of a socket to itself. That is what comes of a port of this
// host's which nobody listens on when the kernel happens to give it to who connects there.
func (c *Conn) itself(peer netip.AddrPort) error {
	if c.LocalAddr() == peer {
		return unix.ECONNREFUSED
	}
	return nil
}

// connectPatience is far more than a loopback takes.
const connectPatience = 5 * time.Second

// Connected waits until a connection of a socket that blocks nobody but the caller is made or refused.
func Connected(fd int) error {
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	end := time.Now().Add(connectPatience)
	for {
		left := time.Until(end)
		if left <= 0 {
			return unix.ETIMEDOUT
		}
		n, err := unix.Poll(poll, int(left.Milliseconds())+1)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return unix.ETIMEDOUT
		}
		errno, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
		if err != nil {
			return err
		}
		if errno != 0 {
			return unix.Errno(errno)
		}
		return nil
	}
}
