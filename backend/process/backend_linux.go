package process

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/backend/process/internal/boxfiles"
	"github.com/confine-run/confine/backend/process/internal/layers"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor"
)

// Name is the backend's, as reports have it.
const Name = "linux-process"

// Backend builds sandboxes of processes.
type Backend struct{}

func (Backend) Name() string { return Name }

// boxPlan is a plan with what it is made from.
type boxPlan struct {
	*Plan
	spec *backend.Spec
}

// Plan computes what will be done on the highest tier. What the host gives is tried when the sandbox is built.
func (Backend) Plan(_ context.Context, s *backend.Spec) (backend.Plan, error) {
	have := lookForGroup(s.Policy)
	p, err := newPlan(s.Policy, commandOf(s), func(*Plan) groups { return have }, tierUserNS, downgrade{})
	if p == nil {
		return nil, err
	}
	return boxPlan{p, s}, err
}

// Unpack makes a tree of the image that a policy names, if it names one and nobody did before.
func Unpack(ctx context.Context, s *backend.Spec) error {
	c := commandOf(s)
	if !c.hasImage(s.Policy) {
		return nil
	}
	return c.unpack(ctx, s.Policy)
}

// Begins is where a command starts whose directory nobody says, and its PATH.
func (p boxPlan) Begins() (dir, path string) { return p.Exec.Dir, config.LookupEnv(p.Exec.Env, "PATH") }

func commandOf(s *backend.Spec) *Command {
	c := &Command{Argv: s.Argv, Dir: s.Dir, Environ: s.Environ, ConfigFiles: s.ConfigFiles, Ceiling: s.Ceiling, CeilingDir: s.CeilingDir, Shape: s.Shape}
	if len(c.Argv) == 0 {
		c.Argv = []string{"sh"} // whose tool chain is the system
	}
	return c
}

// specOf is as much of a Spec as a report needs.
func specOf(policy *config.Policy, c *Command) *backend.Spec {
	return &backend.Spec{Policy: policy, Argv: c.Argv, Environ: c.Environ}
}

func (p boxPlan) Ledger() status.Ledger { return status.Ledger(p.Plan.Ledger) }

// Key leaves out what is about one process, and what is only said: the ledger and the notices. What every process of the
// sandbox begins with, its environment, filter and limits, counts.
func (p boxPlan) Key() [32]byte {
	box := p.Plan.Plan
	box.Ledger, box.Notices, box.Box.TempDir = nil, nil, ""
	e := &box.Exec
	e.ID, e.Argv, e.Last, e.TTY, e.Rows, e.Cols, e.Modes = 0, nil, false, [3]bool{}, 0, 0, nil
	if e.SeccompPass != 0 {
		e.SeccompPass = 1 // that there is such a number; it is another each time
	}
	from := ""
	if p.spec.From != nil {
		from = p.spec.From.ID()
	}
	return backend.KeyOf(box, *e, from)
}

func (p boxPlan) Ask(q config.Ask) (config.Answer, error) {
	r := p.spec.Resolved
	if r == nil {
		r = &config.Resolved{Policy: *p.spec.Policy}
	}
	return p.Plan.Ask(r, q)
}

var unconnected = supervisor.Options{Stdin: -1, Stdout: -1, Stderr: -1}

// Build builds what a plan of this backend describes. It plans anew, because a plan names files as they were: if the caller
// has made a protected path since, an old plan would have it removed as something that the sandbox made. That takes no
// time, since the init is being started meanwhile.
func (b Backend) Build(ctx context.Context, p backend.Plan) (backend.Sandbox, error) {
	box, r, err := b.Open(ctx, p.(boxPlan).spec)
	if r != nil {
		return nil, &backend.BuildError{Report: r}
	}
	return box, err
}

// Open plans a sandbox, once, while its init is being started, and has that build it.
func (Backend) Open(ctx context.Context, s *backend.Spec) (backend.Sandbox, *status.Report, error) {
	g, err := groundOf(ctx, s.From)
	if err != nil {
		return nil, nil, err
	}
	box, r, err := openOn(ctx, s, g, nil)
	if box == nil {
		return nil, r, err
	}
	return box, nil, nil
}

// sandbox is one that was built. When it is restored or forked another box goes on in its place.
type sandbox struct {
	life context.Context
	root *boxfiles.Root

	// work is held for writing while it is written down or replaced: nobody starts meanwhile.
	work    sync.RWMutex
	store   *layers.Store       // its own snapshots; nil: there was none yet. Guarded by work
	earlier []*status.BoxReport // of the boxes that it was; guarded by work
	failed  *status.SetupError  // why it could not go on in another box; guarded by work
	unused  func()              // ends what began ahead for a fork; nil: nothing. Guarded by work

	changing sync.Mutex // of the network, by one at a time

	mu sync.Mutex
	standing
	wanted
	replacing bool // the end of the box is none of the sandbox; guarded by mu

	over   chan struct{} // closed when it has ended
	end    func()        // closes it
	ending context.Context
	stop   context.CancelFunc // what is under way, since it is being closed

	closed sync.Once
	report *status.BoxReport
}

