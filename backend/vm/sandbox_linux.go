package vm

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/backend/process"
	"github.com/confine-run/confine/backend/vm/internal/wire"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/status"
)

// sandbox is a machine, or one after the other that went on in the place of one before it.
type sandbox struct {
	plan  plan
	card  bool // it has one for the network
	outer backend.Sandbox

	changing sync.Mutex // of what it is, by one at a time

	mu        sync.Mutex
	machine   *machine // that there is
	replacing bool     // by another one
	spec      *backend.Spec
	ledger    status.Ledger
	inner     status.Ledger // the guest's part of it
	confirmed status.Ledger // of the outer sandbox, by the report of a process in it
	qemu      string        // its version, as the same process said it
	confirms  chan struct{} // closed when the two are there; nil: nobody has begun

	closing sync.Once
	closed  chan struct{} // closed when closing began
	report  *status.BoxReport
	ended   sync.Once
	over    chan struct{} // closed when the last machine has ended
}

// open opens a sandbox with a machine in it. A report says why there is none.
func open(ctx context.Context, p plan) (*sandbox, *status.Report, error) {
	outer, failed, err := backend.Open(context.WithoutCancel(ctx), process.Backend{}, p.outerSpec(p.mounts(p.own, ramOf(p.spec.Policy))))
	if err != nil || failed != nil {
		if failed != nil {
			failed.Backend = Name
		}
		return nil, failed, err
	}
	return openIn(ctx, p, outer, origin{restore: p.spec.From != nil})
}

// origin is what a machine begins with.
type origin struct {
	restore bool         // what is written down in the sandbox around it
	give    func() error // puts the memory there, which isn't yet; nil: it is
}

// openIn has a machine begin in a sandbox, which ends if it can't.
func openIn(ctx context.Context, p plan, outer backend.Sandbox, from origin) (*sandbox, *status.Report, error) {
	s := &sandbox{plan: p, card: hasNetwork(p.spec.Policy), spec: p.spec, outer: outer, closed: make(chan struct{}), over: make(chan struct{})}
	failed, err := s.begin(ctx, from)
	if err != nil || failed != nil {
		_, _ = outer.Close()
		return nil, failed, err
	}
	context.AfterFunc(ctx, func() { _, _ = s.Close() })
	return s, nil, nil
}

// begin has a machine begin, and be the sandbox's.
func (s *sandbox) begin(ctx context.Context, from origin) (*status.Report, error) {
	var known *about
	if from.restore {
		var err error
		if known, err = fitting(s); err != nil {
			return nil, err
		}
	}
	m, err := s.plan.start(ctx, s.outer, from)
	if err != nil {
		return nil, err
	}
	if !from.restore { // else QEMU's start is what everybody waits for
		s.confirmation()
	}
	var failed *status.Report
	if from.restore {
		err = m.wake(ctx, s, known, from)
	} else {
		failed, err = m.greet(ctx, s)
	}
	if err == nil && failed == nil {
		s.mu.Lock()
		s.machine, s.replacing = m, false
		s.mu.Unlock()
		go s.await(m)
		return nil, nil
	}
	if failed == nil && ctx.Err() == nil {
		if _, ok := errors.AsType[*config.UsageError](err); !ok {
			failed, err = s.broke(m, err, "", nil), nil
		}
	}
	m.end()
	return failed, err
}

// await waits for the end of the machine, which is the sandbox's unless another one takes its place.
func (s *sandbox) await(m *machine) {
	<-m.over
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.machine == m && !s.replacing {
		s.ended.Do(func() { close(s.over) })
	}
}

// now is the machine that there is.
func (s *sandbox) now() *machine {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machine
}

// call asks the machine that there is.
func (s *sandbox) call(ctx context.Context, r *wire.Request) (*wire.Answer, error) {
	return s.now().conn.call(ctx, r)
}

// identity is who the processes are: in the guest, too.
func identity(p *config.Policy) (uid, gid uint32) {
	if p.User != nil {
		return p.User.UID, p.User.GID
	}
	return uint32(os.Getuid()), uint32(os.Getgid())
}

func (s *sandbox) Ledger() status.Ledger {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger
}

func (s *sandbox) Done() <-chan struct{} { return s.over }

func (s *sandbox) Usage() (backend.Usage, error) {
	return usageOf(s.call(context.Background(), &wire.Request{Method: wire.Usage}))
}

// Changes says what was changed, which is in the overlays of the outer sandbox.
func (s *sandbox) Changes(ctx context.Context, keep string) (*status.Changes, error) {
	if _, err := s.call(ctx, &wire.Request{Method: wire.Sync}); err != nil {
		return nil, err
	}
	return s.outer.Changes(ctx, keep)
}

// Network changes whom the processes inside may reach. A machine without a card can't get one.
func (s *sandbox) Network(ctx context.Context, n *config.Network) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	p := *s.asked().Policy
	p.Network = *n
	if hasNetwork(&p) && !s.card {
		return errors.ErrUnsupported
	}
	if err := s.outer.Network(ctx, n); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	spec := *s.spec
	spec.Policy, spec.PolicyDigest, spec.Resolved = &p, "", nil
	s.spec, s.ledger = &spec, maps.Clone(s.ledger)
	s.ledger[status.Network] = s.outer.Ledger()[status.Network]
	return nil
}

// asked is what it is to be by now.
func (s *sandbox) asked() *backend.Spec {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spec
}

func (s *sandbox) Traffic() *status.Traffic {
	if seer, ok := backend.As[backend.Seer](s.outer); ok {
		return seer.Traffic()
	}
	return nil
}

