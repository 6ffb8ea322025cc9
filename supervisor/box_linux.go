package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/internal/disk"
	"github.com/confine-run/confine/supervisor/internal/remains"
	"github.com/confine-run/confine/supervisor/internal/watch"
	"github.com/confine-run/confine/supervisor/outcome"
)

// box is a sandbox: everything that stands before a process runs in it, and what is left of
// it afterwards. Only the goroutine of its loop touches it as long as that goes on.
type box struct {
	plan   *plan.Plan
	ledger plan.Ledger // as planned, and what was found out since
	child  *process
	opts   *Options // of them Attempt, LimitHit, Alone

	events *inbox
	mailbox
	jobs   map[uint32]*job
	ending          // why there is no box, or none any more
	last   []func() // what is to be closed when nobody is left

	pings
	guards
	counters
	standing
	closed   *handoff.Closed // the init has reaped everybody else; nil: not yet
	network  network
	overlays overlays
	stacks   stacks
	aftermath
	crowd *crowd // of a sandbox for many; nil: its only process is all there is
}

// guards look at what is inside, as long as there is something.
type guards struct {
	watch *watch.Watch
	masks *masks
	trees *disk.Watchdog
}

// mailbox is how others have the loop do something.
type mailbox struct {
	mail chan func()
	over chan struct{} // closed when the loop has ended
}

// standing is what the init tells when everything stands.
type standing struct {
	begun    bool          // the init has been told what to build
	open     chan struct{} // closed when processes can be started at any time: of a box that isn't for one job
	ready    bool
	fellBack handoff.Fallbacks
	places   []handoff.Upper // that are memory: what is written there
}

// aftermath is what is found when nobody is left.
type aftermath struct {
	outOfMemory *status.OutOfMemory // nil: it was not for want of memory that the run ended
	tick        time.Time           // no file of the run's has an earlier time
	remains     *remains.Remains
	stays       string // the run's own directory, where that could not be removed
	changes     *status.Changes
}

// ending is why a box ended by itself.
type ending struct {
	failed *SetupError
	cause  status.Cause // of a limit, or the caller's
	detail string
}

func newBox(p *plan.Plan, child *process, o *Options) *box {
	return &box{
		plan: p, child: child, opts: o, aftermath: aftermath{tick: coarse()}, overlays: overlays{scratch: -1, began: time.Now()}, stacks: stacks{below: -1},
		mailbox: mailbox{make(chan func()), make(chan struct{})}, standing: standing{open: make(chan struct{})}, jobs: map[uint32]*job{},
	}
}

// do has the loop call f. It is false when that has ended.
func (m *mailbox) do(f func()) bool {
	select {
	case m.mail <- f:
		return true
	case <-m.over:
		return false
	}
}

// after has the loop call f after a time.
func (m *mailbox) after(d time.Duration, f func()) *time.Timer {
	return time.AfterFunc(d, func() { m.do(f) })
}

// build has the child begin to build, once. It asks for nothing that the cgroup decides, or what comes after it in a plan.
func (b *box) build() *SetupError {
	if b.begun {
		return nil
	}
	b.begun = true
	if err := b.weighTrees(); err != nil {
		return err
	}
	if err := b.supervise(); err != nil {
		return err
	}
	return b.child.build(b.plan, b.stacks.below)
}

// begin has the box built to its end, and the only job, if there is one, started when it is.
func (b *box) begin(only *job) *SetupError {
	if err := b.build(); err != nil {
		return err
	}
	if only != nil {
		only.refused.subscribe()
		only.exec.Last, only.exec.Modes, only.exec.CountTasks = true, only.opts.Terminal.Modes(), only.opts.Record != nil
		b.jobs[only.exec.ID] = only
	}
	if err := b.child.bound(b.plan, b.group); err != nil {
		return err
	}
	if only != nil && b.opts.Notify != nil {
		b.opts.Notify() // before it starts
	}
	if only != nil && !watch.Awaited(b.plan) {
		if err := only.send(); err != nil { // it is there when the box stands
			return &SetupError{Step: "start", Op: "sendmsg", Errno: errnoOf(err)}
		}
	}
	b.events = listen(b.child.sock)
	return nil
}

