package process

import (
	"context"
	"errors"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/child"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/internal/linux"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor"
	"github.com/confine-run/confine/supervisor/cgroup"
)

// Init turns the process into the inside of a run, if that is what it was
// started as; then it doesn't return. A program that calls Run or Start has to
// call it first thing in main, because the inside of a run is the same binary,
// started again.
func Init() {
	initialised = true
	linux.GrowStack()
	if inside() {
		child.Sweep, child.Tidy = supervisor.SweepBelow, supervisor.RemoveTemp
		runtime.LockOSThread()
		child.Main()
	}
	child.NotCalled()
	host.ProbeMain() // NewPlan asks what the host can do in throw-away processes, too
}

// initialised says whether Init was called.
var initialised bool

const uninitialised = "this program has to call confine.Init first thing in main"

// inside says whether this process was started as the inside of a run.
func inside() bool { return child.Called(os.Args) }

// Ahead begins to start the child of a run that is about to be asked for; drop ends it if there is none.
func Ahead() (drop func()) { return supervisor.Ahead(tierUserNS.namespaces(&config.Policy{})) }

// Execute plans and carries out, at the same time as far as that goes: the child
// is started while the plan and the cgroup are made, and does nothing until it has them. It returns
// when nothing of the run is left. planned, if not nil, is called with the plan
// before anything else happens.
//
// The error is about what was asked for, and nothing was started; everything else
// is in the report.
func Execute(ctx context.Context, policy *config.Policy, command *Command, io supervisor.Options, planned func(*Plan)) (*status.Report, error) {
	return carryOut(ctx, policy, command, io, planned, func(s *set) *status.Report {
		return s.ready.Run(ctx, &s.plan.Plan, s.group, s.plan.judge(), s.plan.refuses)
	})
}

// Open builds a sandbox for commands like the one that is named. Without one there is a report that says why, or an error
// about what was asked for.
func Open(ctx context.Context, policy *config.Policy, command *Command, io supervisor.Options) (box *supervisor.Sandbox, plan *Plan, r *status.Report, err error) {
	r, err = carryOut(ctx, policy, command, io, nil, func(s *set) (r *status.Report) {
		box, r = s.build(ctx, command.ground)
		plan = s.plan
		return r
	})
	return box, plan, r, err
}

// passTurn has the next run of the user's begin when this one has. What takes long doesn't hold it up.
func passTurn(io *supervisor.Options) {
	turn := &supervisor.First.Turn
	if !turn.Has() {
		return
	}
	time.AfterFunc(linux.TurnTime, turn.Pass)
	started := io.Started
	io.Started = func() {
		turn.Pass()
		if started != nil {
			started()
		}
	}
}

// set is a child that waits for its plan, and the plan.
type set struct {
	ready *supervisor.Prepared
	plan  *Plan
	group *cgroup.Group
}

// carryOut has done, on the highest tier that the host gives, what a plan is made for. A report of nil is one that
// will come later.
func carryOut(ctx context.Context, policy *config.Policy, command *Command, io supervisor.Options, planned func(*Plan), do func(*set) *status.Report) (*status.Report, error) {
	if !initialised {
		l := backend.Asked(policy)
		return backend.Unbuilt(Name, &status.SetupError{Step: "start", Op: uninitialised, Error: uninitialised}, l, specOf(policy, command)), nil
	}
	own := *command // the caller's may be used again, in another directory
	command = &own
	if err := command.fill(); err != nil {
		return nil, err
	}
	begin := newStartupSignals(ctx, io.Signals, io.Notify)
	defer begin.end()
	notify := io.Notify
	io.Signals, io.Notify = begin.later, func() {
		begin.listen()
		if notify != nil {
			notify() // waits
		}
	}
	if n := supervisor.First.Turn.Stopped(); n != 0 {
		return stopped(stoppedBy{n}, "it waited for others to start", policy, command), nil
	}
	passTurn(&io)
	defer supervisor.First.Turn.Pass()
	if command.hasImage(policy) {
		begin.listen()
		err := command.unpack(begin.ctx, policy)
		if cause := context.Cause(begin.ctx); cause != nil {
			return stopped(cause, "the image was unpacked", policy, command), nil
		}
		if err != nil {
			return nil, err
		}
	}
	var told []byte
	if policy.Isolation == isolationWASM {
		command.modules = command.compile(begin.ctx, policy, begin.listen)
		io.Told = func(text []byte) { told = append(told, text...) }
	}
	g, why := tierUserNS, downgrade{}
	if command.like != nil {
		g, why = command.like.tier, command.like.why
	}
	for ; ; begin.rearm() {
		s, r, err := prepare(begin, policy, command, io, g, why)
		if err != nil {
			return nil, err
		}
		if r == nil {
			if planned != nil && !s.ready.Failed() {
				planned(s.plan)
			}
			digest := func() string { return "" } // of a box, whose reports come later
			if !command.Boxed {
				made := make(chan string, 1)
				go func() { made <- policy.Digest() }() // while the child builds
				digest = func() string { return <-made }
			}
			if r = do(s); r != nil {
				r.PolicyDigest = digest()
				if io.Told != nil && s.plan.engine != nil {
					heard(r, told)
				}
			}
		}
		if r == nil {
			return nil, nil
		}
		var ok bool
		if command.ground.InMemory() { // what it was to stand on is used up
			return explained(r, policy, command), nil
		}
		if g, why, ok = g.next(host.Current(), r.SetupError, policy.Filesystem.Rootfs != ""); !ok {
			return explained(r, policy, command), nil
		}
	}
}

