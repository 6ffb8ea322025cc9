package supervisor

import (
	"encoding/base64"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/internal/watch"
	"github.com/confine-run/confine/supervisor/output"
	"github.com/confine-run/confine/supervisor/terminal"
)

// streams are the three streams of a run. What the target gets are ends of our
// own, never the caller's descriptors.
type streams struct {
	tty    [3]bool
	limit  int64 // bytes per stream; 0: none
	opts   *Options
	pump   *output.Pump
	target [3]int // the target's 0, 1, 2, until the child has them
	source [3]int // our ends of 1 and 2
	tells  tells
	out    [3]*output.Stream
	begun  bool
	later  bool // the pump may start a moment later
	err    error
	watch  atomic.Pointer[watch.Watch] // that looks when something is written to 2

	mu     sync.Mutex
	master int // of the pty, where no terminal of the caller's gives it its size; else -1. Guarded by mu
	// A size that was asked for before the child has sent the pty; ended: it won't any more. Guarded by mu.
	size  *unix.Winsize
	ended bool
}

// tells are the ends of a pipe by which the target tells something; -1: it tells nothing.
type tells struct{ inside, outside int }

// maxTold is how much of that is heard: what fits into the pipe at once, since nobody reads before the target has ended.
const maxTold = 4096

// heard is what it has told.
func (t *tells) heard() []byte {
	if t.outside < 0 {
		return nil
	}
	text := make([]byte, maxTold)
	n, err := unix.Read(t.outside, text) // without waiting
	_ = unix.Close(t.outside)
	t.outside = -1
	if err != nil {
		return nil
	}
	return text[:n]
}

func openStreams(tty [3]bool, o *Options) (*streams, error) {
	s := &streams{tty: tty, opts: o, target: [3]int{-1, -1, -1}, source: [3]int{-1, -1, -1}, master: -1, tells: tells{-1, -1}}
	pump, err := output.New()
	if err != nil {
		return nil, err
	}
	s.pump = pump
	for fd := range s.target {
		if err := s.open(fd); err != nil {
			s.handedOver()
			s.end(0)
			return nil, err
		}
	}
	if o.Told != nil {
		var ends [2]int
		if err := unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
			s.handedOver()
			s.end(0)
			return nil, err
		}
		s.tells = tells{outside: ends[0], inside: ends[1]}
	}
	return s, nil
}

func (s *streams) open(fd int) (err error) {
	switch {
	case s.tty[fd]: // the child puts its pty there
		s.target[fd], err = unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	case fd == 0:
		s.target[0], err = s.pump.Stdin(s.opts.Stdin)
	default:
		s.source[fd], s.target[fd], err = output.Pipe()
	}
	return err
}

// handedOver lets go of the ends that the child has now.
func (s *streams) handedOver() {
	for i, fd := range s.target {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
		s.target[i] = -1
	}
	if s.tells.inside >= 0 {
		_ = unix.Close(s.tells.inside)
		s.tells.inside = -1
	}
}

// onPTY says whether some stream is a pty, which comes with the target.
func (s *streams) onPTY() bool { return s.tty != [3]bool{} }

// pumpAfter is how long the pump of a process in a sandbox waits for its end: one that has a thread of its own takes more than
// a short process.
const pumpAfter = 2 * time.Millisecond

// begin starts to move bytes. pty is the master that the child made, or -1.
func (s *streams) begin(pty int) error {
	for fd := 1; fd <= 2; fd++ {
		if s.source[fd] < 0 {
			continue
		}
		if err := s.relay(fd, s.source[fd], nil); err != nil {
			return err
		}
		s.source[fd] = -1
	}
	if pty >= 0 {
		if err := s.beginPTY(pty); err != nil {
			return err
		}
	}
	s.begun = true
	if s.later && pty < 0 {
		s.pump.StartSoon(pumpAfter)
	} else {
		s.pump.Start()
	}
	return nil
}

func (s *streams) relay(fd, source int, keys output.Keys) (err error) {
	c := output.Config{Src: source, Keys: keys, Limit: s.limit, Capture: s.opts.Capture, Last: s.opts.Last != nil && (fd == 2 || s.tty[2])}
	if fd == 2 {
		c.Read = func() { s.watch.Load().Look(false) }
	}
	switch {
	case s.opts.Capture:
		c.Dst = -1
	case fd == 1:
		c.Dst, c.Open, c.Guard = s.opts.Stdout, s.opts.OpenStdout, s.opts.OutGuard
	default:
		c.Dst, c.Open, c.Guard = s.opts.Stderr, s.opts.OpenStderr, s.opts.ErrGuard
	}
	s.out[fd], err = s.pump.Output(c)
	return err
}

