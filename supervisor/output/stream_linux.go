package output

import (
	"sync/atomic"

	"golang.org/x/sys/unix"
)

const (
	pipeSize  = 1 << 20
	spliceMin = 32 << 10 // below it copying is cheaper
	// tail is left in the pipe by splice and copied when nothing follows it, so
	// that the last byte of a stream is always known.
	tail = 1
	// turn is how many steps one stream takes before the others are looked at.
	turn = 16
	// captureMax bounds what is kept in memory where no limit does.
	captureMax = 64 << 20
	// lastMax is a few lines, also before the trace of one that aborts.
	lastMax = 4 << 10
)

// Config says what to do with one output stream of the target.
type Config struct {
	Src int // read end of a pipe made for this stream alone, or a pty master; the Pump's from now on
	Dst int // the caller's descriptor, not closed; -1: none
	// Open, if not nil, gives Dst when there is something to be written to it: most streams of most targets have nothing.
	Open    func() (fd int, err error)
	Limit   int64  // bytes that pass; 0: all
	Capture bool   // keep what passes, for Captured; without a limit, up to 64 MiB
	Guard   Guard  // of Dst; nil: none
	Read    func() // called by the Pump when it has read something, before it passes that on; nil: nobody
	Last    bool   // keep the last of what passes, for Last
	Keys    Keys   // of the terminal Dst, asked before what was read is shown; nil: none
}

// Stream is one output stream of the target under its limit.
type Stream struct {
	src int // -1: at its end, or closed
	pty bool
	goal
	guard    Guard
	told     func()
	keys     Keys
	meter    meter
	capture  bool
	captured []byte
	keeps    bool
	last     []byte

	buf    []byte // from the pump's first read on
	pend   []byte // the part of buf, or the mark, that dst hasn't taken yet
	full   bool   // dst said EAGAIN
	fast   bool   // the last read filled buf: there is more than we copy well
	big    bool   // the pipe was enlarged
	err    error
	unread error
	total  atomic.Int64
	polled [2]int // places of src and dst in the poll set; -1: not in it
}

// goal is where a stream leads.
type goal struct {
	dst  *dest // nil: none, or failed, or not open yet
	open func() (fd int, err error)
}

func newStream(c Config) (*Stream, error) {
	s := &Stream{src: c.Src, guard: c.Guard, keys: c.Keys, told: c.Read, goal: goal{open: c.Open}, capture: c.Capture, keeps: c.Last, meter: meter{limit: c.Limit, due: -1}}
	if c.Capture && c.Limit == 0 {
		s.meter.limit = captureMax
	}
	var st unix.Stat_t
	if err := unix.Fstat(c.Src, &st); err != nil {
		return nil, err
	}
	s.pty = st.Mode&unix.S_IFMT != unix.S_IFIFO
	if err := unix.SetNonblock(c.Src, true); err != nil {
		return nil, err
	}
	if c.Dst >= 0 {
		s.opened(c.Dst)
	}
	return s, nil
}

func (s *Stream) opened(fd int) {
	d, err := openDest(fd)
	if err != nil {
		s.err = err // drained all the same
	}
	s.dst = d
}

// need opens what is opened when there is something for it.
func (s *Stream) need() {
	open := s.open
	if s.open = nil; open == nil {
		return
	}
	fd, err := open()
	if err != nil {
		errno, ok := err.(unix.Errno)
		if s.err = errno; !ok {
			s.err = unix.EIO
		}
		return
	}
	s.opened(fd)
}

// Bytes is how much the target has written so far, what was dropped included.
func (s *Stream) Bytes() int64 { return s.total.Load() }

// Truncated says whether the limit was crossed. Like what follows, it is valid
// once the Pump has ended.
func (s *Stream) Truncated() bool { return s.meter.over }

// Captured is what passed, with the mark of truncation.
func (s *Stream) Captured() []byte { return s.captured }

// Last is the end of what passed: lastMax bytes at most, and less after a fast stream, whose
// bytes pass unseen.
func (s *Stream) Last() []byte { return s.last }

