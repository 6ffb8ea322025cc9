package egress

import (
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/supervisor/egress/loop"
)

// dialers are sockets of the inside's, made there one by one when they are asked for.
type dialers struct {
	mu sync.Mutex
	fd int // -1: there are none
}

func (d *dialers) socket() (fd int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fd < 0 {
		return -1, os.ErrClosed
	}
	if err := unix.Sendmsg(d.fd, []byte{0}, nil, nil, unix.MSG_NOSIGNAL); err != nil {
		return -1, err
	}
	var b [1]byte
	oob := make([]byte, unix.CmsgSpace(4))
	for {
		n, oobn, _, _, err := unix.Recvmsg(d.fd, b[:], oob, unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return -1, err
		}
		if n == 0 {
			return -1, unix.ECONNRESET
		}
		messages, err := unix.ParseSocketControlMessage(oob[:oobn])
		if err != nil || len(messages) == 0 {
			return -1, unix.EMFILE
		}
		fds, err := unix.ParseUnixRights(&messages[0])
		if err != nil || len(fds) == 0 {
			return -1, unix.EMFILE
		}
		return fds[0], nil
	}
}

func (d *dialers) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fd >= 0 {
		_ = unix.Close(d.fd)
		d.fd = -1
	}
}

// publish leads a port of the caller's loopback to one inside.
func (g *Gateway) publish(p plan.Publish) error {
	l, err := net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), p.Outside)))
	if err != nil {
		return err
	}
	fd, err := detach(l)
	if err != nil {
		return err
	}
	return g.accept(fd, func(c *loop.Conn) { g.comeIn(c, p.Inside) })
}

// comeIn serves a connection from outside.
func (g *Gateway) comeIn(c *loop.Conn, port uint16) {
	f := &flow{protocol: "tcp", from: c.RemoteAddr(), to: c.LocalAddr(), onLoop: true, incoming: true}
	switch {
	case g.spent():
		g.log.came(0, 0, whyBytes)
		c.Reset()
		return
	case !g.begin(f):
		g.log.came(0, 0, whyConnections)
		c.Reset()
		return
	}
	defer g.end(f)
	f.onAbort(c.Reset)
	fd, err := -1, error(nil)
	g.loop.Do(func() { fd, err = g.connectInside(port) })
	var inside *loop.Conn
	if err == nil {
		inside, err = g.loop.Adopt(fd)
	}
	if err != nil {
		c.Reset()
		return
	}
	f.onAbort(inside.Reset)
	g.relay(f, inside, c)
}

// connectInside connects to a port of the inside's loopback.
func (g *Gateway) connectInside(port uint16) (fd int, err error) {
	if fd, err = g.dialing.socket(); err != nil {
		return -1, err
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_OOBINLINE, 1) // as of all others
	err = unix.Connect(fd, &unix.SockaddrInet4{Port: int(port), Addr: [4]byte{127, 0, 0, 1}})
	if err == unix.EINPROGRESS || err == unix.EINTR {
		err = connected(fd)
	}
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// connectPatience is far more than a loopback takes.
const connectPatience = 5 * time.Second

// connected waits until a connection is made or refused.
func connected(fd int) error {
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
