package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/linux"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/cgroup"
	"github.com/confine-run/confine/supervisor/denials"
	"github.com/confine-run/confine/supervisor/disk"
	"github.com/confine-run/confine/supervisor/files"
)

const (
	// setupPatience bounds the time from clone to the target's start.
	setupPatience = 30 * time.Second
	// initPatience is how long the init may take to kill, reap and report before
	// it is killed itself.
	initPatience = 2 * time.Second
)

// run is one run, from the side that watches. Only its own goroutine touches it.
type run struct {
	plan  *plan.Plan
	opts  *Options
	child *process
	io    *streams
	watch *watch
	group *cgroup.Group // or nil
	stat  cgroup.Stat   // of the group, at the end
	// oomKilled: the OOM killer came for the group's own limit.
	oomKilled, counted bool
	oom                <-chan struct{}
	trees              *disk.Watchdog

	events <-chan event
	wall   <-chan time.Time
	out    outcome

	started  time.Time // of the target
	ended    time.Time
	exited   handoff.Message
	fellBack handoff.Fallbacks
	skipped  []uint32 // optional mounts
	ready    bool

	judge      denials.Judge
	denials    *denials.Listener
	noListener unix.Errno // why there is none although the plan wants one

	targetStarted bool
	target        int           // pidfd
	early         []unix.Signal // for a target that had not started yet
	unwatch       func()

	seen // of files

	network  network
	overlays overlays
	changes  *status.Changes

	removed []string // protected paths that had come to be
	left    []string // and those that could not be removed again

	beat *time.Ticker // of what is told about usage; nil is none

	resumed  time.Time // after the last suspension
	stage    stage
	deadline <-chan time.Time // of the stage
}

// Prepared is a child that waits for its plan. It has done nothing yet.
type Prepared struct {
	opts  *Options
	io    *streams
	child *process
	err   *SetupError
}

// Prepare clones the child ahead of its plan, so that the one starts while the
// other is made. namespaces and tty are those of the plan. The calling goroutine
// is locked to its thread until Run or Discard, which it has to call: the child
// dies with the thread that made it.
func Prepare(namespaces uintptr, tty [3]bool, o Options) *Prepared {
	runtime.LockOSThread()
	p := &Prepared{opts: &o}
	var err error
	if p.io, err = openStreams(tty, p.opts); err != nil {
		p.err = &SetupError{Step: "streams", Op: "pipe", Errno: errnoOf(err)}
		return p
	}
	reaper := namespaces&unix.CLONE_NEWPID == 0 && o.Alone && alone()
	if reaper {
		_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	}
	if p.child, p.err = start(namespaces, p.io.target); p.child != nil {
		p.child.alone = reaper
	}
	p.io.started()
	return p
}

// PID is the child's, 0 when there is none.
func (p *Prepared) PID() int {
	if p.child == nil {
		return 0
	}
	return p.child.pid
}

// Failed says whether there is no child at all: Run will only say why.
func (p *Prepared) Failed() bool { return p.err != nil }

// Discard ends a child that will get no plan.
func (p *Prepared) Discard() {
	defer runtime.UnlockOSThread()
	if p.child != nil {
		p.child.discard()
	}
	if p.io != nil {
		p.io.end(0)
	}
}

// Run carries out the plan, with the target in group, if there is one, which is
// removed at the end. judge answers what a filter that notifies denies, and
// refuses what the rules of files say. It always gives a report, whatever happened.
func (p *Prepared) Run(ctx context.Context, pl *plan.Plan, group *cgroup.Group, judge denials.Judge, refuses files.Judge) *status.Report {
	defer runtime.UnlockOSThread()
	r := &run{plan: pl, opts: p.opts, io: p.io, child: p.child, group: group, judge: judge, seen: seen{refuses: refuses}}
	r.overlays = overlays{scratch: -1, began: coarse()}
	r.out.setup = p.err
	r.out.seccompKills = pl.SeccompKills
	r.out.cpuLimit, r.out.fileLimit = pl.Watch.CPU, fileLimit(&pl.Child)
	if p.io != nil {
		p.io.limit = pl.Watch.Output
		r.do(ctx)
	}
	r.settle()
	return r.report()
}

