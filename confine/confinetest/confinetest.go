// Package confinetest is a backend that runs nothing: for tests of programs that use package confine.
//
//	mock := &confinetest.Backend{Handle: confinetest.Script(
//		confinetest.Step{Args: []string{"python3"}, Stdout: "42\n"},
//		confinetest.Step{Result: confinetest.Result{Status: status.Timeout}},
//	)}
//	box, err := confine.Open(ctx, policy, confine.WithBackend(mock))
//
// Processes are functions, files are in memory, snapshots and forks are copies of them. It passes the same suite as backends that
// confine, and holds nothing: its ledger says "mock".
package confinetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/status"
)

// Name is in every report.
const Name = "mock"

// Handler plays a process. It is called in a goroutine of its own, and what it does after c.Context has ended counts no more.
type Handler func(c *Call) Result

// Call is what a process was started with.
type Call struct {
	Context        context.Context // ends with the process's time, by a signal, and with the sandbox
	Args, Env      []string
	Dir            string
	Stdin          io.Reader // never nil
	Stdout, Stderr io.Writer // likewise
	TTY            *backend.WinSize
	Files          backend.Files
	// Use says what the process uses from now on, Tell that something happens to it, as its caller is told.
	Use  func(backend.Usage)
	Tell func(backend.Event)
}

// Result is how a process ends: by its exit code, or as Status says.
type Result struct {
	Code   int
	Status status.Status // "": by Code
	Reason string        // "": a sentence about the rest
}

// Backend is the mock. Its fields are not changed any more once it is used.
type Backend struct {
	// Handle plays all processes; nil: each ends with 0.
	Handle Handler
	// PlanErr, BuildErr and StartErr are what those steps fail with.
	PlanErr, BuildErr, StartErr error
	// BuildDelay and StartDelay are how long they take.
	BuildDelay, StartDelay time.Duration
	// Weak are capabilities that can't be enforced.
	Weak []status.Capability
	// SnapshotErr, RestoreErr, ForkErr and ChangesErr are what those fail with; of forks of one sandbox, those after the first ForksWell.
	SnapshotErr, RestoreErr, ForkErr, ChangesErr error
	ForksWell                                    int
	// SnapshotDelay is how long a snapshot, and a fork, takes.
	SnapshotDelay time.Duration

	kept kept
}

// Step is what one process does.
type Step struct {
	Args           []string // it has to begin with these
	Stdout, Stderr string
	Delay          time.Duration
	Result
}

// Script plays one step for each process, in their order. A process that isn't the one of its step, and one after the
// last step, is an INTERNAL_ERROR.
func Script(steps ...Step) Handler {
	var mu sync.Mutex
	next := 0
	return func(c *Call) Result {
		mu.Lock()
		at := next
		next++
		mu.Unlock()
		if at >= len(steps) {
			return Result{Status: status.InternalError, Reason: fmt.Sprintf("the script has %d steps, and this is process %d: %q", len(steps), at+1, c.Args)}
		}
		s := &steps[at]
		if len(c.Args) < len(s.Args) || !slices.Equal(c.Args[:len(s.Args)], s.Args) {
			return Result{Status: status.InternalError, Reason: fmt.Sprintf("step %d is for %q, and this is %q", at+1, s.Args, c.Args)}
		}
		wait(c.Context, s.Delay)
		_, _ = io.WriteString(c.Stdout, s.Stdout)
		_, _ = io.WriteString(c.Stderr, s.Stderr)
		return s.Result
	}
}

