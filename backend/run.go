package backend

import (
	"context"
	"errors"
	"sync"
	"syscall"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/status"
)

// Open plans a sandbox and builds it. One that can't be built, or would not give what the policy insists on, is a report;
// an error is about what was asked for.
func Open(ctx context.Context, b Backend, s *Spec) (Sandbox, *status.Report, error) {
	if o, ok := b.(Opener); ok {
		return o.Open(ctx, s)
	}
	plan, err := b.Plan(ctx, s)
	var box Sandbox
	if err == nil {
		box, err = b.Build(ctx, plan)
	}
	var cant *config.Unenforceable
	var unbuilt *BuildError
	switch {
	case errors.As(err, &cant):
		return nil, Refused(b.Name(), cant, s), nil
	case errors.As(err, &unbuilt):
		return nil, unbuilt.Report, nil
	}
	return box, nil, err
}

// Run starts a process in a sandbox of its own, which ends with it.
func Run(ctx context.Context, b Backend, s *Spec, e *Exec) (Process, error) {
	if d := e.Limits.CPU; d > 0 && (s.Policy.CPUTime == 0 || d < s.Policy.CPUTime) { // of the only process is of all
		spec, policy := *s, *s.Policy
		policy.CPUTime, spec.Policy, spec.PolicyDigest = d, &policy, ""
		s = &spec
	}
	if r, ok := b.(Runner); ok {
		return r.Run(ctx, s, e)
	}
	box, failed, err := Open(ctx, b, s)
	if err != nil {
		return nil, err
	}
	if failed != nil {
		return ended{failed}, nil
	}
	p, err := box.Start(ctx, e)
	if err != nil {
		_, _ = box.Close()
		return nil, err
	}
	r := &sole{Process: p}
	r.report = sync.OnceValue(func() *status.Report {
		report := p.Wait()
		if whole, _ := box.Close(); whole != nil {
			report.Changes, report.Network, report.Usage = whole.Changes, whole.Network, whole.Usage
			report.Violations = append(report.Violations, whole.Violations...)
		}
		return report
	})
	go r.report() // nobody has to wait for the sandbox to end
	return r, nil
}

// sole is the only process of its sandbox.
type sole struct {
	Process
	report func() *status.Report
}

func (s *sole) Wait() *status.Report { return s.report() }

// Stop is the process's own, where it has one.
func (s *sole) Stop(n syscall.Signal) {
	if p, ok := s.Process.(Stopper); ok {
		p.Stop(n)
		return
	}
	_ = s.Process.Signal(n)
}
