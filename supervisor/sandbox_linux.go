package supervisor

import (
	"context"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/linux"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/cgroup"
	"github.com/confine-run/confine/supervisor/denials"
	"github.com/confine-run/confine/supervisor/files"
	"github.com/confine-run/confine/supervisor/internal/egress"
	"github.com/confine-run/confine/supervisor/internal/watch"
	"github.com/confine-run/confine/supervisor/outcome"
)

// Sandbox is a box that stands, for processes one after another or at once. What one of them leaves behind, files
// and other processes, is there for the next. Its methods may be called from any goroutine.
type Sandbox struct {
	box     *box
	built   time.Time
	ended   chan struct{} // closed when nothing of it is left
	next    uint32        // the ID of the next job; the loop's, as closing
	left    *SetupError
	closing bool       // or closed
	told    sync.Mutex // of what the box and its processes tell at their ends
}

// Build carries out the part of a plan that is about the box. Cancelling ctx ends the sandbox with everybody in it, at
// any time. stack is a mount of what it stands on, as the plan says, or -1; it is used up. Where there is no sandbox, there is a report that says why.
func (p *Prepared) Build(ctx context.Context, pl *plan.Plan, stack int, group *cgroup.Group) (*Sandbox, *status.Report) {
	c := &crowd{jobs: map[int]*job{}, limits: map[status.Capability]bool{}}
	p.opts.Attempt, p.opts.LimitHit = c.attempted, c.limit
	b, failed := p.boxOf(pl, group)
	b.crowd = c
	b.stacks.below = stack
	if failed == nil {
		failed = b.begin(nil)
	}
	if failed != nil {
		_ = b.abandon() // the first failure counts
		return nil, b.unbuilt(ctx, failed)
	}
	s := &Sandbox{box: b, ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		b.loop(ctx)
		s.told.Lock()
		defer s.told.Unlock()
		s.left = b.close()
		b.tidy()
		b.gone()
	}()
	select {
	case <-b.open:
		s.built = time.Now()
		return s, nil
	case <-s.ended:
		failed := b.failed
		if failed == nil {
			failed = &SetupError{Step: "init", Op: "it ended without a word"}
		}
		return nil, b.unbuilt(ctx, failed)
	}
}

// unbuilt is the report of a box that there isn't.
func (b *box) unbuilt(ctx context.Context, why *SetupError) *status.Report {
	j := newJob(b, &handoff.Exec{}, b.opts, nil)
	if ctx.Err() != nil {
		j.because(status.CauseContext, "cancelled by the caller")
	} else {
		j.out.Setup = why
	}
	return j.report()
}

// Process is one in a sandbox.
type Process struct {
	job *job
	in  *Sandbox
}

// Start starts a process. Of a plan e is the part that is about it; its ID and Last are not looked at. judge and refuses
// are as for [Prepared.Run].
func (s *Sandbox) Start(e *handoff.Exec, o Options, judge denials.Judge, refuses files.Judge) (*Process, *SetupError) {
	exec := *e
	exec.Last, exec.Modes = false, o.Terminal.Modes()
	io, err := openStreams(exec.TTY, &o)
	if err != nil {
		return nil, &SetupError{Step: "streams", Op: "pipe", Errno: errnoOf(err)}
	}
	io.later = true
	j := newJob(s.box, &exec, &o, io)
	j.mine = &mine{limits: map[status.Capability]bool{}}
	j.refused.judge, j.refused.refuses = judge, refuses
	failed := make(chan *SetupError, 1)
	begun := s.box.do(func() {
		if s.closing || s.box.cause != "" {
			failed <- s.gone()
			return
		}
		s.next++
		exec.ID = s.next
		s.box.jobs[exec.ID] = j
		j.ledger = maps.Clone(s.box.ledger)
		j.refused.ledger = j.ledger
		j.built()
		if err := j.send(); err != nil {
			delete(s.box.jobs, exec.ID)
			failed <- &SetupError{Step: "start", Op: "sendmsg", Errno: errnoOf(err)}
			return
		}
		failed <- nil
	})
	why := s.gone()
	if begun {
		why = <-failed
	}
	if why != nil {
		io.end(0)
		return nil, why
	}
	j.heedSignals()
	p := &Process{j, s}
	if limit := o.Limits.CPU; limit > 0 {
		go p.hold(limit)
	}
	return p, nil
}

