package supervisor

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/linux"
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
	start func() (*process, *SetupError)
	box   *box        // that it builds already
	err   *SetupError // of the streams, or of that
}

// ahead is a child that was begun before anything was known of the run; nil is none.
var ahead atomic.Pointer[cloning]

// Ahead begins to clone a child for the namespaces that the first run is likely to want, if First has not. One that wants others
// ends it, and so does drop where there is no run. Who was asked to end begins none.
func Ahead(namespaces uintptr) (drop func()) {
	if First.Turn.Stopped() != 0 {
		return func() {}
	}
	c := &cloning{namespaces: First.Namespaces, child: &process{}, theirs: -1}
	if c.child.pid, c.child.pidfd, c.child.sock, c.told = First.Take(); c.child.pid == 0 {
		c = clone(namespaces)
	}
	ahead.Store(c)
	return func() { _ = takeAhead(0) }
}

// First is a child that the first instruction of this process may have begun, for the namespaces that runs are likely to want.
var First = linux.First{
	Namespaces:   unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWNET,
	Capabilities: setupCaps,
	Turn: linux.Turn{Name: "confine1", Patience: time.Second,
		Stop: [...]unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGQUIT, unix.SIGHUP}},
	Slack: uintptr(handoff.MonitorSlack),
	Argv:  [2]string{childName + "\x00", childWord + "\x00"},
	Env:   [3]string{childProcessors + "\x00", childGC + "\x00", childPreempt + "\x00"},
}

// spare is how long a child waits for a run that may come.
const spare = 2 * time.Second

// Spare is Ahead for a run that may come soon, if no other child waits. drop ends it before its time.
func Spare(namespaces uintptr) (drop func()) {
	if ahead.Load() != nil {
		return func() {}
	}
	c := clone(namespaces)
	drop = func() {
		if ahead.CompareAndSwap(c, nil) {
			c.discard()
		}
	}
	if !ahead.CompareAndSwap(nil, c) {
		c.discard()
		return func() {}
	}
	time.AfterFunc(spare, drop)
	return drop
}

// takeAhead gives the child that was begun, if it is of these namespaces, and ends any other.
func takeAhead(namespaces uintptr) *cloning {
	c := ahead.Swap(nil)
	if c == nil || namespaces != 0 && c.namespaces == namespaces {
		return c
	}
	c.discard()
	return nil
}

// Prepare clones the child ahead of its plan, so that the one starts while the
// other is made. namespaces are those of the plan. Run, Build or Discard has to follow.
func Prepare(namespaces uintptr, o Options) *Prepared {
	p := &Prepared{opts: &o}
	c := takeAhead(namespaces)
	waited := c != nil
	reaper := c == nil && namespaces&unix.CLONE_NEWPID == 0 && o.Alone && alone()
	if reaper {
		_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	}
	if c == nil {
		c = clone(namespaces)
	}
	p.start = sync.OnceValues(func() (*process, *SetupError) {
		child, err := c.wait()
		if waited && child != nil && child.ended() { // it was killed while nobody needed it
			child.discard()
			child, err = clone(namespaces).wait()
		}
		if child != nil {
			child.alone = reaper
		}
		return child, err
	})
	return p
}

// Connect opens the streams of a run. tty is that of its plan.
func (p *Prepared) Connect(tty [3]bool) {
	io, err := openStreams(tty, p.opts)
	if err != nil {
		p.err = &SetupError{Step: "streams", Op: "pipe", Errno: errnoOf(err)}
	}
	p.io = io
}

// slack is by how much timers of the caller's may be late, in ns, which is what the child and the target begin with: this
// process may have begun with more, see linux.First. Packages are initialised on the thread that it began with.
var slack = func() int {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0)
	n, _ := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	return n
}()

// begun waits for the child, or why there is none.
func (p *Prepared) begun() (*process, *SetupError) {
	child, err := p.start()
	if err == nil {
		err = p.err
	}
	return child, err
}

// PID is the child's, 0 when there is none.
func (p *Prepared) PID() int {
	if child, _ := p.start(); child != nil {
		return child.pid
	}
	return 0
}

// Failed says whether there is no child at all: Run will only say why.
func (p *Prepared) Failed() bool {
	_, err := p.begun()
	return err != nil
}

// Begin has the child begin to build the box of a plan that stands on nothing, of which nothing is missing but what the cgroup decides: it waits for that
// when it has mounted what comes before /proc. Nothing of the box changes any more.
func (p *Prepared) Begin(pl *plan.Plan) {
	if child, err := p.begun(); err == nil {
		p.box = newBox(pl, child, p.opts)
		p.err = p.box.build()
	}
}

// boxOf is the box of a plan that is ready, or with it why there is none.
func (p *Prepared) boxOf(pl *plan.Plan, group *cgroup.Group) (*box, *SetupError) {
	child, err := p.begun()
	b := p.box
	if b == nil {
		b = newBox(pl, child, p.opts)
	}
	b.ledger, b.group = maps.Clone(pl.Ledger), group
	return b, err
}

// Discard ends a child that will get no plan.
func (p *Prepared) Discard() {
	if p.box != nil && p.box.trees != nil {
		_ = p.box.trees.Close()
	}
	if child, _ := p.start(); child != nil {
		child.discard()
	}
	if p.io != nil {
		p.io.end(0)
	}
}

// Run carries out the plan, with the target in group, if there is one, which is
// removed at the end. judge answers what a filter that notifies denies, and
// refuses what the rules of files say. It always gives a report, whatever happened.
func (p *Prepared) Run(ctx context.Context, pl *plan.Plan, group *cgroup.Group, judge denials.Judge, refuses files.Judge) *status.Report {
	b, err := p.boxOf(pl, group)
	j := newJob(b, &pl.Exec, p.opts, p.io)
	j.refused.judge, j.refused.refuses = judge, refuses
	j.opts.phase(status.PhasePlan)
	switch {
	case err != nil:
		j.out.Setup = err
	case ctx.Err() != nil:
		j.because(status.CauseContext, "cancelled by the caller")
	default:
		j.out.Setup = b.begin(j)
	}
	if j.out.Setup != nil || j.out.Cause != "" {
		j.refused.audit.Discard()
		if j.io != nil {
			j.io.end(0)
		}
		if left := b.abandon(); j.out.Setup == nil {
			j.out.Setup = left
		}
		return j.report()
	}
	j.heedSignals()
	b.loop(ctx)
	if j.reachedMemory() {
		j.outOfMemory = j.watch.OutOfMemory(j.places)
	}
	left := b.close()
	j.settle()
	if j.out.Setup == nil {
		j.out.Setup = left
	}
	b.tidy()
	j.deliver(ctx)
	j.out.Left = j.io.readerLeft()
	defer b.gone()
	return j.report()
}
