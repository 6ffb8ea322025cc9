package task

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/outcome"
)

// Box is a sandbox.
type Box struct {
	name   string
	spec   *backend.Spec
	ledger status.Ledger
	sys    System
	digest func() string
	built  time.Time
	over   chan struct{} // closed when it has ended

	mu      sync.Mutex
	tasks   map[*Task]bool
	started bool // somebody was
	closing bool
	cause   status.Cause // of an end before it was closed
	detail  string
	reached map[status.Capability]bool
	tell    func(backend.Event)

	closed sync.Once
	report *status.BoxReport
}

// New is a sandbox that was built as the ledger says. It ends with ctx.
func New(ctx context.Context, name string, s *backend.Spec, l status.Ledger, sys System) *Box {
	b := &Box{
		name: name, spec: s, ledger: l, sys: sys, built: time.Now(), over: make(chan struct{}),
		digest: sync.OnceValue(s.Policy.Digest), tasks: map[*Task]bool{}, reached: map[status.Capability]bool{},
	}
	context.AfterFunc(ctx, func() { b.End(status.CauseContext, "the sandbox's context has ended") })
	return b
}

func (b *Box) Start(ctx context.Context, e *backend.Exec) (backend.Process, error) {
	if err := e.Check(ctx); err != nil {
		return nil, err
	}
	if e.Dir != "" {
		if err := backend.DirIn(b.sys.Files(), e.Dir); err != nil {
			return nil, err
		}
	}
	t := newTask(b, e)
	b.mu.Lock()
	closing := b.closing
	if !closing {
		b.tasks[t], b.started = true, true
	}
	b.mu.Unlock()
	if closing {
		return nil, backend.ErrClosed
	}
	t.begin(ctx)
	return t, nil
}

// running are the processes that there are.
func (b *Box) running() []*Task {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.tasks))
}

// End ends everybody, for a cause that is about all of them, and the sandbox with them. The first one counts.
func (b *Box) End(cause status.Cause, detail string) {
	b.mu.Lock()
	if b.cause != "" || b.closing {
		b.mu.Unlock()
		return
	}
	b.cause, b.detail = cause, detail
	b.mu.Unlock()
	for _, t := range b.running() {
		t.because(cause, detail)
	}
	go func() { _, _ = b.Close() }()
}

// LookAtDisk ends everybody where what was written is more than may be; 0: there is no limit.
func (b *Box) LookAtDisk(bytes, files, mostBytes, mostFiles int64) {
	switch {
	case mostBytes > 0 && bytes > mostBytes:
		b.End(status.CauseDisk, fmt.Sprintf("disk limit of %d bytes reached: %d bytes", mostBytes, bytes))
	case mostFiles > 0 && files > mostFiles:
		b.End(status.CauseDisk, fmt.Sprintf("limit of %d files reached: %d files", mostFiles, files))
	}
}

// Reached: a limit of all refused something, and ended nobody.
func (b *Box) Reached(c status.Capability) {
	b.mu.Lock()
	first, tell := !b.reached[c], b.tell
	b.reached[c] = true
	tasks := slices.Collect(maps.Keys(b.tasks))
	b.mu.Unlock()
	for _, t := range tasks {
		t.reach(c)
	}
	if first && tell != nil {
		tell(backend.Event{Limit: c})
	}
}

// Denied: something was refused that some process inside asked for.
func (b *Box) Denied(v status.Violation) {
	b.mu.Lock()
	tell := b.tell
	b.mu.Unlock()
	for _, t := range b.running() {
		t.tell(backend.Event{Denied: &v})
	}
	if tell != nil {
		tell(backend.Event{Denied: &v})
	}
}

// Traffic is what went over its network, where somebody sees that.
func (b *Box) Traffic() *status.Traffic {
	if seer, ok := b.sys.(Seer); ok {
		return seer.Traffic()
	}
	return nil
}

func (b *Box) Tell(tell func(backend.Event)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tell = tell
}

func (b *Box) Ledger() status.Ledger {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.ledger)
}

// Amend writes into the ledger what turns out only when a process is started.
func (b *Box) Amend(write func(plan.Ledger)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	write(plan.Ledger(b.ledger))
}

func (b *Box) Files() backend.Files { return b.sys.Files() }

func (b *Box) Usage() (backend.Usage, error) {
	select {
	case <-b.over:
		return backend.Usage{}, backend.ErrClosed
	default:
		return b.sys.Usage()
	}
}

// Changes are those of overlays until now. Nothing is kept.
func (b *Box) Changes(_ context.Context, keep string) (*status.Changes, error) {
	if keep != "" {
		return nil, errors.ErrUnsupported
	}
	return b.sys.Changes(), nil
}

// Nothing holds a network that could be changed, and nothing is written down.

func (b *Box) Network(context.Context, *config.Network) error     { return errors.ErrUnsupported }
func (b *Box) Snapshot(context.Context) (backend.Snapshot, error) { return nil, errors.ErrUnsupported }
func (b *Box) Restore(context.Context, backend.Snapshot) error    { return errors.ErrUnsupported }
func (b *Box) Fork(context.Context) (backend.Sandbox, error)      { return nil, errors.ErrUnsupported }
func (b *Box) Done() <-chan struct{}                              { return b.over }

func (b *Box) Close() (*status.BoxReport, error) {
	b.closed.Do(b.close)
	return backend.Closed(b.report)
}

func (b *Box) close() {
	b.mu.Lock()
	b.closing = true
	b.mu.Unlock()
	tasks := b.running()
	for _, t := range tasks {
		t.because(status.CauseCaller, "the sandbox was closed")
	}
	b.sys.Kill()
	for _, t := range tasks {
		<-t.gone
	}
	r := &status.BoxReport{Backend: b.name, DurationMS: time.Since(b.built).Milliseconds(), Usage: b.sys.Used(), Changes: b.sys.Changes()}
	b.mu.Lock()
	if c := b.cause; c != "" {
		r.Cause, r.Reason = c, b.detail
		if outcome.StatusOf(c) == status.MemLimit {
			r.Reason = outcome.OutOfMemory(b.spec.Policy.MemoryLimit, b.detail)
		}
		if limit := outcome.CapabilityOf(c); limit != "" {
			b.reached[limit] = true
		}
	}
	hit, started := limitsOf(b.reached), b.started
	b.mu.Unlock()
	violations, err := b.sys.Close()
	r.Network = b.Traffic()
	if err != nil {
		r.SetupError = &status.SetupError{Step: "close", Op: "remove", Error: err.Error()}
	}
	r.Enforced, r.LimitsHit, r.Violations = status.Ledger(plan.Ledger(b.Ledger()).Confirmed(started)), hit, violations
	backend.CompleteBox(r, b.spec)
	b.report = r
	close(b.over)
}

func limitsOf(hit map[status.Capability]bool) (names []string) {
	for c := range hit {
		names = append(names, string(c))
	}
	slices.Sort(names)
	return names
}