func (r *run) do(ctx context.Context) {
	if ctx.Err() != nil && r.out.setup == nil {
		r.because(status.CauseContext, "cancelled by the caller")
		r.child.discard()
		r.io.end(0)
		return
	}
	if r.out.setup == nil {
		r.out.setup = r.weighTrees()
	}
	if r.out.setup == nil {
		r.out.setup = r.supervise()
	}
	if r.out.setup == nil {
		r.subscribe()
	}
	if r.out.setup == nil {
		r.out.setup = r.child.send(r.plan, r.group)
	}
	if r.child == nil || r.out.setup != nil {
		if r.child != nil {
			r.child.discard()
		}
		r.audit.Discard()
		r.network.end()
		r.io.end(0)
		return
	}
	r.events = listen(r.child.sock)
	r.loop(ctx)
	if r.beat != nil {
		r.beat.Stop()
	}
	r.watch.end()
	if r.unwatch != nil {
		r.unwatch()
	}
	r.child.reap()
	r.network.end()
	r.out.refused = r.network.refused()
	r.tellAstray()
	swept := !r.child.bare || !r.child.alone || sweepOrphans()
	r.heard()
	if r.targetStarted {
		if r.watch.tooMany() {
			r.out.tooMany(r.plan.Watch.Tasks)
		}
		_ = unix.Close(r.target)
	}
	if r.ended.IsZero() {
		r.ended = time.Now()
	}
	if dir := r.plan.Child.TempDir; dir != "" && RemoveTemp(dir) != nil {
		r.left = append(r.left, dir)
	}
	if !swept && r.out.setup == nil {
		r.out.setup = &SetupError{Step: "sweep", Op: "some of the run's processes could not be ended"}
	}
	removed, left := removeAbsent(r.plan.KeepAbsent, r.plan.KeepClear)
	r.removed, r.left = removed, append(r.left, left...)
	r.changes = r.review() // after what may have been put where it is kept is gone
	r.deliver(ctx)
}

// deliver waits until the caller's side has what the target wrote. The target is
// gone: what asks for an end now is about us.
func (r *run) deliver(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.io.end(r.patience())
	}()
	patience := initPatience
	ended := ctx.Done()
	for {
		select {
		case <-done:
			return
		case <-ended:
			ended = nil
		case s, open := <-r.opts.Signals:
			if !open {
				r.opts.Signals = nil
				continue
			}
			if !AsksForEnd(s) {
				continue
			}
		}
		r.io.hurry(patience)
		patience = 0
	}
}

// patience is how long the caller's side may still take to read what is there.
func (r *run) patience() time.Duration {
	if r.out.cause == "" {
		return -1 // as long as without us
	}
	return initPatience
}

// loop ends when the child's side of the socket has: then nothing of the run is
// left but a zombie.
func (r *run) loop(ctx context.Context) {
	setup := time.NewTimer(setupPatience)
	defer setup.Stop()
	done := ctx.Done()
	for {
		select {
		case e, open := <-r.events:
			if !open {
				return
			}
			r.hear(e)
		case <-setup.C:
			if !r.ready {
				r.out.setup = &SetupError{Step: "start", Op: "set-up", Errno: unix.ETIMEDOUT}
				r.child.kill()
			}
		case <-r.wall:
			r.timeIsUp()
		case <-done:
			done = nil
			r.kill(status.CauseContext, "cancelled by the caller")
		case <-r.oom:
			r.oom = nil
			r.kill(status.CauseMemGroup, r.memoryReached())
		case hit := <-r.watch.hits():
			if hit.broken != nil {
				r.broken(hit.broken)
				continue
			}
			// Of two that are heard of together it is always the same.
			if cpu := limits[hit.cause] == status.CPULimit; cpu && r.overdue() {
				r.timeIsUp()
				continue
			}
			r.kill(hit.cause, hit.detail)
		case <-r.beats():
			r.opts.Usage(r.watch.load())
		case err := <-r.denials.Broken():
			r.broken(err)
		case s, open := <-r.opts.Signals:
			if !open {
				r.opts.Signals = nil
				continue
			}
			r.passOn(s)
		case <-r.deadline:
			r.advance()
		}
	}
}