// wanted is what the sandbox is to be by now. Guarded by mu of its sandbox.
type wanted struct {
	spec *backend.Spec
	// digest is the policy's, made once: that takes a tenth of a short process's time.
	digest func() string
}

func newWanted(s *backend.Spec) wanted {
	if s.PolicyDigest != "" {
		return wanted{s, func() string { return s.PolicyDigest }}
	}
	w := wanted{s, sync.OnceValue(s.Policy.Digest)}
	go w.digest()
	return w
}

// standing is a box, and what it stands on. Guarded by mu of its sandbox.
type standing struct {
	box     *supervisor.Sandbox
	plan    *Plan
	ledger  status.Ledger // by now
	changed bool          // its network was
	ground  *layers.Ground
	started bool // somebody was, who may have written
}

// openOn builds a sandbox on what others have left, which is its own then. like is the plan of another sandbox, where it is
// known on which tier there are any.
func openOn(ctx context.Context, s *backend.Spec, g *layers.Ground, like *Plan) (*sandbox, *status.Report, error) {
	at, r, err := build(ctx, s, g, like, 0)
	if at == nil {
		g.Drop()
		return nil, r, err
	}
	box := &sandbox{
		life: ctx, wanted: newWanted(s), standing: *at, root: boxfiles.NewRoot(rootOf(at)), over: make(chan struct{}),
	}
	box.end = sync.OnceFunc(func() { close(box.over) })
	box.ending, box.stop = context.WithCancel(context.Background())
	go box.await(at.box)
	return box, nil, nil
}

// build builds a box. used is what CPU time boxes before it have used, in whose place it goes on.
func build(ctx context.Context, s *backend.Spec, g *layers.Ground, like *Plan, used time.Duration) (*standing, *status.Report, error) {
	command := commandOf(s)
	command.Boxed, command.ground, command.like, command.used = true, g, like, used
	box, made, r, err := Open(ctx, s.Policy, command, unconnected)
	if err != nil || r != nil {
		return nil, r, err
	}
	return &standing{box: box, plan: made, ground: g, ledger: made.Plan.Ledger}, nil, nil
}

// await tells when a box has ended in whose place no other goes on.
func (s *sandbox) await(box *supervisor.Sandbox) {
	<-box.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.box == box && !s.replacing {
		s.end()
	}
}

// now is the box that there is, with what is known of it.
func (s *sandbox) now() standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.standing
}

// asked is what it is to be by now.
func (s *sandbox) asked() *backend.Spec {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spec
}

// rootOf gives what opens the root directory of a box. There is none without a mount namespace: those files would be the caller's.
func rootOf(at *standing) func() (int, error) {
	if at.plan.tier == tierNoNS {
		return func() (int, error) { return -1, errors.ErrUnsupported }
	}
	return at.box.Root
}

func (s *sandbox) Files() backend.Files {
	c := &s.now().plan.Box
	return boxfiles.Files{Root: s.root, UID: c.UID, GID: c.GID}
}

func (s *sandbox) Start(ctx context.Context, e *backend.Exec) (backend.Process, error) {
	if err := e.Check(ctx); err != nil {
		return nil, err
	}
	s.work.RLock()
	defer s.work.RUnlock()
	s.mu.Lock()
	s.started = true
	s.mu.Unlock()
	at := s.now()
	x := at.plan.Exec
	x.Argv, x.Env = e.Argv, withEnv(x.Env, e.Env)
	if e.Dir != "" {
		if err := backend.DirIn(s.Files(), e.Dir); err != nil {
			return nil, err
		}
		x.Dir = e.Dir
		x.Env = withEnv(x.Env, []string{"PWD=" + e.Dir})
	}
	x.TTY = [3]bool{}
	if e.TTY != nil {
		x.TTY, x.Rows, x.Cols = [3]bool{true, true, true}, e.TTY.Rows, e.TTY.Cols
	}
	w, err := connect(e)
	if err != nil {
		return nil, err
	}
	var told []byte
	var why error // what the module was compiled to isn't kept
	if at.plan.engine != nil {
		w.options.Told = func(text []byte) { told = append(told, text...) }
		var entry string
		entry, why = s.entryFor(ctx, at.plan, e.Argv[0], x.Dir)
		x.Argv = at.plan.moduleArgs(e.Argv, x.Dir, entry)
	}
	if e.Limits.CPU > 0 {
		x.Rlimits = behindCPU(x.Rlimits, e.Limits.CPU)
	}
	running := &process{wires: w}
	w.options.Gone = func() {
		if !running.awaited.Load() { // else whoever waits makes it
			go running.report()
		}
	}
	command := commandOf(s.asked())
	command.Argv = e.Argv
	started := make(chan func() bool, 1)
	running.report = sync.OnceValue(func() *status.Report {
		defer (<-started)()
		r := running.p.Wait(context.Background())
		w.close()
		if at.plan.engine != nil {
			heard(r, told)
		}
		if why != nil {
			plan.Ledger(r.Enforced).Note(status.Isolation, notKept(why))
		}
		s.mu.Lock()
		w := s.wanted
		s.mu.Unlock()
		r.PolicyDigest = w.digest()
		enterOwn(r, w.spec.Policy, &e.Limits)
		return explained(r, w.spec.Policy, command)
	})
	p, failed := at.box.Start(&x, w.options, at.plan.judge(), at.plan.refuses)
	if failed != nil {
		w.close()
		if failed.Errno == unix.ESRCH {
			return nil, backend.ErrClosed
		}
		return nil, failed
	}
	running.p = p
	started <- context.AfterFunc(ctx, func() { _ = p.Signal(unix.SIGKILL) })
	return running, nil
}

