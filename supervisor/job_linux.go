package supervisor

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/internal/tree"
	"github.com/confine-run/confine/supervisor/internal/watch"
	"github.com/confine-run/confine/supervisor/outcome"
)

// beatEvery is how often it is told what the run uses.
const beatEvery = time.Second

// job is a process in a box, from the side that watches. Only the goroutine of the box's loop touches it
// as long as that goes on.
type job struct {
	*box
	exec   *handoff.Exec
	opts   *Options
	io     *streams
	ledger plan.Ledger // the box's, or in a sandbox for many one of its own

	out outcome.Outcome

	started time.Time // of the target
	ended   time.Time
	exited  handoff.Exited
	used    handoff.Usage // by it and whom it waited for; by everybody, if it was the only one

	refused *refusals

	targetStarted bool
	target        int // pidfd
	unwatch       func()

	clocks
	stopped
	number int            // of the target, as the proc inside has it
	mine   *mine          // of one of many: what is its own, of what the box knows of all; else nil
	gone   chan struct{}  // closed when the target is, or will never be there
	late   chan os.Signal // that came when the loop had ended
}

// clocks are those of a job; nil is none.
type clocks struct {
	wall *time.Timer // of its limit
	beat *time.Timer // of what is told about usage

	samples *watch.Recorder // of a record
}

func newJob(b *box, e *handoff.Exec, o *Options, io *streams) *job {
	j := &job{box: b, ledger: b.ledger, exec: e, opts: o, io: io, gone: make(chan struct{}), late: make(chan os.Signal, 1)}
	j.refused = &refusals{box: b, ledger: b.ledger, opts: o, exec: e}
	j.out.SeccompKills = b.plan.SeccompKills
	j.out.Limit = outcome.HeldTo{Memory: max(b.plan.Watch.Memory, b.plan.Held.Memory), File: fileLimit(e), CPU: narrower(b.plan.Watch.CPU, o.Limits.CPU)}
	if io != nil {
		io.limit = narrower(b.plan.Watch.Output, o.Limits.Output)
	}
	return j
}

// fileLimit is the size that no file may grow beyond. The kernel sends SIGXFSZ for nothing
// else.
func fileLimit(e *handoff.Exec) uint64 {
	for _, l := range e.Rlimits {
		if l.Resource == unix.RLIMIT_FSIZE {
			return l.Soft
		}
	}
	return 0
}

// wallLimit is the one that holds; 0: none.
func wallLimit(j *job) time.Duration { return narrower(j.plan.Watch.Wall, j.opts.Limits.Time) }

