package egress

import (
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/supervisor/internal/egress/emulate"
)

// dialers are sockets of the inside's, made there one by one when they are asked for: by a thread
// of ours that enters the inside's network namespace, or else by the init. To enter it takes
// CAP_SYS_ADMIN here and there. An ordinary user has the one there in the run's user namespace,
// which no process of several threads can enter.
type dialers struct {
	mu    sync.Mutex
	init  *net.UnixConn  // by which it is asked, or nil
	there netns.NsHandle // a pidfd of it; closed where its network namespace can't be entered
}

func (d *dialers) socket() (fd int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.init == nil {
		return -1, os.ErrClosed
	}
	if d.there.IsOpen() {
		if fd, err := socketIn(d.there); err == nil {
			return fd, nil
		}
		_ = d.there.Close()
	}
	b, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	if _, err := d.init.Write(b); err != nil {
		return -1, err
	}
	_, oobn, _, _, err := d.init.ReadMsgUnix(b, oob)
	if err != nil {
		return -1, err
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

// socketIn makes a TCP socket in another network namespace. The thread that goes there comes back, or
// ends with its goroutine.
func socketIn(there netns.NsHandle) (fd int, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		var here netns.NsHandle
		if here, err = netns.Get(); err != nil {
			return
		}
		defer here.Close()
		if err = netns.Set(there); err == nil { // setns takes a pidfd since Linux 5.8
			fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
			if netns.Set(here) != nil {
				return
			}
		}
		runtime.UnlockOSThread()
	}()
	<-done
	return fd, err
}

func (d *dialers) close() {
	if d.init != nil {
		_ = d.init.Close() // whoever waits for it, with the lock, goes on
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.there.IsOpen() {
		_ = d.there.Close()
	}
}

// publish leads a port of the caller's loopback to one inside.
func (g *Gateway) publish(p plan.Publish) error {
	l, err := net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), p.Outside)))
	if err != nil {
		return err
	}
	return g.listen(l, func(c *conn) { g.comeIn(c, p.Inside) })
}

// comeIn serves a connection from outside.
func (g *Gateway) comeIn(c *conn, port uint16) {
	f := &flow{protocol: "tcp", from: c.remote(), to: c.local(), incoming: true}
	switch {
	case g.spent():
		g.log.countIncoming(0, 0, whyBytes)
		c.reset()
		return
	case !g.begin(f):
		g.log.countIncoming(0, 0, whyConnections)
		c.reset()
		return
	}
	defer g.end(f)
	f.onAbort(c.reset)
	inside, err := g.sockets.dialing.connect(port)
	if err != nil {
		c.reset()
		return
	}
	f.onAbort(inside.reset)
	g.relay(f, inside, c)
}

// connect connects to a port of the inside's loopback.
func (d *dialers) connect(port uint16) (*conn, error) {
	fd, err := d.socket()
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "socket")
	defer f.Close()
	oobInline(uintptr(fd)) // as of all others
	err = unix.Connect(fd, &unix.SockaddrInet4{Port: int(port), Addr: [4]byte{127, 0, 0, 1}})
	if err == unix.EINPROGRESS || err == unix.EINTR {
		err = emulate.Connected(fd)
	}
	if err != nil {
		return nil, err
	}
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	return newConn(c.(*net.TCPConn)), nil
}
