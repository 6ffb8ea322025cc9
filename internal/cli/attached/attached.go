package attached

import (
	"bytes"
	"context"
	"encoding/base64"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/outcome"
)

// IO is what a command is connected to.
type IO struct {
	Stdin, Stdout, Stderr int // -1: none
	Capture               bool
	TTY                   bool // on a terminal, with keys from Stdin
	Signals               []os.Signal
	Notified              func() // they are heard from now on
	Started               func()
	Denied                func(status.Violation)
	LimitHit              func(status.Capability)
	Usage                 func(status.Load) // once a second
}

// Run runs the command of a Spec in a sandbox of its own. An error is about what was asked for.
func Run(ctx context.Context, b backend.Backend, spec *backend.Spec, io *IO) (*status.Report, error) {
	e := &backend.Exec{Argv: spec.Argv, Tell: func(v backend.Event) {
		if v.Denied != nil && io.Denied != nil {
			io.Denied(*v.Denied)
		}
		if v.Limit != "" && io.LimitHit != nil {
			io.LimitHit(v.Limit)
		}
	}}
	out, errs := connect(e, io)
	if io.TTY {
		e.TTY = &backend.WinSize{Rows: 24, Cols: 80}
		if now, ok := sizeOf(io.Stdout); ok {
			*e.TTY = now
		}
		defer Raw(io.Stdin, io.Stdout)()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &signals{cancel: cancel, stdout: io.Stdout}
	defer s.listen(io)()
	p, err := backend.Run(ctx, b, spec, e)
	if n := s.begin(p); n != 0 && (err != nil || p == nil) {
		return stoppedEarly(n, b.Name(), spec), nil
	}
	if err != nil {
		return nil, err
	}
	if io.Started != nil && !backend.Unstarted(p) {
		io.Started()
	}
	defer beat(p, io.Usage)()
	report := p.Wait()
	if n := s.passed(); n != 0 && report.Signal == outcome.SignalName(n) {
		report.Cause = status.CauseCaller
	}
	if io.Capture {
		report.Stdout, report.Encoding.Stdout = asText(out, report.Encoding.Stdout)
		report.Stderr, report.Encoding.Stderr = asText(errs, report.Encoding.Stderr)
	}
	return report, nil
}

// beat tells once a second what a process uses, until stop.
func beat(p backend.Process, tell func(status.Load)) (stop func()) {
	if tell == nil {
		return func() {}
	}
	ticks, done, ended := time.NewTicker(time.Second), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case <-ticks.C:
			}
			if now, err := p.Usage(); err == nil {
				tell(status.Load{CPUMS: now.CPU.Milliseconds(), MemoryBytes: max(0, now.Memory), Tasks: max(0, now.Tasks)})
			}
		}
	}()
	return func() {
		ticks.Stop()
		close(done)
		<-ended
	}
}

// connect gives the process its streams. What is captured is in the two buffers.
func connect(e *backend.Exec, io *IO) (out, errs *bytes.Buffer) {
	if io.Stdin >= 0 {
		e.Stdin = os.NewFile(uintptr(io.Stdin), "stdin")
	}
	if io.Capture {
		out, errs = &bytes.Buffer{}, &bytes.Buffer{}
		e.Stdout, e.Stderr = out, errs
		return out, errs
	}
	if io.Stdout >= 0 {
		e.Stdout = os.NewFile(uintptr(io.Stdout), "stdout")
	}
	if io.Stderr >= 0 {
		e.Stderr = os.NewFile(uintptr(io.Stderr), "stderr")
	}
	return nil, nil
}

func asText(b *bytes.Buffer, encoding string) (text, enc string) {
	if utf8.Valid(b.Bytes()) {
		return b.String(), encoding
	}
	return base64.StdEncoding.EncodeToString(b.Bytes()), "base64"
}

// signals are those of the caller. Until there is a process to be told, one ends the sandbox.
type signals struct {
	cancel context.CancelFunc
	stdout int

	mu      sync.Mutex
	process backend.Process
	last    syscall.Signal
}

func (s *signals) listen(io *IO) (stop func()) {
	heard := make(chan os.Signal, 8)
	signal.Notify(heard, append(slices.Clip(io.Signals), resized...)...)
	if io.Notified != nil {
		io.Notified()
	}
	done := make(chan struct{})
	go func() {
		for {
			select {
			case sig := <-heard:
				s.pass(sig)
			case <-done:
				return
			}
		}
	}()
	return func() {
		signal.Stop(heard)
		close(done)
	}
}

func (s *signals) pass(sig os.Signal) {
	s.mu.Lock()
	p := s.process
	n, _ := sig.(syscall.Signal)
	size, stops := slices.Contains(resized, sig), slices.Contains(stopping, sig)
	if !size && !stops {
		s.last = n
	}
	s.mu.Unlock()
	switch {
	case p == nil && !size && !stops:
		s.cancel()
	case p == nil:
	case size:
		if now, ok := sizeOf(s.stdout); ok {
			_ = p.Resize(now)
		}
	default:
		if stopper, ok := p.(backend.Stopper); ok && (n == syscall.SIGINT || n == syscall.SIGTERM || n == syscall.SIGHUP || n == syscall.SIGQUIT) {
			stopper.Stop(n)
			return
		}
		_ = p.Signal(n)
	}
}

// begin says that there is a process; the signal is one that came before.
func (s *signals) begin(p backend.Process) syscall.Signal {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process = p
	return s.last
}

// passed is the last that was passed on.
func (s *signals) passed() syscall.Signal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// stoppedEarly is the report of a command that was never started.
func stoppedEarly(n syscall.Signal, name string, spec *backend.Spec) *status.Report {
	r := &status.Report{
		Status: status.KilledSignal, Cause: status.CauseCaller, Backend: name, Signal: outcome.SignalName(n),
		Reason: "stopped by " + outcome.SignalName(n) + " while the sandbox was built: nothing was started", Ending: status.Ending{Early: true},
	}
	if n == syscall.SIGTERM {
		r.Status = status.KilledTerm
	}
	r.RC = r.Status.RC(status.Normalized, 0, int(n))
	return backend.Complete(r, spec)
}