// hold ends a process whose CPU time has reached its own limit, with that of those below it. Samples say so: what loses its parent has left
// them, and is held by what the sandbox as a whole may use. Where none can be taken RLIMIT_CPU stands behind, for each process.
func (p *Process) hold(limit time.Duration) {
	for left := limit; left > 0; {
		wait := min(max(left/time.Duration(runtime.NumCPU()), 100*time.Millisecond), time.Second)
		select {
		case <-p.job.gone:
			return
		case <-time.After(wait):
		}
		if now, err := p.Usage(); err == nil {
			left = limit - now.CPU
		}
	}
	p.tell(func() {
		p.job.stop(status.CauseCPUTree, fmt.Sprintf("CPU time limit of %s for one process reached", limit))
	})
}

func (s *Sandbox) gone() *SetupError {
	return &SetupError{Step: "start", Op: "the sandbox has ended", Errno: unix.ESRCH}
}

// Signal sends a signal to a process and its process group. It is false when that has ended.
func (p *Process) Signal(n unix.Signal) bool {
	return p.tell(func() {
		if n == unix.SIGKILL {
			p.job.kill(status.CauseCaller, "killed by the caller")
		} else {
			p.job.signal(n)
		}
	})
}

// Resize changes the size of a process's pty.
func (p *Process) Resize(rows, cols uint16) error { return p.job.io.resize(rows, cols) }

// tell has the loop do what is about a process, unless that has ended.
func (p *Process) tell(f func()) bool {
	there := make(chan bool, 1)
	if !p.job.do(func() {
		_, is := p.job.jobs[p.job.exec.ID]
		if is {
			f()
		}
		there <- is
	}) {
		return false
	}
	return <-there
}

// Wait waits for the end of a process, until the caller's side has what it wrote, and gives its report. It is to be
// called once. Cancelling ctx shortens the patience with whoever reads.
func (p *Process) Wait(ctx context.Context) *status.Report {
	j := p.job
	<-j.gone
	p.in.told.Lock()
	j.settle()
	p.in.told.Unlock()
	j.io.leave()
	j.deliver(ctx)
	j.out.Left = j.io.readerLeft()
	p.in.told.Lock()
	defer p.in.told.Unlock()
	return j.report()
}

// Root opens the root directory as the processes inside see it.
func (s *Sandbox) Root() (fd int, err error) {
	done := make(chan struct{})
	if !s.box.do(func() {
		defer close(done)
		fd, err = unix.Open("/proc/"+strconv.Itoa(s.box.child.pid)+"/root", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	}) {
		return -1, s.gone()
	}
	<-done
	return fd, err
}

// Done is closed when it has ended, and nothing of it is left.
func (s *Sandbox) Done() <-chan struct{} { return s.ended }

// Close ends the sandbox and everybody in it, waits until nothing of it is left, and says what all of it came to. It may
// be called again.
func (s *Sandbox) Close() *status.BoxReport { return s.close("the sandbox was closed") }

// Replace is Close of a sandbox in whose place another goes on: what it has changed isn't looked at.
func (s *Sandbox) Replace(why string) *status.BoxReport {
	s.box.do(func() { s.box.stacks.replaced = true })
	return s.close(why)
}

func (s *Sandbox) close(why string) *status.BoxReport {
	b := s.box
	for _, p := range s.running() {
		_, _ = p.Usage() // what is killed tells nobody what it has used
	}
	b.do(func() {
		s.closing = true
		for _, j := range b.jobs {
			j.because(status.CauseCaller, why)
		}
		b.child.close()
	})
	<-s.ended
	s.told.Lock()
	defer s.told.Unlock()
	j := newJob(b, &handoff.Exec{}, b.opts, nil)
	j.targetStarted, j.out.Waited = true, true // of the ledger and of what was used
	if b.closed != nil {
		j.use(&b.closed.Used)
	}
	r := j.report()
	report := &status.BoxReport{
		Backend: r.Backend, DurationMS: time.Since(s.built).Milliseconds(), Usage: r.Usage, LimitsHit: r.LimitsHit, FullMounts: r.FullMounts,
		Violations: r.Violations, Enforced: r.Enforced, Changes: r.Changes, Network: r.Network,
	}
	if b.cause != "" {
		report.Cause, report.Reason = b.cause, b.detail
		if outcome.StatusOf(b.cause) == status.MemLimit {
			report.Reason = outcome.OutOfMemory(j.out.Limit.Memory, b.detail)
		}
		if c := outcome.CapabilityOf(b.cause); c != "" && !slices.Contains(report.LimitsHit, string(c)) {
			report.LimitsHit = append(report.LimitsHit, string(c))
		}
	}
	failed := b.failed
	if failed == nil {
		failed = s.left
	}
	if failed != nil {
		report.SetupError = failed.Report()
	}
	return report
}

// NoLayers is why nothing can stand on what is written in the sandbox: the call that failed. Empty: something can.
func (s *Sandbox) NoLayers() string {
	switch {
	case !s.box.plan.Box.Scratch.HandOut:
		return "mount namespace"
	case s.box.plan.Box.Root.ReadOnly, s.box.fellBack.RootReadOnly, s.box.fellBack.OverlayReadOnly:
		return "overlay"
	}
	return s.box.stacks.noLayers
}

// TakeBase gives away the mounts of what the sandbox stands on.
func (s *Sandbox) TakeBase() []int {
	x := &s.box.stacks
	x.mu.Lock()
	defer x.mu.Unlock()
	defer func() { x.base = nil }()
	return x.base
}

// TakeLayer gives away the mounts of what was written in the sandbox, which has to be replaced then. There are none when
// it has ended.
func (s *Sandbox) TakeLayer() *Layer {
	x := &s.box.stacks
	x.mu.Lock()
	defer x.mu.Unlock()
	defer func() { x.own = nil }()
	return &Layer{Places: x.places, Files: x.files, Own: x.own}
}

// GiveBack gives back what TakeLayer gave.
func (s *Sandbox) GiveBack(l *Layer) {
	x := &s.box.stacks
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		linux.CloseAll(l.Own)
		return
	}
	x.own = l.Own
}

