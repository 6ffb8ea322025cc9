package confine

import (
	"context"
	"errors"
	"runtime"
	"syscall"

	"github.com/confine-run/confine/child"
	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor"
)

// Backend is what carries out plans on this system.
const Backend = "linux-process"

// IO is how a run is connected to its caller.
type IO = supervisor.Options

// Init turns the process into the inside of a run, if that is what it was
// started as; then it doesn't return. A program that calls Run or Start has to
// call it first thing in main, because the inside of a run is the same binary,
// started again.
func Init() {
	if child.Called() {
		runtime.LockOSThread()
		child.Main()
	}
}

// Execute carries out a plan and gives the report. It returns when nothing of
// the run is left.
func Execute(ctx context.Context, p *Plan, o IO) *status.Report {
	r := supervisor.Run(ctx, &p.Plan, o)
	if e := r.SetupError; e != nil && e.Errno != 0 {
		reason, hint := host.Diagnose(host.Current(), host.Failure{Step: e.Step, Op: e.Op, Path: e.Path, Errno: syscall.Errno(e.Errno)})
		if e.Hint == "" {
			e.Hint = hint
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
	return complete(r, p.policy, p.command)
}

// RunCommand plans and executes. What is wrong with the words themselves is an
// error, and nothing was started; everything else is in the report.
func RunCommand(ctx context.Context, policy *Policy, command *Command, o IO) (*status.Report, error) {
	p, err := NewPlan(policy, command)
	var cant *Unenforceable
	if errors.As(err, &cant) {
		return Refused(cant, policy, command), nil
	}
	if err != nil {
		return nil, err
	}
	return Execute(ctx, p, o), nil
}
