package confine

import (
	"context"
	"encoding/base64"
	"errors"

	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor"
)

// IO is how a run is connected to its caller.
type IO = supervisor.Options

// Report says how a run ended, and what was enforced.
type Report = status.Report

// Run runs a command under a policy, collects what it prints, and reports.
// Cancelling ctx kills everything inside. The error is about what was asked for,
// and nothing was started; how the run ended, and also a sandbox that could not
// be built, is in the report.
//
// The inside of a run is the same binary, started again: see [Init].
func Run(ctx context.Context, policy *Policy, command ...string) (*Report, error) {
	r, err := Start(ctx, policy, &Command{Argv: command}, IO{Stdin: -1, Stdout: -1, Stderr: -1, Capture: true})
	if err != nil {
		return nil, err
	}
	return r.Wait(), nil
}

// Running is a run that was started.
type Running struct {
	cancel context.CancelFunc
	done   chan struct{}
	report *Report
}

// Start begins a run and returns. What io names stays open until the run's end.
func Start(ctx context.Context, policy *Policy, command *Command, io IO) (*Running, error) {
	if policy == nil {
		return nil, errors.New("there is no policy")
	}
	if err := policy.Validate(); err != nil {
		return nil, err
	}
	copied := *policy
	ctx, cancel := context.WithCancel(ctx)
	r := &Running{cancel: cancel, done: make(chan struct{})}
	planned := make(chan error, 2)
	go func() {
		defer close(r.done)
		var err error
		r.report, err = Execute(ctx, &copied, command, io, func(*Plan) { planned <- nil })
		planned <- err
	}()
	if err := <-planned; err != nil {
		cancel()
		<-r.done
		return nil, err
	}
	return r, nil
}

// Kill ends everything inside, and waits until nothing is left.
func (r *Running) Kill() {
	r.cancel()
	<-r.done
}

// Done is closed when the run has ended and nothing of it is left.
func (r *Running) Done() <-chan struct{} { return r.done }

// Wait waits for the end, and gives the report.
func (r *Running) Wait() *Report {
	<-r.done
	r.cancel()
	return r.report
}

// Stdout gives the captured standard output of a report as it was written.
func Stdout(r *Report) []byte { return decoded(r.Stdout, r.Encoding.Stdout) }

// Stderr gives the captured standard error.
func Stderr(r *Report) []byte { return decoded(r.Stderr, r.Encoding.Stderr) }

func decoded(text, encoding string) []byte {
	if encoding != "base64" {
		return []byte(text)
	}
	b, _ := base64.StdEncoding.DecodeString(text) // encoded here
	return b
}
