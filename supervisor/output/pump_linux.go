package output

import (
	"errors"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

// ErrUndelivered: the run is over, and a destination didn't take all of it in time.
var ErrUndelivered = errors.New("a destination did not take all output in time")

// Pump serves all streams of one run.
type Pump struct {
	outs []*Stream
	ins  []relay
	null int // /dev/null for what is dropped; -1: none

	mu      sync.Mutex
	wake    int // eventfd; -1: closed
	started bool
	later   *time.Timer // that starts it; nil is none

	began time.Time
	until atomic.Int64 // nanoseconds after began; noEnd: the run goes on
	idle  chan struct{}
	lost  bool

	leaving atomic.Bool
	left    []int
}

// relay brings the target something of the caller's.
type relay interface {
	// enter adds to the poll set what is waited for; again: look again after a while.
	enter(set []unix.PollFd) (_ []unix.PollFd, again bool)
	// leave acts on what poll found.
	leave(set []unix.PollFd)
	// end stops, and gives back what the target didn't take.
	end()
	ended() bool
}

const (
	noEnd   = math.MaxInt64
	forever = math.MaxInt64 - 1
	// stuck is how long End waits for a system call that ignores its deadline.
	stuck = 200 * time.Millisecond
	// ptyDelay is how long what was written to a pty may be on its way through the kernel.
	ptyDelay = 50 * time.Millisecond
)

// Pipe makes a pipe for one stream of a run.
func Pipe() (r, w int, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return -1, -1, err
	}
	return fds[0], fds[1], nil
}

// New makes a Pump with nothing to do.
func New() (*Pump, error) {
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, err
	}
	p := &Pump{wake: wake, null: -1, began: time.Now(), idle: make(chan struct{})}
	p.until.Store(noEnd)
	return p, nil
}

// Output adds an output stream, before Start.
func (p *Pump) Output(c Config) (*Stream, error) {
	s, err := newStream(c)
	if err == nil {
		p.outs = append(p.outs, s)
	}
	return s, err
}

// Start begins to move bytes.
func (p *Pump) Start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.started {
		p.started = true
		go p.thread()
	}
}

// StartSoon is Start for a target that may end before a thread has begun: if End is called by then, there is none. What
// the target writes first may be late by so much.
func (p *Pump) StartSoon(d time.Duration) {
	if len(p.ins) > 0 {
		p.Start()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.started && p.later == nil {
		p.later = time.AfterFunc(d, p.Start)
	}
}

// take says whether nobody has started it yet, who is then the only one.
func (p *Pump) take() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.later == nil || p.started {
		return false
	}
	p.later.Stop()
	p.started = true
	return true
}

// End is called when the target and everything it started are gone: it gives
// standard input back, and returns when the destinations have all that was
// written, but not later than after patience (negative: as long as it takes, as
// without us). It may be called again, at the same time, with less patience.
// With ErrUndelivered something was left. It also closes a Pump
// that was never started, where set-up failed: then with patience 0.
func (p *Pump) End(patience time.Duration) error {
	p.Start()
	until := int64(forever)
	if patience >= 0 {
		until = int64(time.Since(p.began) + patience)
	}
	for old := p.until.Load(); until < old; old = p.until.Load() {
		if p.until.CompareAndSwap(old, until) {
			break
		}
	}
	p.poke()
	if patience < 0 {
		<-p.idle
	} else {
		t := time.NewTimer(patience + stuck)
		defer t.Stop()
		select {
		case <-p.idle:
		case <-t.C:
			return ErrUndelivered // in a system call that nothing interrupts; it goes with the process
		}
	}
	if p.lost {
		return ErrUndelivered
	}
	return nil
}

// Leave is called before End when others that the target started may go on, and write: what is there by then is
// delivered, and not what they write later.
func (p *Pump) Leave() { p.leaving.Store(true) }

// Left are the sources that others may still write to, for whoever empties and closes them. It is valid once, when End
// has returned without an error.
func (p *Pump) Left() []int {
	left := p.left
	p.left = nil
	return left
}

// leaveAll lets go of streams that have given what they had when the target ended. It is true when one needs some time yet.
func (p *Pump) leaveAll(ended time.Time) bool {
	for _, s := range p.outs {
		if s.src < 0 || s.pty && time.Since(ended) < ptyDelay {
			continue
		}
		if s.meter.due < 0 {
			n, err := unix.IoctlGetInt(s.src, unix.TIOCINQ)
			if err != nil {
				n = 0
			}
			s.meter.due = s.meter.total + int64(n)
		}
		if s.dropping() { // what is there counts, although nobody reads it
			s.meter.total = max(s.meter.total, s.meter.due)
			s.total.Store(s.meter.total)
		}
		if s.dropping() || s.meter.total >= s.meter.due && len(s.pend) == 0 && !s.full {
			p.left = append(p.left, s.src)
			s.src = -1
		}
	}
	return slices.ContainsFunc(p.outs, func(s *Stream) bool { return s.src >= 0 && s.pty })
}