// Written opens what was written in each place. Nobody may write there as long as that is read.
func (s *Sandbox) Written() (dirs map[string]int, err error) {
	x := &s.box.stacks
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.own) == 0 {
		return nil, unix.ESRCH
	}
	return OpenPlaces(x.own[0], x.places)
}

// Alone says whether nobody is inside but the init.
func (s *Sandbox) Alone() (alone bool, err error) {
	asked := make(chan struct{})
	if !s.box.do(func() {
		defer close(asked)
		if len(s.box.jobs) > 0 { // it may not have been forked yet
			return
		}
		alone, err = s.box.watch.Alone()
	}) {
		return false, unix.ESRCH
	}
	<-asked
	return alone, err
}

// CPU is what everybody inside has used until now, as far as that is seen.
func (s *Sandbox) CPU() (used time.Duration) {
	asked := make(chan struct{})
	if s.box.do(func() {
		defer close(asked)
		used = time.Duration(s.box.watch.Load().CPUMS) * time.Millisecond
	}) {
		<-asked
	}
	return used
}

// Pause stops everybody inside until resume is called. Who can't be stopped is an error. Nobody may be started meanwhile.
func (s *Sandbox) Pause(ctx context.Context) (resume func(), err error) {
	var stop func() (func(), error)
	for {
		asked, begun := make(chan struct{}), true
		if !s.box.do(func() {
			defer close(asked)
			for _, j := range s.box.jobs { // one that was asked for, and isn't there yet, would begin to run later
				begun = begun && (j.targetStarted || j.out.Waited || j.out.Setup != nil || j.out.Exec != nil)
			}
			if begun {
				stop, err = s.box.watch.Pause()
			}
		}) {
			return nil, unix.ESRCH
		}
		if <-asked; err != nil {
			return nil, err
		}
		if begun {
			return stop()
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(time.Millisecond):
		}
	}
}

// Changes says what was written to overlays until now. Nobody may write there meanwhile.
func (s *Sandbox) Changes(keep string) (*status.Changes, error) {
	x := &s.box.stacks
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.own) == 0 {
		return nil, unix.ESRCH
	}
	return s.box.changed(x.own[0], keep), nil
}

// Usage is what everybody inside uses. Nothing is looked at before somebody asks.
func (s *Sandbox) Usage() (Now, error) { return s.box.watch.Asks().UsedNow() }