// narrower is the smaller of two limits; 0 is none.
func narrower[T ~int64](a, b T) T {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// send has the child start the target. It may be called from elsewhere.
func (j *job) send() error {
	defer j.io.handedOver()
	fds := j.io.target[:]
	if j.exec.Tells = j.io.tells.inside >= 0; j.exec.Tells {
		fds = append(fds, j.io.tells.inside)
	}
	return j.child.exec(j.exec, fds)
}

// built: the box stands, and the target begins as soon as the child has its turn.
func (j *job) built() {
	j.out.Built = true
	j.started = time.Now()
	j.opts.phase(status.PhaseBuild)
	if j.mine != nil {
		j.mine.born = tree.Clock()
	}
	if d := wallLimit(j); d > 0 {
		j.wall = j.after(d, j.timeIsUp)
	}
	j.io.watch.Store(j.watch)
	if !j.io.onPTY() {
		if err := j.io.begin(-1); err != nil {
			j.broken(err)
		}
	}
}

// heedSignals passes the caller's signals on.
func (j *job) heedSignals() {
	if j.opts.Signals == nil {
		return
	}
	go func() {
		for {
			select {
			case s, open := <-j.opts.Signals:
				if !open {
					return
				}
				if !j.do(func() { j.passOn(s) }) {
					j.late <- s
					return
				}
			case <-j.gone:
				return
			}
		}
	}()
}

func (j *job) timeIsUp() {
	j.stop(status.CauseWall, fmt.Sprintf("wall-clock limit of %s reached", wallLimit(j)))
}

// overdue: the wall clock's limit has passed, whether its timer had its turn or not.
func (j *job) overdue() bool {
	return wallLimit(j) > 0 && time.Since(j.started) >= wallLimit(j)
}

// hearStarted: the target runs.
func (j *job) hearStarted(t *started) {
	j.targetStarted, j.target = true, t.pidfd
	if t.pty >= 0 {
		if err := j.io.begin(t.pty); err != nil {
			j.broken(err)
		}
	}
	j.refused.heed(t, j.started, j.gone)
	j.out.Told = t.listener >= 0
	j.number = j.watch.Started(int(t.PID), t.pidfd, j.child.bare)
	for _, n := range j.early {
		j.signal(n)
	}
	if j.mine != nil {
		j.crowd.enter(j)
	}
	j.opts.phase(status.PhaseStart)
	if j.opts.Started != nil {
		j.opts.Started()
	}
	if j.opts.Record != nil {
		j.samples = watch.Record(j.watch, j.opts.Record, j.io.written, time.Now())
	}
	if j.opts.Using != nil {
		j.opts.Using(j.watch.Asks().UsedNow)
	}
	if j.opts.Usage != nil {
		j.beat = j.after(beatEvery, func() {
			j.opts.Usage(j.watch.Load())
			j.beat.Reset(beatEvery)
		})
	}
	if j.opts.Watching != nil {
		j.unwatch = j.opts.Watching(
			func() time.Duration { return time.Since(j.started) },
			j.watch.Memory)
	}
}

// hearFailed: there is no target, by the command's own fault or by ours.
func (j *job) hearFailed(m *handoff.ExecError) {
	switch {
	case m.Step == handoff.StepLookup, m.Step == handoff.StepExecve, m.Step == handoff.StepChdir && j.mine != nil:
		j.out.Exec = &outcome.ExecError{Path: m.Path, Errno: unix.Errno(m.Errno), Step: m.Step}
	default:
		j.out.Setup = &SetupError{Step: m.Step, Op: m.Op, Path: m.Path, Errno: unix.Errno(m.Errno)}
	}
	if !j.exec.Last {
		j.end()
	}
}

// hearExited: the target is gone.
func (j *job) hearExited(m *handoff.Exited) {
	j.ended = time.Now()
	j.exited = *m
	j.out.Waited, j.out.Ended = true, syscall.WaitStatus(m.WaitStatus)
	if w := j.out.Ended; w.Signaled() && j.opts.Terminal.Pressed(w.Signal()) {
		j.out.Heard |= 1 << w.Signal()
	}
	j.use(&m.Used)
	if !j.exec.Last {
		j.end()
	}
}

// use takes over what was used.
func (j *job) use(u *handoff.Usage) {
	j.used = *u
	j.out.CPUUsed = time.Duration(u.UserUS+u.SystemUS) * time.Microsecond
}

// end lets go of a target that is gone, or will never be there.
func (j *job) end() {
	delete(j.jobs, j.exec.ID)
	if j.mine != nil {
		j.crowd.leave(j)
	}
	if j.out.Setup == nil && !j.out.Waited {
		j.out.Setup = j.failed
	}
	defer j.opts.gone()
	defer close(j.gone)
	for _, t := range []*time.Timer{j.wall, j.deadline, j.beat} {
		if t != nil {
			t.Stop()
		}
	}
	if j.unwatch != nil {
		j.unwatch()
	}
	j.samples.End()
}

// settle takes over what only a box that has ended knows.
func (j *job) settle() {
	if j.mine == nil {
		j.out.Refused = j.network.refused()
	} else {
		j.out.Refused = j.mine.refused()
	}
	if j.opts.Astray != nil && j.exited.Astray > 0 {
		j.opts.Astray(int(j.exited.Astray))
	}
	j.refused.count(&j.out)
	if j.targetStarted {
		if j.watch.TooMany(j.number) {
			j.out.TooMany(j.plan.Watch.Tasks)
		}
		_ = unix.Close(j.target)
		if j.plan.Held.Memory > 0 && j.group != nil {
			counted(&j.out, &j.stat, j.oomKilled, j.memoryKilled())
		}
	}
	if j.ended.IsZero() {
		j.ended = time.Now()
	}
}

// deliver waits until the caller's side has what the target wrote. The target is
// gone: what asks for an end now is about us.
func (j *job) deliver(ctx context.Context) {
	if j.io.endNow() {
		return
	}
	slow := time.Duration(-1) // the caller's side may take as long as without us to read what is there
	if j.out.Cause != "" {
		slow = initPatience
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		j.io.end(slow)
	}()
	patience := initPatience
	ended, signals := ctx.Done(), j.opts.Signals
	for {
		var s os.Signal
		open := true
		select {
		case <-done:
			return
		case <-ended:
			ended, s = nil, unix.SIGTERM
		case s = <-j.late:
		case s, open = <-signals:
		}
		switch {
		case !open:
			signals = nil
			continue
		case s == unix.SIGTSTP:
			j.opts.Terminal.Suspend(false)
			continue
		case !AsksForEnd(s):
			continue
		}
		j.stopping()
		j.io.hurry(patience)
		patience = 0
	}
}