func (r *run) timeIsUp() {
	r.stop(status.CauseWall, fmt.Sprintf("wall-clock limit of %s reached", r.plan.Watch.Wall))
}

// overdue: the wall clock's limit has passed, whether its timer had its turn or not.
func (r *run) overdue() bool {
	return r.plan.Watch.Wall > 0 && time.Since(r.started) >= r.plan.Watch.Wall
}

// hear takes one message of the child's.
func (r *run) hear(e event) {
	if e.err != nil {
		r.broken(fmt.Errorf("a message of the init's: %w", e.err))
		return
	}
	m := e.message
	switch m.Kind {
	case handoff.KindSetupError:
		if r.out.setup == nil {
			r.out.setup = &SetupError{Step: m.Step, Op: m.Op, Path: m.Path, Errno: unix.Errno(m.Errno)}
		}
	case handoff.KindSockets:
		if err := r.sockets(m, e.sockets); err != nil {
			r.out.setup = err
			r.child.kill()
		}
	case handoff.KindReady:
		r.network.nameProcesses(e.proc)
		r.ready, r.out.built, r.fellBack, r.skipped = true, true, m.Fallbacks, m.Skipped
		r.started = time.Now()
		if r.plan.Watch.Wall > 0 {
			r.wall = time.After(r.plan.Watch.Wall)
		}
		err := r.overlays.hold(e.scratch, m.Uppers)
		if err == nil {
			err = r.io.begin(e.pty)
		}
		if err != nil {
			e.close()
			r.broken(err)
			return
		}
		if r.group != nil {
			r.oom = r.group.OOM()
		}
		r.watch, err = newWatch(r.plan, r.group, r.trees, r.plan.Watch.KillTasks || r.fellBack.NoPIDMax, e.proc, append([]int{e.scratch}, e.sized...), r.child.pid)
		if err != nil && !errors.Is(err, os.ErrProcessDone) {
			r.broken(err)
		}
		r.watch.tell(r.opts.LimitHit)
	case handoff.KindExecError:
		r.out.exec = &execError{path: m.Path, errno: unix.Errno(m.Errno), lookup: m.Step == "lookup"}
	case handoff.KindStarted:
		r.targetStarted, r.target = true, e.pidfd
		r.heed(&e)
		r.watch.started(int(m.PID), e.pidfd, r.child.bare)
		time.AfterFunc(head, linux.ForgetData)
		time.AfterFunc(settled, settle)
		for _, n := range r.early {
			r.send(n)
		}
		if r.opts.Started != nil {
			r.opts.Started()
		}
		if r.opts.Usage != nil {
			r.beat = time.NewTicker(beatEvery)
		}
		if r.opts.Watching != nil {
			r.unwatch = r.opts.Watching(
				func() time.Duration { return time.Since(r.started) },
				r.watch.memory)
		}
	case handoff.KindStopped:
		r.suspend(unix.Signal(m.Number))
	case handoff.KindExited:
		r.ended = time.Now()
		r.exited = *m
		r.out.waited, r.out.waitStatus = true, syscall.WaitStatus(m.WaitStatus)
		r.out.cpuUsed = time.Duration(m.UserUS+m.SystemUS) * time.Microsecond
		if r.plan.Child.Linger {
			r.count()
			_ = unix.Shutdown(r.child.sock, unix.SHUT_WR)
		}
	}
}

// broken ends a run that can't be held to its limits any more.
func (r *run) broken(err error) {
	if r.out.setup == nil && !r.out.waited {
		r.out.setup = &SetupError{Step: "watch", Op: err.Error(), Errno: errnoOf(err)}
	}
	r.child.kill()
}
