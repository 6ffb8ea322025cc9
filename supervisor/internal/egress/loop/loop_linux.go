package loop

import (
	"net"
	"os"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Loop is one; see the package.
type Loop struct {
	epoll, event int
	conns        []watched // by descriptor
	ready        []*Task
	current      *Task
	steps        int // that it took since it waited
	credit       int // for looking twice

	mu       sync.Mutex
	posted   []func()
	asleep   bool // nobody but an event wakes it
	stopping bool
	done     chan struct{}
}

// watched is what an event is told to.
type watched interface{ happened(events uint32) }

// New starts a loop, which runs until it is closed.
func New() (*Loop, error) {
	l := &Loop{credit: mostCredit, done: make(chan struct{})}
	var err error
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if l.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		_ = unix.Close(l.epoll)
		return nil, os.NewSyscallError("eventfd", err)
	}
	if err := l.watch(l.event, unix.EPOLLIN); err != nil {
		_ = unix.Close(l.epoll)
		_ = unix.Close(l.event)
		return nil, err
	}
	l.tell(l.event, (*alarm)(l))
	go l.run()
	return l, nil
}

// alarm is the loop as what its own event is told to.
type alarm Loop

func (a *alarm) happened(uint32) {
	var b [8]byte
	_, _ = unix.Read(a.event, b[:])
}

// Post has the loop call f, between tasks. After Close nothing is called any more, and
// it says so.
func (l *Loop) Post(f func()) bool {
	l.mu.Lock()
	if l.stopping {
		l.mu.Unlock()
		return false
	}
	l.posted = append(l.posted, f)
	wake := l.asleep
	l.asleep = false
	l.mu.Unlock()
	if wake {
		l.ring()
	}
	return true
}

func (l *Loop) ring() {
	one := [8]byte{1}
	_, _ = unix.Write(l.event, one[:])
}

// Close ends the loop. All tasks have to have ended.
func (l *Loop) Close() {
	l.mu.Lock()
	l.stopping = true
	l.mu.Unlock()
	l.ring()
	<-l.done
	_ = unix.Close(l.event)
	_ = unix.Close(l.epoll)
}

func (l *Loop) run() {
	defer close(l.done)
	var events [128]unix.EpollEvent
	for {
		busy, stop := l.work()
		if stop {
			return
		}
		for _, e := range events[:l.wait(events[:], busy)] {
			if fd := int(e.Fd); fd < len(l.conns) && l.conns[fd] != nil {
				l.conns[fd].happened(e.Events)
			}
		}
	}
}

// work gives everybody who is ready a turn, and says whether somebody is again.
func (l *Loop) work() (busy, stop bool) {
	l.mu.Lock()
	posted := l.posted
	l.posted, l.asleep = nil, false
	stop = l.stopping
	l.mu.Unlock()
	for _, f := range posted {
		f()
	}
	turn := l.ready
	l.ready = nil
	for _, t := range turn {
		t.resume()
	}
	if l.ready == nil {
		l.ready = turn[:0]
	}
	return len(l.ready) > 0, stop && len(l.ready) == 0
}

const (
	// lookTwice is how long more is looked for before the loop sleeps: about twice what
	// falling asleep and being woken costs. Half a round trip through two programs takes
	// longer than once that, now and then.
	lookTwice = 100 * time.Microsecond
	// A look in vain costs credit, and each sleep gives 1 back: so it is tried again after
	// so many sleeps, and may be in vain eight times in a row.
	lookCost   = 16
	mostCredit = 8 * lookCost
)

// wait gives what has happened; it waits for something unless somebody is ready.
func (l *Loop) wait(events []unix.EpollEvent, busy bool) int {
	n := look(l.epoll, events)
	if n > 0 || busy {
		return n
	}
	if l.credit >= lookCost {
		for end := time.Now().Add(lookTwice); ; {
			if n = look(l.epoll, events); n > 0 {
				l.credit = min(l.credit+lookCost, mostCredit)
				return n
			}
			if l.hasPosted() || time.Now().After(end) {
				break
			}
			_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
		}
		l.credit -= lookCost
	} else {
		l.credit++
	}
	l.mu.Lock()
	l.asleep = len(l.posted) == 0
	asleep := l.asleep
	l.mu.Unlock()
	if !asleep {
		return 0
	}
	n, err := unix.EpollWait(l.epoll, events, -1)
	if err != nil {
		return 0 // EINTR
	}
	return n
}

// hasPosted says whether something is posted.
func (l *Loop) hasPosted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.posted) > 0
}

// look is epoll_wait that doesn't wait, and so needn't be told to the runtime.
func look(epoll int, events []unix.EpollEvent) int {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), 0, 0, 0)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// watch has the kernel tell events of a descriptor.
func (l *Loop) watch(fd int, events uint32) error {
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)}))
}

// watchNow is watch for who isn't a task, and doesn't know whether the loop has ended.
func (l *Loop) watchNow(fd int, events uint32) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopping {
		return net.ErrClosed
	}
	return l.watch(fd, events)
}

// tell says whom.
func (l *Loop) tell(fd int, to watched) {
	for len(l.conns) <= fd {
		l.conns = append(l.conns, nil)
	}
	l.conns[fd] = to
}

// forget closes a descriptor. What has happened to it already, or happens to the same
// socket in other hands, may still be told to whoever has its number next, who then
// looks and finds nothing.
func (l *Loop) forget(fd int) {
	if fd < len(l.conns) {
		l.conns[fd] = nil
	}
	_ = unix.Close(fd)
}
