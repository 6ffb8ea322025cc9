package supervisor

import (
	"context"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/cgroup"
	"github.com/confine-run/confine/supervisor/denials"
	"github.com/confine-run/confine/supervisor/files"
)

const (
	// setupPatience bounds the time from clone to the target's start.
	setupPatience = 30 * time.Second
	// initPatience is how long the init may take to kill, reap and report before
	// it is killed itself.
	initPatience = 2 * time.Second
)

// Prepared is a child that waits for its plan. It has done nothing yet.
type Prepared struct {
	opts  *Options
	io    *streams // of a run
	child *process
	err   *SetupError
}

// Prepare clones the child ahead of its plan, so that the one starts while the
// other is made. namespaces are those of the plan. Run, Build or Discard has to follow.
func Prepare(namespaces uintptr, o Options) *Prepared {
	p := &Prepared{opts: &o}
	reaper := namespaces&unix.CLONE_NEWPID == 0 && o.Alone && alone()
	if reaper {
		_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	}
	spawn(func() { p.child, p.err = start(namespaces) })
	if p.child != nil {
		p.child.alone = reaper
	}
	return p
}

// Connect opens the streams of a run. tty is that of its plan.
func (p *Prepared) Connect(tty [3]bool) {
	io, err := openStreams(tty, p.opts)
	if err != nil && p.err == nil {
		p.err = &SetupError{Step: "streams", Op: "pipe", Errno: errnoOf(err)}
	}
	p.io = io
}

// spawn calls f on the thread that all children are clones of, which lives as long as this process does:
// children die with the thread that made them.
func spawn(f func()) {
	done := make(chan struct{})
	spawner() <- func() {
		defer close(done)
		f()
	}
	<-done
}

// slack is by how much timers of the caller's may be late, in ns, which is what the child and the target begin with: this
// process may have begun with more, see entry_linux_amd64.s. Packages are initialised on the thread that it began with.
var slack = func() int {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0)
	n, _ := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	return n
}()

var spawner = sync.OnceValue(func() chan<- func() {
	wanted := make(chan func())
	go func() {
		runtime.LockOSThread()
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0) // a thread has that of whichever made it
		for f := range wanted {
			f()
		}
	}()
	return wanted
})

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
	b := newBox(pl, p.child, group, p.opts)
	j := newJob(b, &pl.Exec, p.opts, p.io)
	j.judge, j.refuses = judge, refuses
	switch {
	case p.err != nil:
		j.out.setup = p.err
	case ctx.Err() != nil:
		j.because(status.CauseContext, "cancelled by the caller")
	default:
		j.out.setup = b.begin(j)
	}
	if j.out.setup != nil || j.out.cause != "" {
		j.abandon()
		if left := b.abandon(); j.out.setup == nil {
			j.out.setup = left
		}
		return j.report()
	}
	j.heedSignals()
	b.loop(ctx)
	if j.reachedMemory() {
		j.outOfMemory = j.watch.outOfMemory(j.places)
	}
	left := b.close()
	j.settle()
	if j.out.setup == nil {
		j.out.setup = left
	}
	b.tidy()
	j.deliver(ctx)
	j.out.left = j.io.readerLeft()
	return j.report()
}
