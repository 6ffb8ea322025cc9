package egress

import (
	"io"

	"golang.org/x/sys/unix"
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
