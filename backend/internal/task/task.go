package task

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/outcome"
)

// stage is how far the stopping of a process has gone.
type stage int

const (
	running stage = iota
	asked         // it was asked to end
	killed
)

const (
	// LookEvery is how often limits are looked after.
	LookEvery = 20 * time.Millisecond
	// LookAtDiskEvery is how often places and trees are looked through, at least.
	LookAtDiskEvery = 250 * time.Millisecond
	// slow is how long the caller's side may take to read what a process wrote that was stopped.
	slow = 2 * time.Second
)

// Task is a process of a sandbox.
type Task struct {
	box  *Box
	exec *backend.Exec
	io   *streams

	mu      sync.Mutex
	out     outcome.Outcome
	target  Target // nil: it isn't started
	stage   stage
	clocks  []*time.Timer
	began   time.Time
	ended   time.Time
	reached map[status.Capability]bool
	telling sync.Mutex // one event at a time

	unhook func() bool
	gone   chan struct{} // closed when the target is, or will never be there
	report func() *status.Report
}

func newTask(b *Box, e *backend.Exec) *Task {
	p := b.spec.Policy
	t := &Task{box: b, exec: e, gone: make(chan struct{}), reached: map[status.Capability]bool{}}
	t.out.Limit = outcome.HeldTo{Memory: p.MemoryLimit, CPU: backend.Narrower(p.CPUTime, e.Limits.CPU)}
	t.report = sync.OnceValue(t.wait)
	return t
}

// begin starts it. That it can't be is in its report.
func (t *Task) begin(ctx context.Context) {
	e := t.exec
	s, err := connect(e, backend.Narrower(t.box.spec.Policy.OutputLimit, e.Limits.Output))
	t.io = s
	if err == nil {
		var target Target
		if target, err = t.box.sys.Start(&s.start); err == nil {
			s.begin()
			t.run(ctx, target)
			return
		}
	}
	t.mu.Lock()
	var exec *outcome.ExecError
	var setup *outcome.SetupError
	switch {
	case errors.As(err, &exec):
		t.out.Exec = exec
	case errors.As(err, &setup):
		t.out.Setup = setup
	default:
		t.out.Setup = &outcome.SetupError{Step: "start", Op: err.Error(), Whole: true}
	}
	t.mu.Unlock()
	t.end()
}

// run keeps the clocks of a process that was started.
func (t *Task) run(ctx context.Context, target Target) {
	t.mu.Lock()
	t.target, t.began, t.out.Built = target, time.Now(), true
	wall := backend.Narrower(t.box.spec.Policy.TimeLimit, t.exec.Limits.Time)
	if wall > 0 {
		t.after(wall, func() { t.stop(status.CauseWall, fmt.Sprintf("wall-clock limit of %s reached", wall)) })
	}
	doomed := t.out.Cause != "" // the sandbox ends
	t.mu.Unlock()
	if doomed {
		target.Kill()
	}
	if t.exec.Limits.CPU > 0 {
		go t.watchCPU(t.exec.Limits.CPU)
	}
	t.unhook = context.AfterFunc(ctx, func() { t.kill(status.CauseContext, "the context has ended") })
	go func() {
		ended := target.Wait()
		t.mu.Lock()
		t.out.Waited, t.out.Ended, t.ended = true, ended, time.Now()
		if usage, err := target.Usage(); err == nil {
			t.out.CPUUsed = usage.CPU
		}
		if seer, ok := t.box.sys.(Seer); ok {
			t.out.Refused = seer.Refused()
		}
		t.mu.Unlock()
		t.unhook()
		t.end()
	}()
}

// after is a timer that ends with the task. The caller holds mu.
func (t *Task) after(d time.Duration, f func()) {
	t.clocks = append(t.clocks, time.AfterFunc(d, f))
}

// end lets go of a target that is gone, or will never be there.
func (t *Task) end() {
	t.mu.Lock()
	for _, c := range t.clocks {
		c.Stop()
	}
	if t.ended.IsZero() {
		t.ended = time.Now()
	}
	t.mu.Unlock()
	b := t.box
	b.mu.Lock()
	delete(b.tasks, t)
	b.mu.Unlock()
	close(t.gone)
	go t.report()
}

func (t *Task) watchCPU(limit time.Duration) {
	for tick := time.NewTicker(LookEvery); ; {
		select {
		case <-t.gone:
			tick.Stop()
			return
		case <-tick.C:
		}
		if now, err := t.target.Usage(); err == nil && now.CPU >= limit {
			t.kill(status.CauseCPUTree, fmt.Sprintf("CPU time limit of %s reached", limit))
		}
	}
}

// because records a cause; the first one wins.
func (t *Task) because(cause status.Cause, detail string) {
	t.mu.Lock()
	first := t.out.Cause == "" && !t.out.Waited && t.out.Setup == nil && t.out.Exec == nil
	if first {
		t.out.Cause, t.out.Detail = cause, detail
	}
	t.mu.Unlock()
	if c := outcome.CapabilityOf(cause); first && c != "" {
		t.reach(c)
	}
}

// reach: a limit was reached.
func (t *Task) reach(c status.Capability) {
	t.mu.Lock()
	first := !t.reached[c]
	t.reached[c] = true
	t.mu.Unlock()
	if first {
		t.tell(backend.Event{Limit: c})
	}
}