// Err is the first error of the destination, an errno.
func (s *Stream) Err() error { return s.err }

// Unread is why the rest of what the target wrote could not be read, an errno.
func (s *Stream) Unread() error { return s.unread }

func (s *Stream) done() bool { return s.src < 0 && len(s.pend) == 0 }

func (s *Stream) dropping() bool { return s.meter.over || s.dst == nil && s.open == nil && !s.capture }

// step moves bytes until one side has to be waited for, or the turn is over.
func (s *Stream) step(p *Pump) {
	for range turn {
		s.flush()
		more := false
		switch {
		case s.src < 0:
		case s.dropping(): // even while the mark waits for its reader
			more = s.drop(p)
		case len(s.pend) > 0 || s.full:
		case s.fast && s.dst != nil && s.dst.splice && !s.pty && !s.capture:
			s.move()
			more = true
		default:
			more = s.copy()
		}
		if !more {
			return
		}
	}
}

// flush writes what is pending, until there is no more or it has to wait.
func (s *Stream) flush() {
	if s.dst == nil {
		s.pend = nil
	}
	for len(s.pend) > 0 && !s.full {
		if s.guard != nil {
			s.guard.Begin()
		}
		n, err := s.dst.write(s.pend)
		if s.guard != nil {
			s.guard.End(s.pend[:n])
		}
		s.pend = s.pend[n:]
		s.sent(err)
	}
}

// sent judges the outcome of a write or splice.
func (s *Stream) sent(err error) {
	s.full = err == unix.EAGAIN
	if err != nil && !s.full {
		s.fail(err)
	}
}

// fail gives the destination up.
func (s *Stream) fail(err error) {
	if s.err == nil {
		s.err = err
	}
	s.pend, s.full = nil, false
	s.dst.close()
	s.dst = nil
	if Gone(err) && !s.pty && !s.capture {
		s.closeSrc()
	}
}

func (s *Stream) closeSrc() {
	if s.src >= 0 {
		unix.Close(s.src)
		s.src = -1
	}
}

// copy reads once and passes it on. It returns false when nothing more is there for now.
func (s *Stream) copy() bool {
	if s.buf == nil {
		s.buf = make([]byte, bufSize)
	}
	n, ok := s.read(s.buf)
	if n == 0 {
		return ok
	}
	if s.keys != nil {
		s.keys.Wanted() // a prompt is not seen before the modes are those that it came with
	}
	if s.told != nil {
		s.told()
	}
	s.need()
	got := s.meter.admit(s.buf[:n])
	s.total.Store(s.meter.total)
	s.pend = got
	if s.capture {
		s.captured = append(s.captured, got...)
	}
	if s.keeps {
		s.keep(got)
	}
	if s.meter.over {
		s.truncate()
	}
	s.flush()
	s.fast = n == len(s.buf)
	return s.fast
}

func (s *Stream) keep(got []byte) {
	got = got[max(0, len(got)-lastMax):]
	if over := len(s.last) + len(got) - lastMax; over > 0 {
		s.last = s.last[:copy(s.last, s.last[over:])]
	}
	s.last = append(s.last, got...)
}

// enlarge gives the pipes of a fast stream more room, as far as the kernel lets
// us. Not before it shows to be fast: room for pipes is rationed per user, and
// most streams are small.
func (s *Stream) enlarge(dst int) {
	if s.big || s.pty {
		return
	}
	s.big = true
	for _, fd := range []int{s.src, dst} {
		enlargePipe(fd)
	}
}

func enlargePipe(fd int) {
	if size, err := unix.FcntlInt(uintptr(fd), unix.F_GETPIPE_SZ, 0); err == nil && size < pipeSize {
		unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, pipeSize)
	}
}

// truncate puts the mark after the last bytes that pass.
func (s *Stream) truncate() {
	if s.capture {
		s.captured = append(s.captured, s.meter.mark(false)...)
	}
	mark := s.meter.mark(s.dst != nil && s.dst.terminal)
	s.pend = append(s.pend[:len(s.pend):len(s.pend)], mark...)
}