func (p *Pump) poke() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wake >= 0 {
		one := [8]byte{1} // the order of bytes doesn't matter: any number wakes
		unix.Write(p.wake, one[:])
	}
}

// thread is that of the pump. It is never unlocked and so ends with
// it, together with its signal mask and what is pending on it.
func (p *Pump) thread() {
	runtime.LockOSThread()
	blockSignals()
	p.run()
}

// EndNow is End where nobody has to be waited for: all that the target wrote is there, and its destinations take it. Else it
// is false, and End is still to be called. It is for a pump that is to start soon, and needs no thread of its own then: the
// caller's is left as it was.
func (p *Pump) EndNow() bool {
	if !p.take() {
		return false
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	old := blockSignals()
	var set []unix.PollFd
	for range turn {
		set = append(set[:0], unix.PollFd{Fd: int32(p.wake), Events: unix.POLLIN})
		if set, _ = p.enter(set); p.finished() {
			break
		}
		if n, err := unix.Poll(set, 0); n == 0 || err != nil {
			break
		}
		p.leave(set)
	}
	takePending()
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
	if !p.finished() {
		go p.thread()
		return false
	}
	p.close()
	close(p.idle)
	return true
}

// run moves bytes until there is nothing more to be moved.
func (p *Pump) run() {
	defer close(p.idle)
	defer p.close()
	if len(p.outs) > 0 {
		if fd, err := unix.Open("/dev/null", unix.O_WRONLY|unix.O_CLOEXEC, 0); err == nil {
			p.null = fd
			defer unix.Close(fd)
		}
	}
	var set []unix.PollFd
	var ended time.Time
	for {
		until := p.until.Load()
		if until != noEnd {
			for _, in := range p.ins {
				in.end() // before anything else: the caller's next program reads there
			}
		}
		again := false
		if until != noEnd && p.leaving.Load() {
			if ended.IsZero() {
				ended = time.Now()
			}
			again = p.leaveAll(ended)
		}
		set = append(set[:0], unix.PollFd{Fd: int32(p.wake), Events: unix.POLLIN})
		var wait time.Duration
		if set, wait = p.enter(set); p.finished() {
			return
		}
		if until < forever {
			left := time.Duration(until) - time.Since(p.began)
			if left <= 0 {
				p.lost = true
				return
			}
			wait = left
		}
		if again && (wait == 0 || wait > ptyDelay) {
			wait = ptyDelay
		}
		if _, err := unix.Poll(set, milliseconds(wait)); err != nil {
			continue // EINTR; ENOMEM passes
		}
		p.leave(set)
	}
}

// enter makes the poll set, and says how long it may be waited for at most; 0: for ever.
func (p *Pump) enter(set []unix.PollFd) ([]unix.PollFd, time.Duration) {
	for _, s := range p.outs {
		set = s.enter(set)
	}
	var wait time.Duration
	for _, in := range p.ins {
		var again bool
		if set, again = in.enter(set); again {
			wait = background
		}
	}
	return set, wait
}

func (p *Pump) leave(set []unix.PollFd) {
	if set[0].Revents != 0 {
		var b [8]byte
		unix.Read(p.wake, b[:])
	}
	for _, in := range p.ins {
		in.leave(set)
	}
	for _, s := range p.outs {
		s.leave(p, set)
	}
}

// finished: nothing can happen any more.
func (p *Pump) finished() bool {
	for _, s := range p.outs {
		if !s.done() {
			return false
		}
	}
	for _, in := range p.ins {
		if !in.ended() {
			return false
		}
	}
	return true
}

func (p *Pump) close() {
	for _, in := range p.ins {
		in.end()
	}
	for _, s := range p.outs {
		s.closeSrc()
		s.dst.close()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	unix.Close(p.wake)
	p.wake = -1
}

func milliseconds(d time.Duration) int {
	if d == 0 {
		return -1
	}
	return int(min(d/time.Millisecond+1, math.MaxInt32))
}

// blockSignals keeps the kernel from ending or stopping the process for what a
// write or read of this thread meets: it gets the errno instead. It gives the mask of before.
func blockSignals() (old unix.Sigset_t) {
	set := linux.Sigset(unix.SIGPIPE, unix.SIGXFSZ, unix.SIGTTIN)
	_ = unix.PthreadSigmask(unix.SIG_BLOCK, &set, &old)
	return old
}

// takePending takes what such writes have raised, before it could be delivered.
func takePending() {
	set := linux.Sigset(unix.SIGPIPE, unix.SIGXFSZ)
	now := unix.Timespec{}
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGTIMEDWAIT, uintptr(unsafe.Pointer(&set)), 0, uintptr(unsafe.Pointer(&now)), 8, 0, 0)
		if errno != unix.EINTR && int(n) <= 0 || errno != 0 && errno != unix.EINTR {
			return
		}
	}
}
