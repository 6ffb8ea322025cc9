package task

import (
	"cmp"
	"errors"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/outcome"
)

// Plan is what plans have, and decide alike, on every such system.
type Plan struct {
	Spec    *backend.Spec     `json:"-"`
	Lines   plan.Ledger       `json:"-"`
	Shown   []config.PathRule `json:"-"`
	Told    []hint.Notice     `json:"-"`
	Start   string            // where processes start; "": in the run's directory
	backend string            // its name
	system  string            // as users call it
}

// NewPlan is one in which nothing is decided yet. The names are those of the backend, and of the system as users call it.
func NewPlan(name, system string, s *backend.Spec) Plan {
	return Plan{Spec: s, Lines: plan.Ledger(backend.Asked(s.Policy)), backend: name, system: system}
}

// Refuse says what can't be had at all: without it a command would see something else than was asked for.
func (p *Plan) Refuse() error {
	q := p.Spec.Policy
	f := &q.Filesystem
	for _, r := range []struct {
		is   bool
		what string
	}{
		{f.Rootfs != "", "--rootfs"},
		{f.Virtual, "--virtual-fs"},
		{len(f.Mounts) > 0, "--mount"},
		{f.EphemeralHome, "--ephemeral-home"},
		{f.Log, "--log-files"},
		{q.User != nil, "--user"},
		{q.CgroupParent != "", "--cgroup-parent"},
		{p.Spec.From != nil, "a snapshot"},
	} {
		if r.is {
			return &config.UsageError{Msg: r.what + " can't be had on " + p.system, Hint: "leave it away"}
		}
	}
	return nil
}

// Unfiltered enters that nothing filters system calls, with what does instead, and that there is nothing but processes.
func (p *Plan) Unfiltered(instead string) {
	q, l := p.Spec.Policy, p.Lines
	switch q.Seccomp {
	case "", "off":
		l.Unasked(status.Syscalls, "off", "")
	default:
		l.Ask(status.Syscalls, q.Seccomp+", "+cmp.Or(q.SeccompAction, "errno"))
		l.Missing(status.Syscalls, status.PlatformUnsupported, p.system+" has no filter of system calls"+instead)
	}
	if q.Isolation != "" && q.Isolation != "process" {
		l.Ask(status.Isolation, q.Isolation)
		l.Missing(status.Isolation, status.NotInBuild, "on "+p.system+" there are processes alone")
	}
}

// NoSyscalls is the answer to a question about system calls.
func (p *Plan) NoSyscalls() error {
	return &config.UsageError{Msg: "system calls are those of Linux, and nothing holds them on " + p.system, Hint: "leave --syscall away", Err: errors.ErrUnsupported}
}

func (p *Plan) Ledger() status.Ledger    { return status.Ledger(p.Lines) }
func (p *Plan) Rules() []config.PathRule { return p.Shown }

// Dir is where processes start; "" is in the run's directory.
func (p *Plan) Dir() string            { return p.Start }
func (p *Plan) Notices() []hint.Notice { return p.Told }

// Built is the answer to a call of Build: what can't be set up is a report.
func (p *Plan) Built(box *Box, err error) (backend.Sandbox, error) {
	if failed, ok := errors.AsType[*outcome.SetupError](err); ok {
		return nil, &backend.BuildError{Report: backend.Unbuilt(p.backend, failed.Report(), p.Ledger(), p.Spec)}
	}
	if err != nil {
		return nil, err
	}
	return box, nil
}

// Setup is an error of a step, with the errno where there is one.
func Setup(step, op string, err error) *outcome.SetupError {
	e := &outcome.SetupError{Step: step, Op: op}
	if !errors.As(err, &e.Errno) && err != nil {
		e.Op, e.Whole = op+": "+err.Error(), true
	}
	return e
}