func wait(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// Name is "mock".
func (b *Backend) Name() string { return Name }

type plan struct {
	spec   *backend.Spec
	ledger status.Ledger
}

// Plan takes everything that a policy asks for as enforced, but for what is weak.
func (b *Backend) Plan(_ context.Context, s *backend.Spec) (backend.Plan, error) {
	if b.PlanErr != nil {
		return nil, b.PlanErr
	}
	p := plan{s, status.Ledger{}}
	for _, name := range config.Capabilities() {
		c := status.Capability(name)
		weak := slices.Contains(b.Weak, c)
		p.ledger[c] = status.Enforcement{Enabled: c != status.Isolation, Effective: !weak, Mechanism: Name}
	}
	return p, config.Accept(s.Policy, p.ledger)
}

func (p plan) Ledger() status.Ledger { return p.ledger }

func (p plan) Key() [32]byte { return backend.KeyOf(p.spec.Policy) }

// Ask is answered with yes.
func (p plan) Ask(config.Ask) (config.Answer, error) {
	return config.Answer{Answer: config.AnswerYes, Reason: Name}, nil
}

// Build gives a sandbox of nothing but memory.
func (b *Backend) Build(ctx context.Context, p backend.Plan) (backend.Sandbox, error) {
	wait(ctx, b.BuildDelay)
	if b.BuildErr != nil {
		return nil, b.BuildErr
	}
	own := p.(plan)
	lower, err := lowerOf(own.overlay())
	if err != nil {
		return nil, err
	}
	files := newFiles(own.spec.Policy.Filesystem.Mounts)
	maps.Copy(files.all, lower)
	if own.spec.From != nil {
		from, err := own.filesOf(own.spec.From)
		if err != nil {
			return nil, err
		}
		files.become(from)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return newSandbox(ctx, b, own, files, lower), nil
}

func newSandbox(ctx context.Context, b *Backend, p plan, files *files, lower map[string]*node) *sandbox {
	s := &sandbox{backend: b, plan: p, policy: p.spec.Policy, files: files, lower: lower, built: time.Now(), running: map[*process]bool{}}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	return s
}

type sandbox struct {
	backend *Backend
	plan    plan
	files   *files
	lower   map[string]*node // of the overlay, and the directories above
	built   time.Time
	ctx     context.Context
	cancel  context.CancelCauseFunc

	mu      sync.Mutex
	policy  *config.Policy // by now
	used    time.Duration  // of CPU, by those that have ended
	running map[*process]bool
	report  *status.BoxReport // of one that is being closed
	forks   int               // that were asked for
	closed  sync.Once
}

func (s *sandbox) Ledger() status.Ledger { return s.plan.ledger }

func (s *sandbox) Files() backend.Files { return s.files }

func (s *sandbox) Start(ctx context.Context, e *backend.Exec) (backend.Process, error) {
	if len(e.Argv) == 0 {
		return nil, &config.UsageError{Msg: "no command given"}
	}
	wait(ctx, s.backend.StartDelay)
	if err := errors.Join(s.backend.StartErr, ctx.Err()); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.report != nil || s.ctx.Err() != nil {
		return nil, backend.ErrClosed
	}
	if e.Dir != "" {
		if err := backend.DirIn(s.files, e.Dir); err != nil {
			return nil, err
		}
	}
	p := newProcess(ctx, s, e)
	s.running[p] = true
	return p, nil
}

// end ends all processes.
func (s *sandbox) end(cause error) {
	s.mu.Lock()
	all := s.running
	s.running = map[*process]bool{}
	s.mu.Unlock()
	for p := range all {
		p.cancel(cause)
		p.Wait()
	}
}

func (s *sandbox) Done() <-chan struct{} { return s.ctx.Done() }

func (s *sandbox) Close() (*status.BoxReport, error) {
	defer s.cancel(signalled(syscall.SIGKILL))
	s.closed.Do(func() {
		s.mu.Lock()
		p := s.policy
		s.mu.Unlock()
		report := &status.BoxReport{Version: status.ReportVersion, Backend: Name, Profile: p.Profile, PolicyDigest: p.Digest(),
			DurationMS: time.Since(s.built).Milliseconds(), LimitsHit: []string{}, Violations: []status.Violation{}, Enforced: s.plan.ledger}
		s.mu.Lock()
		s.report = report
		s.mu.Unlock()
		s.end(signalled(syscall.SIGKILL))
		report.Changes = s.changed()
		s.files.close()
	})
	return s.report, nil
}
