package process

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/backend/process/internal/boxfiles"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor"
)

// Name is the backend's, as reports have it.
const Name = "linux-process"

// Backend builds sandboxes of processes.
type Backend struct{}

// Name is in every report.
func (Backend) Name() string { return Name }

// boxPlan is a plan with what it is made from.
type boxPlan struct {
	*Plan
	spec *backend.Spec
}

// Plan computes what will be done on the highest tier. What the host gives is tried when the sandbox is built.
func (Backend) Plan(_ context.Context, s *backend.Spec) (backend.Plan, error) {
	have := lookForGroup(s.Policy)
	p, err := newPlan(s.Policy, commandOf(s), func() groups { return have }, tierUserNS, downgrade{})
	if p == nil {
		return nil, err
	}
	return boxPlan{p, s}, err
}

func commandOf(s *backend.Spec) *Command {
	c := &Command{Argv: s.Argv, Dir: s.Dir, Environ: s.Environ, ConfigFiles: s.ConfigFiles, Ceiling: s.Ceiling, CeilingDir: s.CeilingDir}
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

// Key leaves out what is about one process, and what is only said: the ledger and the notices.
func (p boxPlan) Key() [32]byte {
	box := p.Plan.Plan
	box.Exec, box.Ledger, box.Notices, box.Box.TempDir = handoff.Exec{}, nil, nil, ""
	text, err := json.Marshal(struct {
		Plan plan.Plan
		Env  []string
		Dir  string
	}{box, p.Plan.Exec.Env, p.Plan.Exec.Dir})
	if err != nil {
		panic(err) // plain data
	}
	return sha256.Sum256(text)
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
	command := commandOf(s)
	command.Boxed = true
	box, made, r, err := Open(ctx, s.Policy, command, unconnected)
	if err != nil || r != nil {
		return nil, r, err
	}
	return &sandbox{box: box, plan: made, spec: s, root: rootOf(box, made.tier)}, nil, nil
}

// sandbox is one that was built.
type sandbox struct {
	box  *supervisor.Sandbox
	plan *Plan
	spec *backend.Spec
	root *boxfiles.Root

	closed sync.Once
	report *status.BoxReport
}

// rootOf gives the root directory of a sandbox, and none where there is no mount namespace: those files would be the caller's.
func rootOf(box *supervisor.Sandbox, t tier) *boxfiles.Root {
	if t == tierNoNS {
		return boxfiles.NewRoot(func() (int, error) { return -1, errors.ErrUnsupported })
	}
	return boxfiles.NewRoot(box.Root)
}

// Files are those that processes inside see.
func (s *sandbox) Files() backend.Files {
	c := &s.plan.Box
	return boxfiles.Files{Root: s.root, UID: c.UID, GID: c.GID}
}

// Start starts a process.
func (s *sandbox) Start(ctx context.Context, e *backend.Exec) (backend.Process, error) {
	if len(e.Argv) == 0 {
		return nil, &config.UsageError{Msg: "no command given"}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	x := s.plan.Exec
	x.Argv, x.Env = e.Argv, withEnv(x.Env, e.Env)
	if e.Dir != "" {
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
	p, failed := s.box.Start(&x, w.options, s.plan.judge(), s.plan.refuses)
	if failed != nil {
		w.close()
		if failed.Errno == unix.ESRCH {
			return nil, backend.ErrClosed
		}
		return nil, failed
	}
	command := commandOf(s.spec)
	command.Argv = e.Argv
	running := &process{p: p, wires: w}
	running.report = sync.OnceValue(func() *status.Report {
		defer context.AfterFunc(ctx, func() { _ = p.Signal(unix.SIGKILL) })()
		r := p.Wait(context.Background())
		w.close()
		return explained(r, s.spec.Policy, command)
	})
	go running.report()
	return running, nil
}

// Ledger says what it was built to enforce.
func (s *sandbox) Ledger() status.Ledger { return s.plan.Plan.Ledger }

// Done is closed when it has ended.
func (s *sandbox) Done() <-chan struct{} { return s.box.Done() }

// Close ends everybody inside.
func (s *sandbox) Close() (*status.BoxReport, error) {
	s.closed.Do(s.close)
	if e := s.report.SetupError; e != nil {
		return s.report, errors.New(e.Error)
	}
	return s.report, nil
}

func (s *sandbox) close() {
	s.root.Close()
	r := s.box.Close()
	whole := backend.Complete(&status.Report{Enforced: r.Enforced, LimitsHit: r.LimitsHit, Violations: r.Violations}, s.spec)
	r.Version, r.Profile, r.PolicyDigest, r.Host = whole.Version, whole.Profile, whole.PolicyDigest, whole.Host
	r.Enforced, r.LimitsHit, r.Violations = whole.Enforced, whole.LimitsHit, whole.Violations
	s.report = r
}

// Snapshot is not supported: processes can't be written down.
func (s *sandbox) Snapshot(context.Context) (backend.Snapshot, error) {
	return nil, errors.ErrUnsupported
}

// Restore is not supported either.
func (s *sandbox) Restore(context.Context, backend.Snapshot) error { return errors.ErrUnsupported }

// process is one in a sandbox.
type process struct {
	p      *supervisor.Process
	wires  *wires
	report func() *status.Report
}

func (p *process) Signal(sig os.Signal) error {
	n, err := signalOf(sig)
	if err != nil {
		return err
	}
	if !p.p.Signal(n) {
		return os.ErrProcessDone
	}
	return nil
}

func (p *process) Resize(size backend.WinSize) error { return p.p.Resize(size.Rows, size.Cols) }

func (p *process) Wait() *status.Report { return p.report() }

// Run builds a sandbox and starts its only process.
func (b Backend) Run(ctx context.Context, s *backend.Spec, e *backend.Exec) (backend.Process, error) {
	command := commandOf(s)
	command.Argv, command.Env = e.Argv, e.Env
	policy := *s.Policy
	if e.Dir != "" {
		policy.Filesystem.Chdir = e.Dir
	}
	if e.TTY != nil {
		command.TTY, command.Rows, command.Cols = [3]bool{true, true, true}, e.TTY.Rows, e.TTY.Cols
	}
	w, err := connect(e)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &run{cancel: cancel, signals: make(chan os.Signal, 8), done: make(chan struct{})}
	w.options.Signals = r.signals
	w.options.Resizer = func(resize func(rows, cols uint16) error) { r.resize.Store(&resize) }
	ready := make(chan error, 2)
	go func() {
		defer close(r.done)
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

func (s *sandbox) Usage() (backend.Usage, error) { return backend.Usage{}, errors.ErrUnsupported }

func (s *sandbox) Changes(context.Context, string) (*status.Changes, error) {
	return nil, errors.ErrUnsupported
}

func (s *sandbox) Network(context.Context, *config.Network) error { return errors.ErrUnsupported }

func (s *sandbox) Fork(context.Context) (backend.Sandbox, error) { return nil, errors.ErrUnsupported }

func (p *process) Usage() (backend.Usage, error) { return backend.Usage{}, errors.ErrUnsupported }