// weighTrees begins to watch what the writable trees grow by. It comes before the
// target is started: what is there by then is not the target's.
func (b *box) weighTrees() *SetupError {
	w := &b.plan.Watch
	if len(w.Trees) == 0 {
		return nil
	}
	var dirs []int
	defer func() {
		for _, fd := range dirs {
			_ = unix.Close(fd)
		}
	}()
	for _, t := range w.Trees {
		fd, err := openTree(t.Path, unix.O_PATH, t.Dev, t.Ino)
		if err != nil {
			return &SetupError{Step: "disk", Op: "openat2", Path: t.Path, Errno: errnoOf(err)}
		}
		dirs = append(dirs, fd)
	}
	var err error
	if b.trees, err = disk.New(dirs, disk.Limits{Bytes: w.Disk, Files: w.Files}); err != nil {
		return &SetupError{Step: "disk", Op: err.Error(), Errno: errnoOf(err)}
	}
	return nil
}

// loop ends when the child's side of the socket has: then nothing of the box is
// left but a zombie.
func (b *box) loop(ctx context.Context) {
	defer func() {
		for _, j := range b.jobs {
			j.end()
		}
		close(b.over)
	}()
	setup := time.NewTimer(setupPatience)
	defer setup.Stop()
	done := ctx.Done()
	for {
		select {
		case <-b.events.more:
			events, over := b.events.take()
			for _, e := range events {
				b.hear(e)
			}
			if over {
				return
			}
		case <-setup.C:
			if !b.ready {
				b.fail(&SetupError{Step: "start", Op: "set-up", Errno: unix.ETIMEDOUT})
				b.child.kill()
			}
		case <-done:
			done = nil
			b.kill(status.CauseContext, "cancelled by the caller")
		case <-b.oom:
			b.oom = nil
			b.kill(status.CauseMemGroup, b.memoryKilled())
		case hit := <-b.watch.Hits():
			if hit.Broken != nil {
				b.broken(hit.Broken)
				continue
			}
			b.kill(hit.Cause, hit.Detail)
		case err := <-b.masks.gone():
			b.broken(err)
		case f := <-b.mail:
			f()
		}
	}
}

// hear takes one frame of the child's.
func (b *box) hear(e event) {
	defer e.close()
	if e.err != nil {
		b.broken(fmt.Errorf("a message of the init's: %w", e.err))
		return
	}
	switch m := e.frame.(type) {
	case *handoff.SetupError:
		b.fail(&SetupError{Step: m.Step, Op: m.Op, Path: m.Path, Errno: unix.Errno(m.Errno)})
	case *handoff.Sockets:
		fds := e.fds
		e.fds = nil
		if err := b.sockets(m, fds); err != nil {
			b.fail(err)
			b.child.kill()
		}
	case *handoff.Built:
		b.hearBuilt(e.built(m))
	case *handoff.Ping:
		b.pinged(m)
	case *handoff.Closed:
		b.use(&m.Used)
		b.closed = m
		if b.plan.Bounds.Group.Linger {
			b.count()
			_ = unix.Shutdown(b.child.sock, unix.SHUT_WR)
		}
	case *handoff.ExecError:
		if j := b.jobs[m.ID]; j != nil {
			j.hearFailed(m)
		}
	case *handoff.Started:
		if j := b.jobs[m.ID]; j != nil {
			j.hearStarted(e.started(m))
		}
	case *handoff.Stopped:
		if j := b.jobs[m.ID]; j != nil {
			j.suspend(unix.Signal(m.Signal))
		}
	case *handoff.Exited:
		if j := b.jobs[m.ID]; j != nil {
			j.hearExited(m)
		}
	}
}

// use takes over what was used by everybody inside, for whom that counts.
func (b *box) use(u *handoff.Usage) {
	for _, j := range b.jobs {
		if j.exec.Last {
			j.use(u)
		}
	}
}

// hearBuilt: everything stands, and nothing runs in it yet.
func (b *box) hearBuilt(x *built) {
	b.network.nameProcesses(x.proc)
	b.ready, b.places = true, slices.Concat(x.Uppers, x.Places)
	if err := b.overlays.hold(x.scratch, x.Uppers); err != nil {
		x.close() // nobody has taken anything over yet
		b.broken(err)
		return
	}
	b.stacks.hold(x, b.plan)
	b.fallBack(x.Fallbacks)
	b.leftOut(x.Skipped)
	if b.group != nil {
		b.oom = b.group.OOM()
	}
	b.beginWatch(x)
	for _, j := range b.jobs {
		j.built()
	}
}