// beginPTY relays the pty. What the target writes to it counts as its standard
// output, or as standard error where only that is a terminal.
func (s *streams) beginPTY(pty int) error {
	from, keys := s.keyboard()
	if from >= 0 {
		if err := s.pump.Keyboard(from, pty, keys); err != nil {
			return err
		}
	}
	if s.opts.Terminal != nil {
		if err := s.opts.Terminal.Attach(pty); err != nil {
			return err
		}
	} else {
		master, err := unix.FcntlInt(uintptr(pty), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.master = master
		if s.size != nil {
			err = unix.IoctlSetWinsize(master, unix.TIOCSWINSZ, s.size)
		}
		s.mu.Unlock()
		if err != nil {
			return err
		}
		if s.opts.Resizer != nil {
			s.opts.Resizer(s.resize)
		}
	}
	fd := 1
	if !s.tty[1] && s.tty[2] {
		fd = 2
	}
	return s.relay(fd, pty, keys)
}

// keyboard is the descriptor that is passed on to the pty, -1 for none, and whoever holds the
// terminal for it. Where standard input is something else, it is the terminal that the
// target's output goes to.
func (s *streams) keyboard() (fd int, keys output.Keys) {
	o := s.opts
	if o.Terminal != nil {
		keys = o.Terminal
	}
	switch {
	case s.tty[0] && terminal.Relayed(o.Stdin, o.Stdout):
		return o.Stdin, keys
	case s.tty[0]:
		return o.Stdin, nil
	case s.tty[1] && keys != nil && !o.Capture && terminal.Followed(o.Stdin, o.Stdout):
		return o.Stdout, keys
	}
	return -1, nil
}

// resize gives the pty another size.
func (s *streams) resize(rows, cols uint16) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := &unix.Winsize{Row: rows, Col: cols}
	switch {
	case s.master >= 0:
		return unix.IoctlSetWinsize(s.master, unix.TIOCSWINSZ, size)
	case s.ended || s.tty == [3]bool{} || s.opts.Terminal != nil:
		return unix.ENOTTY
	}
	s.size = size // until the pty is here
	return nil
}

// endNow is end where nobody has to be waited for; else it is false.
func (s *streams) endNow() bool {
	if !s.begun || !s.pump.EndNow() {
		return false
	}
	s.closeRest()
	s.wrapUp()
	return true
}

// closeRest closes what the pump has no part in.
func (s *streams) closeRest() {
	s.handedOver()
	if text := s.tells.heard(); s.opts.Told != nil {
		s.opts.Told(text)
	}
	s.mu.Lock()
	s.ended = true
	if s.master >= 0 {
		_ = unix.Close(s.master)
		s.master = -1
	}
	s.mu.Unlock()
	for i, fd := range s.source {
		if fd >= 0 {
			_ = unix.Close(fd)
			s.source[i] = -1
		}
	}
}

// end waits until the caller has what the target wrote.
func (s *streams) end(patience time.Duration) {
	s.closeRest()
	if !s.begun {
		patience = 0 // nothing was moved; only to close what is open
	}
	if s.err = s.pump.End(patience); s.err == nil { // else the streams may still be in use
		s.wrapUp()
	}
}

// wrapUp tells what there is to tell when all was moved.
func (s *streams) wrapUp() {
	s.emptyLeft()
	s.undelivered()
	for fd, out := range s.out {
		if s.opts.Last != nil && out != nil && (fd == 2 || s.tty[2]) {
			s.opts.Last(out.Last())
		}
	}
}

// leave is called before end when others go on that may write to the streams. Nobody reads that any more, and it holds
// them up no more than the null device.
func (s *streams) leave() { s.pump.Leave() }

// emptyLeft empties what others may still write to, until the last of them has ended.
func (s *streams) emptyLeft() {
	for _, fd := range s.pump.Left() {
		go empty(fd)
	}
}

// empty reads what comes, and drops it. It looks now and then, and isn't woken by each write: whoever floods waits,
// and costs next to nothing here.
func empty(fd int) {
	const often, seldom = 10 * time.Millisecond, time.Second
	some := make([]byte, 64<<10)
	for wait := often; ; time.Sleep(wait) {
		n, err := unix.Read(fd, some)
		switch {
		case n > 0:
			wait = often
		case err == unix.EAGAIN || err == unix.EINTR:
			wait = min(2*wait, seldom)
		default:
			_ = unix.Close(fd)
			return
		}
	}
}

// hurry shortens the patience of an end that is under way.
func (s *streams) hurry(patience time.Duration) {
	if s.begun {
		_ = s.pump.End(patience)
	}
}

// readerLeft says whether the other side of an output closed it before all was written.
func (s *streams) readerLeft() bool {
	if s.err != nil {
		return false // it is not known yet
	}
	for _, out := range s.out {
		if out != nil && output.Gone(out.Err()) {
			return true
		}
	}
	return false
}

// undelivered tells the caller what its own side refused.
func (s *streams) undelivered() {
	if s.opts.Undelivered == nil {
		return
	}
	for fd, name := range []string{1: "stdout", 2: "stderr"} {
		out := s.out[fd]
		if out == nil {
			continue
		}
		if err := out.Unread(); err != nil {
			s.opts.Undelivered(name, fmt.Errorf("read: %w", err))
		}
		// Where nothing was written, nothing was refused.
		if err := out.Err(); err != nil && !output.Gone(err) && out.Bytes() > 0 {
			s.opts.Undelivered(name, fmt.Errorf("write: %w", err))
		}
	}
}

// written is how much the target has written until now.
func (s *streams) written() (stdout, stderr int64) {
	var n [3]int64
	for fd, out := range s.out {
		if out != nil {
			n[fd] = out.Bytes()
		}
	}
	return n[1], n[2]
}

// report tells what passed.
func (s *streams) report(rep *status.Report) {
	if s == nil {
		return
	}
	for fd, to := range []struct {
		bytes     *int64
		truncated *bool
		text      *string
		encoding  *string
	}{
		1: {&rep.Bytes.Stdout, &rep.Truncated.Stdout, &rep.Stdout, &rep.Encoding.Stdout},
		2: {&rep.Bytes.Stderr, &rep.Truncated.Stderr, &rep.Stderr, &rep.Encoding.Stderr},
	} {
		out := s.out[fd]
		if fd == 0 || out == nil {
			continue
		}
		*to.bytes, *to.truncated = out.Bytes(), out.Truncated()
		if s.err != nil {
			continue // the pump may still be at it
		}
		if text := out.Captured(); utf8.Valid(text) {
			*to.text = string(text)
		} else {
			*to.text, *to.encoding = base64.StdEncoding.EncodeToString(text), "base64"
		}
	}
}
