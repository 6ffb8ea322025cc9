package supervisor

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/linux"
)

// event is a frame of the child's, with the descriptors that came with it; or why no further
// one can be understood.
type event struct {
	frame handoff.Frame
	fds   []int
	err   error
}

// take gives the next descriptor, if there has to be one and is; else -1.
func (e *event) take(there bool) int {
	if !there || len(e.fds) == 0 {
		return -1
	}
	fd := e.fds[0]
	e.fds = e.fds[1:]
	return fd
}

// takeSome gives so many more, as far as there are any.
func (e *event) takeSome(n uint8) []int {
	k := min(int(n), len(e.fds))
	fds := e.fds[:k:k]
	e.fds = e.fds[k:]
	return fds
}

// close lets go of descriptors that nobody took.
func (e *event) close() {
	linux.CloseAll(e.fds)
	e.fds = nil
}

// built is what a child tells when everything stands.
type built struct {
	*handoff.Built
	proc, scratch int   // their roots, or -1
	sized         []int // roots of tmpfs of their own size
	own, base     []int // stacks: with its scratch, and of what is below
	ipc           []int // handoff.IPCTables
}

func (e *event) built(m *handoff.Built) *built {
	b := &built{Built: m, proc: e.take(m.HasProc), scratch: e.take(m.HasScratch), sized: e.takeSome(m.Sized)}
	stacks := e.takeSome(m.Stacks)
	b.own, b.base = stacks[:min(2, len(stacks))], stacks[min(2, len(stacks)):]
	b.ipc = e.takeSome(min(m.IPC, uint8(len(handoff.IPCTables))))
	return b
}

// close lets go of what nobody has taken over.
func (b *built) close() {
	for _, fd := range slices.Concat([]int{b.proc, b.scratch}, b.sized, b.own, b.base, b.ipc) {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// started is what a child tells of a process that runs.
type started struct {
	*handoff.Started
	pidfd, pty, listener int // or -1
}

func (e *event) started(m *handoff.Started) *started {
	return &started{Started: m, pidfd: e.take(true), pty: e.take(m.HasPTY), listener: e.take(m.HasListener)}
}

// inbox is what the child has said and nobody has heard yet. It has no bound but what the child's processes are: the loop, which
// hears, also sends, and a child that had to wait until it is heard would not take that.
type inbox struct {
	more chan struct{} // there is something, or it is over

	mu     sync.Mutex
	events []event
	over   bool
}

func (i *inbox) put(e event) {
	i.mu.Lock()
	i.events = append(i.events, e)
	i.mu.Unlock()
	i.wake()
}

func (i *inbox) end() {
	i.mu.Lock()
	i.over = true
	i.mu.Unlock()
	i.wake()
}

func (i *inbox) wake() {
	select {
	case i.more <- struct{}{}:
	default:
	}
}

// take gives what there is, and whether nothing follows.
func (i *inbox) take() (events []event, over bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	events, i.events = i.events, nil
	return events, i.over
}

// listen reads what the child says until it is gone. When that can't be
// understood the last event says why.
func listen(sock int) *inbox {
	events := &inbox{more: make(chan struct{}, 1)}
	go func() {
		defer events.end()
		for {
			frame, fds, err := linux.ReceiveFrame(sock)
			if err == unix.ECONNRESET {
				return
			}
			e := event{fds: fds, err: err}
			if err == nil {
				e.frame, e.err = handoff.Decode(frame)
			}
			if e.err != nil {
				e.close()
			}
			events.put(e)
			if e.err != nil {
				return
			}
			runtime.Gosched() // whoever hears it goes on here, and needn't be fetched by another thread
		}
	}()
	return events
}

// pings are the questions that an init has not answered yet. Only the loop touches them.
type pings struct {
	asked map[uint32]chan<- struct{}
	last  uint32
}

// Ready waits until the init has shown that it waits for work: everything stands then, and its privileges are gone.
func (s *Sandbox) Ready(ctx context.Context) error {
	answered, failed := make(chan struct{}), make(chan error, 1)
	var id uint32
	if !s.box.do(func() {
		p := &s.box.pings
		if p.asked == nil {
			p.asked = map[uint32]chan<- struct{}{}
		}
		p.last++
		id = p.last
		p.asked[id] = answered
		failed <- s.box.child.ping(id)
	}) {
		return errEnded
	}
	if err := <-failed; err != nil {
		return err
	}
	select {
	case <-answered:
		return nil
	case <-s.box.over:
		return errEnded
	case <-ctx.Done():
		s.box.do(func() { delete(s.box.asked, id) })
		return ctx.Err()
	}
}

var errEnded = errors.New("the sandbox has ended")

// pinged: the init has answered.
func (p *pings) pinged(m *handoff.Ping) {
	if answered := p.asked[m.ID]; answered != nil {
		delete(p.asked, m.ID)
		close(answered)
	}
}