// prepare is one attempt, on one tier. A plan can take as long as the files that it is about
// want: when the caller doesn't wait for it any longer, nobody does, and it is left to itself.
func prepare(begin *startupSignals, policy *config.Policy, command *Command, io supervisor.Options, g tier, why downgrade) (*set, *status.Report, error) {
	ready := supervisor.Prepare(g.namespaces(policy), io)
	if !command.Boxed {
		ready.Connect(command.TTY)
	}
	boxes, made, plans := make(chan *Plan, 1), make(chan groups, 1), make(chan madePlan, 1)
	defer close(made)                                   // for a plan that nobody waits for
	defer time.AfterFunc(slowPlan, begin.listen).Stop() // else when the child has all that it needs
	go func() {
		linux.GrowStack()
		own := *command // the caller has it when this one is left
		p, err := newPlan(policy, &own, func(p *Plan) groups { boxes <- p; return <-made }, g, why)
		plans <- madePlan{p, err}
	}()
	var group *cgroup.Group
	var p *Plan
	var err error
	for waits := true; waits; {
		select {
		case box := <-boxes:
			have := noGroupWithoutNS(policy)
			if g != tierNoNS {
				if command.ground == nil {
					ready.Begin(&box.Plan)
				}
				group, have = makeGroup(policy, ready.PID)
			}
			made <- have
		case m := <-plans:
			p, err, waits = m.plan, m.err, false
		case <-begin.ctx.Done():
			waits = false
		}
	}
	cause := begin.finish()
	if err == nil && cause == nil {
		return &set{ready, p, group}, nil, nil
	}
	ready.Discard()
	if group != nil {
		_ = group.Remove()
	}
	if cause != nil {
		return nil, stopped(cause, "the run was planned", policy, command), nil
	}
	if cant, ok := errors.AsType[*config.Unenforceable](err); ok {
		return nil, backend.Refused(Name, cant, specOf(policy, command)), nil
	}
	return nil, nil, err
}

// slowPlan is when somebody may want to end a plan that takes that long.
const slowPlan = 3 * time.Millisecond

// madePlan is what came of making one.
type madePlan struct {
	plan *Plan
	err  error
}

func failureOf(e *status.SetupError) host.Failure {
	return host.Failure{Step: e.Step, Op: e.Op, Path: e.Path, Errno: syscall.Errno(e.Errno)}
}

// fewTasks says whether a set-up failed for want of another process or thread: of the child's runtime nobody hears that, and below
// so many for the caller's user it is the likely cause.
func fewTasks(e *status.SetupError) bool {
	if e.Errno != 0 {
		return e.Op == "clone" && syscall.Errno(e.Errno) == syscall.EAGAIN
	}
	const few = 64
	var tasks unix.Rlimit
	return e.Step == "init" && unix.Getrlimit(unix.RLIMIT_NPROC, &tasks) == nil && tasks.Cur < few && os.Getuid() != 0
}

// explained adds to a failed set-up what this host has to say about it.
func explained(r *status.Report, policy *config.Policy, command *Command) *status.Report {
	if e := r.SetupError; e != nil && e.Hint == "" && fewTasks(e) {
		e.Hint = "the user may have no more processes and threads, of which a run takes some 24: ulimit -u 100 gives it more"
	}
	if e := r.SetupError; e != nil && e.Errno != 0 {
		why := diagnose(host.Current(), e)
		reason, remedy := why.reason, why.hint
		if e.Op == "seccomp" && syscall.Errno(e.Errno) == syscall.EBUSY {
			reason = status.ListenerTaken
			remedy = "a program above this one listens to its system calls, and there can be one: run it outside of that sandbox; or --allow-partial network goes on without a network"
		}
		if e.Op == "seccomp" && syscall.Errno(e.Errno) == syscall.EMFILE {
			reason, remedy = "", "the limit on open files is too low for the command to be started: --file-descriptors sets another"
		}
		if e.Op != "seccomp" && syscall.Errno(e.Errno) == syscall.EMFILE {
			remedy = hint.FewDescriptors
		}
		if syscall.Errno(e.Errno) == syscall.EFBIG { // a few small files are made for a run; the caller's limit holds for them, too
			remedy = "this process may not write files of that size: ulimit -f 64 lets it; --max-file-size bounds those of the command alone"
		}
		if e.Step == "publish" {
			switch syscall.Errno(e.Errno) {
			case syscall.EADDRINUSE:
				remedy = "something listens on that port already: --publish takes another in front of the colon"
			case syscall.EACCES:
				remedy = "low ports are root's to listen on: --publish takes another in front of the colon, such as 8080"
			}
		}
		if e.Op == handoff.OpNested {
			reason, remedy = status.OverlayNestedMount, nestedHint
		}
		if e.Hint == "" {
			e.Hint = remedy
		}
		if reason != "" {
			for c, entry := range r.Enforced {
				if entry.Enabled && entry.FallbackReason == "" {
					entry.FallbackReason = reason
					r.Enforced[c] = entry
				}
			}
		}
	}
	return backend.Complete(r, specOf(policy, command))
}
