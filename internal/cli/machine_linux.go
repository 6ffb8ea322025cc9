package cli

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
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/terminal"
)

// runMachine runs the command in a machine of its own.
func runMachine(ctx context.Context, r *config.Resolved, argv []string, io RunIO) (*status.Report, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, &config.UsageError{Msg: "the current directory can't be told: " + err.Error(), Hint: "change to one that exists", Err: err}
	}
	spec := machineSpec(r, argv, dir)
	e := &backend.Exec{Argv: argv, Tell: func(v backend.Event) {
		if v.Denied != nil && io.Denied != nil {
			io.Denied(*v.Denied)
		}
		if v.Limit != "" && io.LimitHit != nil {
			io.LimitHit(v.Limit)
		}
	}}
	out, errs := connectMachine(e, &io)
	if r.Invocation.TTY == "always" || r.Invocation.TTY != "never" && !io.Capture && terminal.Relayed(io.Stdin, io.Stdout) {
		e.TTY = &backend.WinSize{Rows: 24, Cols: 80}
		if now, err := unix.IoctlGetWinsize(io.Stdout, unix.TIOCGWINSZ); err == nil {
			e.TTY.Rows, e.TTY.Cols = now.Row, now.Col
		}
		defer rawTerminal(io.Stdin)()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &machineSignals{cancel: cancel, stdout: io.Stdout}
	stop := s.listen()
	defer stop()
	p, err := backend.Run(ctx, vm.Backend{}, spec, e)
	if n := s.begin(p); n != 0 && (err != nil || p == nil) {
		return finish(stoppedEarly(n, spec), r, io), nil
	}
	if err != nil {
		return nil, r.WithOrigin(err)
	}
	if io.Started != nil {
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
	return finish(report, r, io), nil
}

func machineSpec(r *config.Resolved, argv []string, dir string) *backend.Spec {
	return &backend.Spec{Policy: &r.Policy, Resolved: r, Argv: argv, Dir: dir, Environ: os.Environ(), ConfigFiles: r.Protected}
}

// connectMachine gives the process its streams. What is captured is in the two buffers.
func connectMachine(e *backend.Exec, io *RunIO) (out, errs *bytes.Buffer) {
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

// rawTerminal has the keys go to the terminal in the guest as they are pressed, until restore.
func rawTerminal(fd int) (restore func()) {
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return func() {}
	}
	raw := *before
	raw.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	raw.Oflag &^= unix.OPOST
	raw.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	raw.Cflag = raw.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, unix.TCSETSW, &raw); err != nil {
		return func() {}
	}
	return func() { _ = unix.IoctlSetTermios(fd, unix.TCSETSW, before) }
}

// machineSignals are those of the caller. Until there is a process to be told, one ends the machine.
type machineSignals struct {
	cancel context.CancelFunc
	stdout int

	mu      sync.Mutex
	process backend.Process
	last    unix.Signal
}

func (s *machineSignals) listen() (stop func()) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, append(notIgnored(), unix.SIGWINCH)...)
	handleQuit()
	done := make(chan struct{})
	go func() {
		for {
			select {
			case sig := <-signals:
				s.pass(sig.(unix.Signal))
			case <-done:
				return
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
	}
}

func (s *machineSignals) pass(n unix.Signal) {
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
func (s *machineSignals) begin(p backend.Process) unix.Signal {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process = p
	return s.last
}

// passed is the last that was passed on.
func (s *machineSignals) passed() unix.Signal {
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

// explainMachine explains the sandbox around the machine, which has the files and the network that were asked for.
func explainMachine(ctx context.Context, r *config.Resolved, argv []string) (*Explanation, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	x, err := vm.Explain(ctx, machineSpec(r, argv, dir))
	if err != nil {
		return nil, r.WithOrigin(err)
	}
	e := explanationOf(&r.Policy, x.Outer, x.Command, x.Refused)
	e.Backend, e.Enforced = vm.Name, x.Ledger
	e.Ask = func(q config.Ask) (config.Answer, error) { return x.Outer.Ask(r, q) }
	return e, nil
}