// read returns 0, false when there is nothing now, and 0, true when the stream has ended.
func (s *Stream) read(b []byte) (int, bool) {
	for {
		n, err := unix.Read(s.src, b)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return 0, false
		case err == unix.EIO && s.pty: // the last slave is closed
			err = nil
			fallthrough
		case err != nil || n == 0:
			s.unread = err
			s.closeSrc()
			return 0, true
		}
		return n, true
	}
}

// move passes on by reference what is in the pipe, all but its tail.
func (s *Stream) move() {
	s.enlarge(s.dst.pipe())
	n, err := unix.IoctlGetInt(s.src, unix.TIOCINQ)
	n = int(min(int64(n), s.meter.room(), pipeSize)) - tail
	if err != nil || n < spliceMin {
		s.fast = false
		return
	}
	moved, err := splice(s.src, s.dst.fd, n)
	switch {
	case moved > 0:
		s.last = s.last[:0]
		s.meter.moved(moved)
		s.total.Store(s.meter.total)
	case err == nil || err == unix.EINVAL:
		s.dst.splice = false
	default:
		s.sent(err)
	}
}

// drop empties the pipe as fast as it fills.
func (s *Stream) drop(p *Pump) bool {
	if !s.pty && p.null >= 0 {
		n, err := splice(s.src, p.null, pipeSize)
		if n >= spliceMin {
			s.enlarge(-1)
		}
		if n > 0 {
			s.meter.total += n
			s.total.Store(s.meter.total)
			return true
		}
		if err == unix.EAGAIN {
			return false
		}
		if err == nil {
			s.closeSrc()
			return true
		}
		p.null = -1 // never seen; reading always works
	}
	if s.buf == nil {
		s.buf = make([]byte, bufSize)
	}
	n, ok := s.read(s.buf)
	s.meter.total += int64(n)
	s.total.Store(s.meter.total)
	return ok
}

// enter adds to the poll set what the stream waits for.
func (s *Stream) enter(set []unix.PollFd) []unix.PollFd {
	s.polled = [2]int{-1, -1}
	if s.src >= 0 && (len(s.pend) == 0 && !s.full || s.dropping()) {
		s.polled[0] = len(set)
		set = append(set, unix.PollFd{Fd: int32(s.src), Events: unix.POLLIN})
	}
	if s.dst != nil && (s.full || s.dst.watch && s.src >= 0) {
		s.polled[1] = len(set)
		fd := unix.PollFd{Fd: int32(s.dst.fd)} // POLLERR needs no asking
		if s.full {
			fd.Events = unix.POLLOUT
		}
		set = append(set, fd)
	}
	return set
}

// leave acts on what poll found.
func (s *Stream) leave(p *Pump, set []unix.PollFd) {
	ready := false
	if i := s.polled[1]; i >= 0 && set[i].Revents != 0 {
		if s.dst.watch && set[i].Revents&unix.POLLERR != 0 {
			s.fail(unix.EPIPE)
		}
		s.full, ready = false, true
	}
	i := s.polled[0]
	switch {
	case i >= 0 && !s.pty && !ready && set[i].Revents == unix.POLLHUP: // an empty pipe that nobody writes to
		s.closeSrc()
	case ready || i >= 0 && set[i].Revents != 0:
		s.step(p)
	}
}

// splice moves up to n bytes out of a pipe without waiting for either pipe.
func splice(src, dst, n int) (int64, error) {
	for {
		moved, err := spliceOnce(src, dst, n)
		if err != unix.EINTR {
			return moved, err
		}
	}
}

// spliceOnce doesn't tell the Go scheduler, which would take the processor away
// from this thread and give it back for every call; it never waits.
func spliceOnce(src, dst, n int) (int64, error) {
	m, _, errno := unix.RawSyscall6(unix.SYS_SPLICE, uintptr(src), 0, uintptr(dst), 0, uintptr(n),
		unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
	if errno != 0 {
		return 0, errno
	}
	return int64(m), nil
}