// beginWatch begins to watch what is inside, and then has started what waits for that.
func (b *box) beginWatch(x *built) {
	var err error
	if b.masks, err = watchMasks(b.plan.Hidden, b.child, x.proc); err != nil {
		b.broken(err)
	}
	b.watch, err = watch.New(b.plan, watch.Inside{
		Init: b.child.pid, Proc: x.proc, Scratch: append([]int{x.scratch}, x.sized...), IPC: x.ipc,
		Group: b.group, Trees: b.trees, KillTasks: b.plan.Watch.KillTasks || b.fellBack.NoPIDMax,
	})
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		b.broken(err)
	}
	if b.watch == nil {
		return
	}
	b.watch.Tell(b.opts.LimitHit, b.crowd != nil)
	var begun func()
	only := b.jobs[0]
	switch {
	case !watch.Awaited(b.plan) && only == nil:
		close(b.open)
	case watch.Awaited(b.plan) && only == nil:
		begun = func() { close(b.open) }
	case watch.Awaited(b.plan):
		begun = func() {
			if err := only.send(); err != nil {
				b.watch.Break(err)
			}
		}
	}
	if begun != nil && b.opts.Alone {
		makeRoom()
	}
	b.watch.Start(begun)
}

// makeRoom lets more goroutines run at once than there are cores. On a busy host those that run wait for
// a turn of the kernel's, and the watchdog, whose thread may come before all others, would wait for them.
func makeRoom() { runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), runtime.NumCPU()) + 6) }

// kill ends everybody for a cause that is about all of them: a run's process first, which may tell of its end, and a
// sandbox for many at once, whoever is in it.
func (b *box) kill(cause status.Cause, detail string) {
	if b.cause == "" {
		b.cause, b.detail = cause, detail
	}
	only := len(b.jobs) == 1
	for _, j := range b.jobs {
		only = only && j.exec.Last
	}
	for _, j := range b.jobs {
		// Of two that are heard of together it is always the same.
		if cpu := outcome.StatusOf(cause) == status.CPULimit; cpu && j.overdue() {
			j.timeIsUp()
			continue
		}
		if only {
			j.kill(cause, detail)
		} else {
			j.because(cause, detail)
		}
	}
	if !only {
		b.child.kill()
	}
}

// fail notes why there is no box; the first reason counts.
func (b *box) fail(err *SetupError) {
	if b.failed == nil {
		b.failed = err
	}
	for _, j := range b.jobs {
		if j.out.Setup == nil && !j.out.Waited {
			j.out.Setup = err
		}
	}
}

// broken ends a box that can't be held to its limits any more.
func (b *box) broken(err error) {
	var why *SetupError
	if !errors.As(err, &why) {
		why = failed("watch", err)
	}
	b.fail(why)
	b.child.kill()
}

// close ends what belongs to a box when its init has, reads what its cgroup counted, now that nothing is in it
// any more, and removes it. It says what is left nevertheless.
func (b *box) close() *SetupError {
	b.watch.End()
	if !b.takesNothing() {
		b.masks.end()
		b.child.reap()
	}
	b.network.end()
	for _, f := range b.last {
		f()
	}
	swept := !b.child.bare || !b.child.alone || sweepOrphans()
	if left := b.release(); swept {
		return left
	}
	return &SetupError{Step: "sweep", Op: "some of the run's processes could not be ended"}
}

// release lets go of what there is whether anything was built or not.
func (b *box) release() *SetupError {
	if b.trees != nil {
		_ = b.trees.Close()
	}
	if b.group == nil {
		return nil
	}
	if !b.counted {
		b.count()
	}
	if err := b.group.Remove(); err != nil {
		return failed("cgroup", err)
	}
	return nil
}

// abandon ends what has begun of a box that comes to nothing.
func (b *box) abandon() *SetupError {
	if b.child != nil {
		b.child.discard()
	}
	b.network.end()
	b.stacks.close()
	return b.release()
}

// tidy puts away what was left where it may not be, and reads what was changed.
func (b *box) tidy() {
	if dir := b.plan.Box.TempDir; dir != "" && RemoveTemp(dir) != nil {
		b.stays = dir
	}
	b.remains = remains.Take(b.plan, b.tick)
	if b.ready && (b.stays != "" || b.remains.Left()) {
		b.ledger.Weaken(status.Filesystem, status.ProtectedLeft, "a protected path that did not exist before could not be removed")
	}
	b.changes = b.review() // after what may have been put where it is kept is gone
	b.stacks.close()
}

// gone waits for an init that close didn't wait for: the kernel has taken down its namespaces meanwhile.
func (b *box) gone() {
	if b.takesNothing() {
		b.masks.end()
		b.child.reap()
	}
}

// takesNothing says whether an init that is still there takes nothing with it that is needed.
func (b *box) takesNothing() bool {
	return b.closed != nil && !b.child.bare && !b.plan.Bounds.Group.Linger
}