func (s *sandbox) ShelveIn(dir string) {
	if o, ok := backend.As[backend.Shelver](s.outer); ok {
		o.ShelveIn(dir)
	}
}

func (s *sandbox) Tell(tell func(backend.Event)) {
	if t, ok := backend.As[backend.Teller](s.outer); ok {
		t.Tell(func(e backend.Event) {
			if e.Denied == nil || e.Denied.Kind != "syscall" { // of QEMU's
				tell(e)
			}
		})
	}
}

// Ready waits until its init answers. On emulated CPUs a command that does nothing is run before, so that whoever gets the sandbox doesn't wait until
// what each command executes is translated. A root of the caller's own has other programs, which begin when he says so.
func (s *sandbox) Ready(ctx context.Context) error {
	_, err := s.call(ctx, &wire.Request{Method: wire.Usage})
	if err != nil || s.plan.accel.Works || s.asked().Policy.Filesystem.Rootfs != "" {
		return err
	}
	p, err := s.Start(ctx, &backend.Exec{Argv: []string{"/bin/true"}, Dir: "/", Stdout: io.Discard, Stderr: struct{ io.Writer }{io.Discard}})
	if err != nil {
		return err
	}
	_ = p.Wait() // there may be no such program
	return ctx.Err()
}

func (s *sandbox) Close() (*status.BoxReport, error) {
	s.closing.Do(s.close)
	return backend.Closed(s.report)
}

func (s *sandbox) close() {
	close(s.closed)
	s.changing.Lock() // who replaces the machine sees that it is closed
	defer s.changing.Unlock()
	m := s.now()
	var inner *status.BoxReport
	fault := m.conn.why()
	if fault == nil {
		if a, err := m.conn.call(context.Background(), &wire.Request{Method: wire.Close}); err == nil {
			inner = a.Box
		} else {
			fault = m.conn.why()
		}
	}
	m.end()
	s.ended.Do(func() { close(s.over) })
	outer, _ := s.outer.Close()
	r := outer
	r.Enforced = s.Ledger()
	r.Backend = Name
	r.LimitsHit, r.Cause, r.Reason = nil, "", ""
	r.Violations = outside(r.Violations)
	if inner != nil {
		r.Usage, r.LimitsHit, r.FullMounts, r.Cause, r.Reason = inner.Usage, inner.LimitsHit, inner.FullMounts, inner.Cause, inner.Reason
		r.Violations = append(r.Violations, inner.Violations...)
	} else if r.SetupError == nil && fault != nil && !errors.Is(fault, backend.ErrClosed) {
		_, cause, why := m.diagnose(fault)
		r.Cause, r.Reason = cause, why
		if cause == status.CauseSetup {
			r.SetupError = &status.SetupError{Step: "machine", Op: "run", Error: why}
		}
	}
	r.PolicyDigest = ""
	s.report = backend.CompleteBox(r, s.asked())
}

// outside are the violations that aren't QEMU's own calls.
func outside(all []status.Violation) (others []status.Violation) {
	for _, v := range all {
		if v.Kind != "syscall" {
			others = append(others, v)
		}
	}
	return others
}

// complete makes a report of the guest's one of this host's.
func (s *sandbox) complete(r *status.Report, argv []string) *status.Report {
	spec := *s.asked()
	spec.Argv = argv
	r.Backend, r.PolicyDigest, r.Network, r.Changes = Name, "", nil, nil
	return backend.Complete(r, &spec)
}

// diagnose says why a machine is gone: the outer sandbox knows it if it was one of its limits.
func (m *machine) diagnose(fault error) (status.Status, status.Cause, string) {
	if errors.Is(fault, errLate) {
		return status.Timeout, status.CauseWall, fault.Error()
	}
	if errors.Is(fault, errGone) {
		<-m.over
		switch r := m.killed; r.Status {
		case status.CPULimit, status.MemLimit, status.Timeout:
			return r.Status, r.Cause, "the machine as a whole: " + r.Reason
		case status.OK:
			return status.InternalError, status.CauseSetup, "the kernel of the guest ended" + m.lastWords()
		default:
			return status.InternalError, status.CauseSetup, "QEMU ended: " + r.Reason + m.lastWords()
		}
	}
	if fault == nil {
		fault = errGone
	}
	return status.InternalError, status.CauseSetup, fault.Error() + m.lastWords()
}

// broke is the report of a process whose machine is gone.
func (s *sandbox) broke(m *machine, fault error, killed status.Cause, e *backend.Exec) *status.Report {
	argv := s.asked().Argv
	if e != nil {
		argv = e.Argv
	}
	r := &status.Report{}
	why := "killed with its machine"
	if errors.Is(fault, errReplaced) {
		killed, why = status.CauseContext, errReplaced.Error()
	}
	select {
	case <-s.closed:
		killed = status.CauseContext
	default:
	}
	if killed != "" {
		r.Status, r.Cause, r.Reason, r.Signal = status.KilledKill, killed, why, "SIGKILL"
		r.RC = r.Status.RC(status.Normalized, 0, int(unix.SIGKILL))
	} else {
		r.Status, r.Cause, r.Reason = m.diagnose(fault)
		r.RC = r.Status.RC(status.Normalized, 0, 0)
		if r.Status == status.InternalError {
			r.SetupError = &status.SetupError{Step: "machine", Op: "run", Error: r.Reason}
		}
	}
	r.Enforced = s.Ledger()
	if r.Enforced == nil {
		r.Enforced = s.merged(m, nil)
	}
	return s.complete(r, argv)
}