// tell says what happens to it, one event at a time.
func (t *Task) tell(e backend.Event) {
	if t.exec.Tell != nil {
		t.telling.Lock()
		defer t.telling.Unlock()
		t.exec.Tell(e)
	}
}

// stop asks it to end, and gives it the grace period.
func (t *Task) stop(cause status.Cause, detail string) {
	t.because(cause, detail)
	t.ask(syscall.SIGTERM)
}

// ask has the target asked to end, once; it is killed when it has not after the grace period.
func (t *Task) ask(n syscall.Signal) {
	grace := t.box.spec.Policy.Grace
	t.mu.Lock()
	target, late := t.target, t.stage >= asked
	if target != nil && !late {
		t.stage = asked
		if grace > 0 {
			t.after(grace, t.killNow)
		}
	}
	t.mu.Unlock()
	if target == nil || late {
		return
	}
	if grace == 0 || target.Signal(n) != nil {
		t.killNow()
	}
}

// kill ends it at once.
func (t *Task) kill(cause status.Cause, detail string) {
	t.because(cause, detail)
	t.killNow()
}

func (t *Task) killNow() {
	t.mu.Lock()
	target, late := t.target, t.stage >= killed
	if target != nil {
		t.stage = killed
	}
	t.mu.Unlock()
	if target != nil && !late {
		target.Kill()
	}
}

// Signal sends a signal. One that asks for an end begins the grace period where it is the caller's own.
func (t *Task) Signal(sig os.Signal) error {
	n, err := backend.SignalOf(sig)
	if err != nil {
		return err
	}
	select {
	case <-t.gone:
		return os.ErrProcessDone
	default:
	}
	t.mu.Lock()
	t.out.Heard |= 1 << n
	target := t.target
	t.mu.Unlock()
	if n == syscall.SIGKILL {
		t.killNow()
		return nil
	}
	return target.Signal(n)
}

// Stop passes a signal on with which the caller's own user asks for an end: a second one kills.
func (t *Task) Stop(n syscall.Signal) {
	t.mu.Lock()
	again := t.stage >= asked
	t.out.Asked = cmp.Or(t.out.Asked, n)
	t.mu.Unlock()
	if again {
		t.kill(status.CauseCaller, "killed by the caller's second signal")
		return
	}
	t.because(status.CauseCaller, "the caller's "+outcome.SignalName(n))
	t.ask(n)
}

func (t *Task) Resize(size backend.WinSize) error {
	select {
	case <-t.gone:
		return os.ErrProcessDone
	default:
	}
	if t.exec.TTY == nil {
		return errors.New("it has no terminal")
	}
	return t.target.Resize(size)
}

// Usage is what it uses, with those that it started.
func (t *Task) Usage() (backend.Usage, error) {
	select {
	case <-t.gone:
		return backend.Usage{}, os.ErrProcessDone
	default:
		return t.target.Usage()
	}
}

func (t *Task) Wait() *status.Report { return t.report() }

func (t *Task) wait() *status.Report {
	<-t.gone
	t.mu.Lock()
	patience := time.Duration(-1)
	if t.out.Cause != "" {
		patience = slow
	}
	t.mu.Unlock()
	if t.target != nil {
		t.target.Hang()
	}
	t.io.end(patience)
	t.mu.Lock()
	defer t.mu.Unlock()
	o := &t.out
	if o.Cause == "" && t.reached[status.Memory] && o.Waited && (!o.Ended.Exited() || o.Ended.ExitStatus() != 0) {
		o.Cause, o.Detail = status.CauseMemAlloc, "an allocation was refused"
	}
	v := o.Verdict()
	r := &status.Report{Status: v.Status, Cause: v.Cause, Reason: v.Reason, Ending: v.Ending, Backend: t.box.name, PolicyDigest: t.box.digest()}
	if v.Signal != 0 {
		r.Signal = outcome.SignalName(v.Signal)
	}
	if v.Exited {
		r.ExitCode = &v.ExitCode
	}
	r.RC = v.Status.RC(status.Normalized, v.ExitCode, int(v.Signal))
	if o.Setup != nil {
		r.SetupError = o.Setup.Report()
	}
	if t.target != nil {
		r.DurationMS = t.ended.Sub(t.began).Milliseconds()
		r.Usage = t.target.Used()
	}
	hit := maps.Clone(t.reached)
	t.io.report(r)
	if r.Truncated.Stdout || r.Truncated.Stderr {
		hit[status.Output] = true
	}
	r.LimitsHit = limitsOf(hit)
	r.Enforced = status.Ledger(plan.Ledger(t.box.Ledger()).Confirmed(t.target != nil))
	t.enterOwn(r)
	spec := *t.box.spec
	spec.Argv = t.exec.Argv
	return backend.Complete(r, &spec)
}

// enterOwn enters into the ledger the limits that are of this process alone.
func (t *Task) enterOwn(r *status.Report) {
	own := func(c status.Capability, is bool, words, mechanism, details string) {
		if is {
			ran := t.target != nil
			r.Enforced[c] = status.Enforcement{Requested: words, Enabled: true, Applied: ran, Effective: ran, Mechanism: mechanism, Details: details}
		}
	}
	l := t.exec.Limits
	own(status.WallTime, l.Time > 0, l.Time.String(), "timer", "of this process")
	own(status.CPUTime, l.CPU > 0, l.CPU.String(), "accounting", "of this process and those that it started, looked at every "+LookEvery.String())
	own(status.Output, l.Output > 0, fmt.Sprint(l.Output), "relay", "of this process")
}
