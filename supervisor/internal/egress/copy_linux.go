package egress

import (
	"io"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/supervisor/internal/egress/loop"
)

const (
	// piece is how much is moved at once at most.
	piece = 1 << 20
	// little is what is read and written: requests and answers. What fills it is probably
	// more, and what follows it is spliced, as long as as much comes at once.
	little = 32 << 10
	// pipeSize is what everybody may have, as long as he hasn't many.
	pipeSize = 1 << 20
)

// maxPipes bounds how many bytes and descriptors lie in pipes; who gets none reads and writes.
const maxPipes = 16

// pipe is a way through the kernel, which is empty while it is in store.
type pipe struct{ r, w int }

// store holds what only those need who are moving bytes: connections that wait have none of it.
type store struct {
	buffers   sync.Pool
	datagrams sync.Pool // buffers, too
	mu        sync.Mutex
	pipes     []pipe
	made      int
}

func (s *store) buffer() *[]byte {
	if b, ok := s.buffers.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, little)
	return &b
}

// getPipe gives a pipe, if there is one left.
func (s *store) getPipe() (p pipe, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.pipes); n > 0 {
		p, s.pipes = s.pipes[n-1], s.pipes[:n-1]
		return p, true
	}
	if s.made == maxPipes {
		return p, false
	}
	var fds [2]int
	if unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK) != nil {
		return p, false
	}
	s.made++
	_, _ = unix.FcntlInt(uintptr(fds[0]), unix.F_SETPIPE_SZ, pipeSize) // or less
	return pipe{fds[0], fds[1]}, true
}

// putPipe takes a pipe back; one that isn't empty is closed.
func (s *store) putPipe(p pipe, empty bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if empty {
		s.pipes = append(s.pipes, p)
		return
	}
	p.close()
	s.made--
}

func (s *store) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pipes {
		p.close()
	}
	s.pipes = nil
}

func (p pipe) close() {
	_ = unix.Close(p.r)
	_ = unix.Close(p.w)
}

// mover moves bytes from one connection to another. Where there is a limit they are
// counted before they are sent, so that no number of connections at the same time passes
// it: then none is spliced.
type mover struct {
	g       *Gateway
	store   *store
	dst     *loop.Conn
	src     *loop.Conn
	take    func(fd int) bool // the methods, made once
	give    func(fd int) bool
	much    bool // came the last time
	most    int
	buf     *[]byte // what is under way is here
	through pipe    // or, if buf is nil, here
	n       int
	err     error
}

func (g *Gateway) mover(dst, src *loop.Conn) *mover {
	m := &mover{g: g, store: &g.store, dst: dst, src: src}
	m.take, m.give = m.taking, m.giving
	return m
}

// copyOnce moves what there is, at most so many bytes, and waits if there is nothing;
// 0 is the end. Whoever has much leaves others their turn.
func (m *mover) copyOnce(most int64) (n int64, err error) {
	if m.much {
		m.g.loop.Yield()
	}
	m.most = int(min(most, piece))
	if err := m.src.RawRead(m.take); err != nil {
		return 0, err
	}
	if m.n <= 0 {
		m.release(true)
		return 0, m.err
	}
	m.much = m.n >= little && m.g.plan.MaxBytes == 0
	if !m.g.spend(int64(m.n)) {
		m.release(false)
		return 0, refusal(whyBytes)
	}
	if m.buf != nil {
		k, err := m.dst.Write((*m.buf)[:m.n])
		m.release(true)
		return int64(k), err
	}
	all := m.n
	err = m.dst.RawWrite(m.give)
	m.release(m.n == 0)
	if err == nil {
		err = m.err
	}
	return int64(all - m.n), err
}

// taking reads, or says that there is nothing to be read yet; then nothing is held.
func (m *mover) taking(fd int) (done bool) {
	piped := false
	if m.much && !m.src.Urgent() {
		m.through, piped = m.store.getPipe()
	}
	if !piped {
		m.buf = m.store.buffer()
	}
	for {
		if piped {
			var n int64
			n, m.err = unix.Splice(fd, nil, m.through.w, nil, m.most, unix.SPLICE_F_NONBLOCK)
			m.n = int(n)
		} else {
			m.n, m.err = unix.Read(fd, (*m.buf)[:min(m.most, little)])
		}
		switch m.err {
		case nil:
			if piped && m.n == 0 { // it may be an urgent byte
				m.release(true)
				m.buf, piped = m.store.buffer(), false
				continue
			}
			if !piped && m.n < min(m.most, little) {
				m.src.Drained()
			}
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			m.release(true)
			return false
		}
		return true
	}
}

// giving writes what is in the pipe, or says that it can't be written yet.
func (m *mover) giving(fd int) (done bool) {
	for m.n > 0 {
		n, err := unix.Splice(m.through.r, nil, fd, nil, m.n, unix.SPLICE_F_NONBLOCK)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return false
		case err != nil:
			m.err = err
			return true
		case n == 0:
			m.err = io.ErrNoProgress
			return true
		default:
			m.n -= int(n)
			m.g.moved.Add(n)
		}
	}
	return true
}

// release gives back what is held.
func (m *mover) release(empty bool) {
	if m.buf != nil {
		m.store.buffers.Put(m.buf)
		m.buf = nil
		return
	}
	m.store.putPipe(m.through, empty)
}

// copy moves everything from src to dst.
func (g *Gateway) copy(dst, src *loop.Conn, count *atomic.Int64) error {
	m := g.mover(dst, src)
	for {
		n, err := m.copyOnce(piece)
		count.Add(n)
		if err != nil || n == 0 {
			return err
		}
	}
}
