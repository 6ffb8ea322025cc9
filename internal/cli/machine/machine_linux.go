package machine

import (
	"bytes"
	"context"
	"encoding/base64"
	"os"
	"os/signal"
	"sync"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/backend/vm"
	"github.com/confine-run/confine/status"
)

// IO is what a command in a machine is connected to.
type IO struct {
	Stdin, Stdout, Stderr int // -1: none
	Capture               bool
	TTY                   bool // on a terminal, with keys from Stdin
	Signals               []os.Signal
	Notified              func() // they are heard from now on
	Started               func()
	Denied                func(status.Violation)
	LimitHit              func(status.Capability)
}

// Run runs the command in a machine of its own. An error is about what was asked for.
func Run(ctx context.Context, spec *backend.Spec, io *IO) (*status.Report, error) {
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
		if now, err := unix.IoctlGetWinsize(io.Stdout, unix.TIOCGWINSZ); err == nil {
			e.TTY.Rows, e.TTY.Cols = now.Row, now.Col
		}
		defer raw(io.Stdin)()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &signals{cancel: cancel, stdout: io.Stdout}
	defer s.listen(io)()
	p, err := backend.Run(ctx, vm.Backend{}, spec, e)
	if n := s.begin(p); n != 0 && (err != nil || p == nil) {
		return stoppedEarly(n, spec), nil
	}
	if err != nil {
		return nil, err
	}
	if io.Started != nil && !backend.Unstarted(p) {
		io.Started()
	}
	report := p.Wait()
	if n := s.passed(); n != 0 && report.Signal == unix.SignalName(n) {
		report.Cause = status.CauseCaller
	}
	if io.Capture {
		report.Stdout, report.Encoding.Stdout = asText(out, report.Encoding.Stdout)
		report.Stderr, report.Encoding.Stderr = asText(errs, report.Encoding.Stderr)
	}
	return report, nil
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

// raw has the keys go to the terminal in the guest as they are pressed, until restore.
func raw(fd int) (restore func()) {
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return func() {}
	}
	mode := *before
	mode.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	mode.Oflag &^= unix.OPOST
	mode.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	mode.Cflag = mode.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
	mode.Cc[unix.VMIN], mode.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, unix.TCSETSW, &mode); err != nil {
		return func() {}
	}
	return func() { _ = unix.IoctlSetTermios(fd, unix.TCSETSW, before) }
}

// signals are those of the caller. Until there is a process to be told, one ends the machine.
type signals struct {
	cancel context.CancelFunc
	stdout int

	mu      sync.Mutex
	process backend.Process
	last    unix.Signal
}

func (s *signals) listen(io *IO) (stop func()) {
	heard := make(chan os.Signal, 8)
	signal.Notify(heard, append(io.Signals, unix.SIGWINCH)...)
	if io.Notified != nil {
		io.Notified()
	}
	done := make(chan struct{})
	go func() {
		for {
			select {
			case sig := <-heard:
				s.pass(sig.(unix.Signal))
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

func (s *signals) pass(n unix.Signal) {
	s.mu.Lock()
	p := s.process
	if n != unix.SIGWINCH && n != unix.SIGTSTP {
		s.last = n
	}
	s.mu.Unlock()
	switch {
	case p == nil && n != unix.SIGWINCH && n != unix.SIGTSTP:
		s.cancel()
	case p == nil:
	case n == unix.SIGWINCH:
		if now, err := unix.IoctlGetWinsize(s.stdout, unix.TIOCGWINSZ); err == nil {
			_ = p.Resize(backend.WinSize{Rows: now.Row, Cols: now.Col})
		}
	default:
		_ = p.Signal(n)
	}
}

// begin says that there is a process; the signal is one that came before.
func (s *signals) begin(p backend.Process) unix.Signal {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process = p
	return s.last
}

// passed is the last that was passed on.
func (s *signals) passed() unix.Signal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// stoppedEarly is the report of a command that was never started.
func stoppedEarly(n unix.Signal, spec *backend.Spec) *status.Report {
	r := &status.Report{
		Status: status.KilledSignal, Cause: status.CauseCaller, Backend: vm.Name, Signal: unix.SignalName(n),
		Reason: "stopped by " + unix.SignalName(n) + " while the machine booted: nothing was started", Ending: status.Ending{Early: true},
	}
	if n == unix.SIGTERM {
		r.Status = status.KilledTerm
	}
	r.RC = r.Status.RC(status.Normalized, 0, int(n))
	return backend.Complete(r, spec)
}