// Usage is what the process and those below it use.
func (p *Process) Usage() (now Now, err error) {
	j, pidfd, number := p.job, -1, 0
	there := p.tell(func() {
		if number = j.number; j.targetStarted {
			pidfd, err = unix.FcntlInt(uintptr(j.target), unix.F_DUPFD_CLOEXEC, 0)
		}
	})
	switch {
	case !there:
		return now, os.ErrProcessDone
	case err != nil:
		return now, err
	case pidfd < 0:
		return Now{Scratch: -1}, nil // it is being started
	}
	defer unix.Close(pidfd)
	if now, err = j.watch.Asks().UsedBy(number, pidfd); err != nil {
		return now, err
	}
	j.crowd.mu.Lock()
	defer j.crowd.mu.Unlock()
	now.CPU = max(now.CPU, j.mine.peak.CPU) // what loses its parent takes its time with it
	j.mine.peak = Now{CPU: now.CPU, Memory: max(now.Memory, j.mine.peak.Memory), Tasks: max(now.Tasks, j.mine.peak.Tasks)}
	return now, nil
}

// running are the processes that have started and not ended.
func (s *Sandbox) running() (all []*Process) {
	s.box.crowd.mu.Lock()
	defer s.box.crowd.mu.Unlock()
	for _, j := range s.box.crowd.jobs {
		all = append(all, &Process{j, s})
	}
	return all
}

// Network has other rules and limits of the network hold from now on, for a sandbox that has a gateway. What they don't allow has ended when it
// returns. requested is what the ledger says of them. A PortError says that it can't be had; then nothing has changed.
func (s *Sandbox) Network(n *plan.Network, requested string) (err error) {
	done := make(chan struct{})
	if !s.box.do(func() {
		defer close(done)
		if s.closing || s.box.cause != "" {
			err = s.gone()
			return
		}
		err = s.box.network.swap(s.box, n, requested)
	}) {
		return s.gone()
	}
	<-done
	return err
}

// Traffic is what was reached and refused until now; nil: there is no gateway that would see it.
func (s *Sandbox) Traffic() *status.Traffic { return s.box.network.now() }

// Tell has somebody told what happens to the sandbox, and to no process of which that is known: what was denied, when it is of a new
// kind, and limits that are reached, each once. Neither may wait.
func (s *Sandbox) Tell(denied func(status.Violation), limit func(status.Capability)) {
	c := s.box.crowd
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tellDenied, c.tellLimit = denied, limit
}

// crowd are the processes that run in a sandbox, of which each is told what is its own of what the sandbox hears.
type crowd struct {
	mu         sync.Mutex
	watch      *watch.Watch
	jobs       map[int]*job // by their numbers inside
	limits     map[status.Capability]bool
	tellDenied func(status.Violation)
	tellLimit  func(status.Capability)
}

// mine is what of that is one process's. The crowd's lock guards it.
type mine struct {
	born   int64 // see tree.Clock
	denied []status.Violation
	limits map[status.Capability]bool // of the sandbox, that were reached while it ran
	peak   Now                        // the most that samples have seen, which are taken when somebody asks
}

func (m *mine) refused() (times int64) {
	for i := range m.denied {
		times += m.denied[i].Count
	}
	return times
}

func (c *crowd) enter(j *job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watch, c.jobs[j.number] = j.watch, j
}

func (c *crowd) leave(j *job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.jobs[j.number] == j {
		delete(c.jobs, j.number)
	}
}

// is says whether a number is that of a process that runs.
func (c *crowd) is(number int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.jobs[number] != nil
}

// attempted hears of each kind of attempt to reach something, once.
func (c *crowd) attempted(a status.Attempt) {
	if a.Verdict != status.AttemptBlocked {
		return
	}
	v := a.Violation()
	c.mu.Lock()
	w := c.watch
	c.mu.Unlock()
	whose := 0
	if a.PID != 0 {
		whose = w.Asks().Within(a.PID, c.is)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	j := c.jobs[whose]
	if j == nil {
		if c.tellDenied != nil {
			c.tellDenied(v)
		}
		return
	}
	j.mine.denied = append(j.mine.denied, v)
	if j.opts.Denied != nil {
		j.opts.Denied(v)
	}
	if egress.Exhausted(&a) {
		j.mine.limit(status.Network, j.opts)
	}
}

// limit hears of limits of the sandbox, whenever it is seen that one is reached.
func (c *crowd) limit(l status.Capability) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, j := range c.jobs {
		j.mine.limit(l, j.opts)
	}
	if !c.limits[l] {
		c.limits[l] = true
		if c.tellLimit != nil {
			c.tellLimit(l)
		}
	}
}

// limit tells a process of a limit of the sandbox, once. The crowd's lock is held.
func (m *mine) limit(l status.Capability, o *Options) {
	if m.limits[l] {
		return
	}
	m.limits[l] = true
	if o.LimitHit != nil {
		o.LimitHit(l)
	}
}
