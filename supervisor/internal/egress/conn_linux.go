package egress

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/supervisor/internal/egress/poll"
)

const (
	// spliced is how much is moved at once at most: a pipe of that size everybody may have, as long as he
	// hasn't many.
	spliced = 1 << 20
	// maxPipes bounds how many bytes and descriptors lie in pipes; who gets none reads and writes.
	maxPipes = 16
)

// pipe is a way through the kernel.
type pipe struct{ r, w int }

// pipes are those that nobody uses, which are empty. The zero one is still to be made.
type pipes chan pipe

func newPipes() pipes {
	p := make(pipes, maxPipes)
	for range maxPipes {
		p <- pipe{}
	}
	return p
}

func (p pipes) get() (pipe, bool) {
	select {
	case it := <-p:
		if it != (pipe{}) {
			return it, true
		}
		var fds [2]int
		if unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK) != nil {
			p <- it
			return it, false
		}
		_, _ = unix.FcntlInt(uintptr(fds[0]), unix.F_SETPIPE_SZ, spliced) // or less
		return pipe{fds[0], fds[1]}, true
	default:
		return pipe{}, false
	}
}

// put takes a pipe back; one that isn't empty is closed.
func (p pipes) put(it pipe, empty bool) {
	if !empty {
		it.close()
		it = pipe{}
	}
	p <- it
}

func (p pipes) close() {
	for {
		select {
		case it := <-p:
			it.close()
		default:
			return
		}
	}
}

func (p pipe) close() {
	if p != (pipe{}) {
		_ = unix.Close(p.r)
		_ = unix.Close(p.w)
	}
}

// splice moves what there is by splice(2), and waits for room only. After 0 the source has to be read: splice stops
// before an urgent byte (MSG_OOB), and takes what lies behind for the end.
func (p pipes) splice(dst, src *conn, most int64) (n int64, err error) {
	through, ok := p.get()
	if !ok {
		return 0, nil
	}
	failed := src.raw.Read(func(fd uintptr) bool {
		n, err = unix.Splice(int(fd), nil, through.w, nil, int(min(most, spliced)), unix.SPLICE_F_NONBLOCK)
		return true
	})
	if failed != nil || err != nil || n == 0 {
		p.put(through, true)
		return 0, failed // what splice can't, read can, or says why not
	}
	left := n
	failed = dst.raw.Write(func(fd uintptr) bool {
		for left > 0 {
			var k int64
			switch k, err = unix.Splice(through.r, nil, int(fd), nil, int(left), unix.SPLICE_F_NONBLOCK); {
			case err == unix.EINTR:
			case err == unix.EAGAIN:
				return false
			case err != nil:
				return true
			case k == 0:
				err = io.ErrNoProgress
				return true
			default:
				left -= k
			}
		}
		return true
	})
	p.put(through, left == 0)
	if failed != nil {
		err = failed
	}
	return n - left, err
}

// acknowledged is how many bytes the other end has confirmed.
func acknowledged(c *conn) (n int64) {
	_ = c.raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			n = int64(info.Bytes_acked)
		}
	})
	return n
}

// interactiveAfter is how many small messages each side has to send until the poller gets a flow: what asks once is over
// by then.
const interactiveAfter = 8

// interact has the poller pass bytes on, until something else than a small message comes. An error is one of
// what goes to a connection.
func (f *flow) interact(g *Gateway, inside, outside *conn) (to *conn, err error) {
	ends := [2]*conn{inside, outside}
	pair := &poll.Pair{Sockets: [2]int{-1, -1}, Passed: [2]*atomic.Int64{&f.sent, &f.received}, Spend: func(n int) error {
		if !g.spend(int64(n)) {
			return refusal(whyBytes)
		}
		return nil
	}}
	f.mu.Lock()
	for i, c := range ends {
		_ = c.SetReadDeadline(time.Time{}) // by which the other direction had it stop
		if pair.Sockets[i], err = c.detach(); err != nil {
			break
		}
	}
	f.recall = func() { g.sockets.poller.End(pair) }
	f.mu.Unlock()

	if err == nil {
		err = g.sockets.poller.Pass(pair)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recall = nil
	lost := errors.Join(inside.attach(pair.Sockets[0]), outside.attach(pair.Sockets[1]))
	if f.aborted {
		inside.reset()
		outside.reset()
	}
	switch {
	case lost != nil:
		return outside, lost
	case err != nil: // no descriptor or memory is left: the goroutines go on
		return nil, nil
	}
	src := ends[pair.From]
	src.rest, src.bulk = pair.Rest, pair.Full
	return ends[1-pair.From], pair.Err
}

// detach takes a connection's socket from the runtime, whose poller knows it until that connection is closed.
func (c *conn) detach() (fd int, err error) {
	failed := c.raw.Control(func(s uintptr) { fd, err = unix.FcntlInt(s, unix.F_DUPFD_CLOEXEC, 0) })
	if err = errors.Join(failed, err); err != nil {
		return -1, err
	}
	_ = c.Close()
	return fd, nil
}

// attach makes a connection of a socket again, if it was detached.
func (c *conn) attach(fd int) error {
	if fd < 0 {
		return nil
	}
	f := os.NewFile(uintptr(fd), "socket")
	defer f.Close()
	made, err := net.FileConn(f)
	if err != nil {
		_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}) // a reset
		return err
	}
	c.TCPConn = made.(*net.TCPConn)
	c.raw, err = c.SyscallConn()
	return err
}