// Ready waits until its init has shown that it waits for work.
func (s *sandbox) Ready(ctx context.Context) error { return s.now().box.Ready(ctx) }
func (s *sandbox) Ledger() status.Ledger           { return s.now().ledger }
func (s *sandbox) Done() <-chan struct{}           { return s.over }

func (s *sandbox) Close() (*status.BoxReport, error) {
	s.closed.Do(s.close)
	return backend.Closed(s.report)
}

func (s *sandbox) close() {
	s.stop()
	s.work.Lock()
	defer s.work.Unlock()
	s.root.Close()
	at := s.now()
	r := sum(append(s.earlier, at.box.Close()))
	if r.SetupError == nil {
		r.SetupError = s.failed
	}
	s.end()
	if s.unused != nil {
		s.unused()
	}
	at.ground.Drop()
	if s.store != nil {
		s.store.Drop()
	}
	s.mu.Lock()
	w := s.wanted
	s.mu.Unlock()
	r.PolicyDigest = w.digest()
	s.report = backend.CompleteBox(r, w.spec)
}

// process is one in a sandbox.
type process struct {
	p       *supervisor.Process
	wires   *wires
	awaited atomic.Bool
	report  func() *status.Report // made once
}

func (p *process) Signal(sig os.Signal) error {
	n, err := backend.SignalOf(sig)
	if err != nil {
		return err
	}
	if !p.p.Signal(n) {
		return os.ErrProcessDone
	}
	return nil
}

func (p *process) Resize(size backend.WinSize) error { return p.p.Resize(size.Rows, size.Cols) }

func (p *process) Wait() *status.Report {
	p.awaited.Store(true)
	return p.report()
}

// Run builds a sandbox and starts its only process.
func (b Backend) Run(ctx context.Context, s *backend.Spec, e *backend.Exec) (backend.Process, error) {
	command := commandOf(s)
	command.Argv, command.Env = e.Argv, e.Env
	g, err := groundOf(ctx, s.From)
	if err != nil {
		return nil, err
	}
	command.ground = g
	policy := *s.Policy
	if e.Dir != "" {
		policy.Filesystem.Chdir = e.Dir
	}
	if e.TTY != nil {
		command.TTY, command.Rows, command.Cols = [3]bool{true, true, true}, e.TTY.Rows, e.TTY.Cols
	}
	w, err := connect(e)
	if err != nil {
		g.Drop()
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &run{cancel: cancel, signals: make(chan os.Signal, 8), done: make(chan struct{})}
	w.options.Signals = r.signals
	w.options.Using = func(now func() (supervisor.Now, error)) { r.usage.Store(&now) }
	w.options.Attempt = w.attempted
	w.options.Resizer = func(resize func(rows, cols uint16) error) { r.resize.Store(&resize) }
	ready := make(chan error, 2)
	go func() {
		defer close(r.done)
		defer g.Drop()
		defer cancel()
		var err error
		r.report, err = Execute(ctx, &policy, command, w.options, func(*Plan) { ready <- nil })
		w.close()
		ready <- err
	}()
	if err := <-ready; err != nil {
		<-r.done
		return nil, err
	}
	return r, nil
}

func (s *sandbox) Usage() (backend.Usage, error) {
	now, err := s.now().box.Usage()
	if errors.Is(err, os.ErrProcessDone) {
		err = backend.ErrClosed
	}
	return backend.Usage(now), err
}

func (s *sandbox) Traffic() *status.Traffic { return s.now().box.Traffic() }

func (s *sandbox) Tell(tell func(backend.Event)) {
	s.now().box.Tell(func(v status.Violation) { tell(backend.Event{Denied: &v}) }, func(c status.Capability) { tell(backend.Event{Limit: c}) })
}

func (p *process) Usage() (backend.Usage, error) {
	now, err := p.p.Usage()
	return backend.Usage(now), err
}
