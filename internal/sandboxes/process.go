package sandboxes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/status"
)

// ErrNoProcess is the answer for a process that isn't remembered.
var ErrNoProcess = errors.New("there is no such process")

// ErrNoStdin is the answer where a process was started without an input that is written to later, or that was closed.
var ErrNoStdin = errors.New("the process has no standard input that is open")

// Exec is what is to be started.
type Exec struct {
	backend.Exec           // its streams are not looked at
	Input        io.Reader // all of its standard input; nil: the null device, unless OpenInput
	OpenInput    bool      // WriteInput writes it
	Tag          string    // a name that the client gives it
}

// EnvOf is an environment as K=V, by its names; bad is what can be none of one.
func EnvOf(env map[string]string) (all []string, bad string, ok bool) {
	for _, k := range slices.Sorted(maps.Keys(env)) {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(env[k], 0) {
			return nil, k, false
		}
		all = append(all, k+"="+env[k])
	}
	return all, "", true
}

// Process is one in a sandbox.
type Process struct {
	Number  int // in its sandbox, from 1
	Argv    []string
	Tag     string
	TTY     bool
	Started time.Time
	// Log has what it wrote and what became of it: "started" first, "exit" last.
	Log *Log
	// Done is closed when the last frame is in the log.
	Done chan struct{}

	process atomic.Pointer[backend.Process] // nil: it has ended
	writing sync.Mutex                      // of input
	input   *os.File                        // the end that is written to, nil for none
	inside  *os.File                        // the end that the process reads
	report  atomic.Pointer[status.Report]
}

// Start starts a process. follow, if not nil, is given a reader of its log from the first frame on, before anything is
// written to it.
func (s *Sandbox) Start(e *Exec, follow func(*Reader)) (*Process, error) {
	p := &Process{
		Argv: e.Argv, Tag: e.Tag, TTY: e.TTY != nil, Started: time.Now().UTC(),
		Log: NewLog(s.manager.opts.LogBytes), Done: make(chan struct{}),
	}
	if err := allows(s.Policy(), e.Limits); err != nil {
		return nil, err
	}
	ran, err := s.manager.run(s.Owner)
	if err != nil {
		return nil, err
	}
	env, _, _ := askedOf(s)
	run := e.Exec
	run.Stdin, run.Env = e.Input, slices.Concat(env, e.Env)
	if e.OpenInput {
		r, w, err := os.Pipe()
		if err != nil {
			ran()
			return nil, err
		}
		run.Stdin, p.input, p.inside = r, w, r
	}
	stdout, stderr := p.Log.Writer(FrameStdout, s.closing), p.Log.Writer(FrameStderr, s.closing)
	happened := &told{log: p.Log}
	run.Stdout, run.Stderr, run.Tell = stdout, stderr, happened.happens
	var reader *Reader
	if follow != nil {
		reader, _ = p.Log.Reader(0)
	}
	used := s.Use()
	done := func() {
		used()
		ran()
	}
	if err = s.number(p); err == nil {
		p.Log.Append(Frame{Type: FrameStarted, Process: p.Number, Argv: p.Argv})
		var running backend.Process
		running, err = boxOf(s).Start(context.Background(), &run)
		p.process.Store(&running)
	}
	if err != nil {
		done()
		p.closeInput()
		return nil, err
	}
	s.remember(p)
	s.Events.Append(Frame{Type: FrameStarted, Process: p.Number, Argv: p.Argv})
	if follow != nil {
		follow(reader)
	}
	go func() {
		defer done()
		r := (*p.process.Load()).Wait()
		stdout.Flush()
		stderr.Flush()
		p.closeInput()
		happened.rest(r)
		p.report.Store(r) // whoever is told that it has ended finds it ended
		p.process.Store(nil)
		p.Log.Close(Frame{Type: FrameExit, Process: p.Number, Report: r})
		s.Events.Append(Frame{Type: FrameExit, Process: p.Number, Report: r})
		close(p.Done)
	}()
	return p, nil
}

// run counts a process of an owner, which runs until ended is called.
func (m *Manager) run(owner Owner) (ended func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := 0
	for _, n := range m.running {
		all += n
	}
	if most := m.opts.MaxRunning; most > 0 && m.running[owner] >= most-most/4 {
		return nil, &QuotaError{What: "processes of this owner that run", Max: most - most/4}
	} else if most > 0 && all >= most {
		return nil, &QuotaError{What: "processes that run", Max: most}
	}
	m.running[owner]++
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.running[owner]--; m.running[owner] == 0 {
			delete(m.running, owner)
		}
	}, nil
}

// allows refuses limits of a process that are wider than the sandbox's.
func allows(p *config.Policy, l backend.Limits) error {
	const hint = "it was set when the sandbox was opened"
	if most := p.TimeLimit; most > 0 && l.Time > most {
		return &config.UsageError{Msg: fmt.Sprintf("a time limit of %s is more than the sandbox's of %s", config.FormatDuration(l.Time), config.FormatDuration(most)), Hint: hint}
	}
	if most := p.CPUTime; most > 0 && l.CPU > most {
		return &config.UsageError{Msg: fmt.Sprintf("a limit of CPU time of %s is more than the sandbox's of %s", config.FormatDuration(l.CPU), config.FormatDuration(most)), Hint: hint}
	}
	if most := p.OutputLimit; most > 0 && l.Output > most {
		return &config.UsageError{Msg: fmt.Sprintf("an output limit of %s is more than the sandbox's of %s", config.FormatSize(l.Output), config.FormatSize(most)), Hint: hint}
	}
	return nil
}

// number gives a process its number, unless the sandbox is ending.
func (s *Sandbox) number(p *Process) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.closing:
		return backend.ErrClosed
	default:
	}
	s.last++
	p.Number = s.last
	return nil
}

// roster is what is known of processes. Its own lock guards it.
type roster struct {
	lock sync.Mutex
	all  []*Process
}

// remember makes a process one that is found by its number.
func (r *roster) remember(p *Process) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.all = append(r.all, p)
	for i := 0; len(r.all) > maxProcesses && i < len(r.all); {
		select {
		case <-r.all[i].Done:
			r.all = append(r.all[:i:i], r.all[i+1:]...)
		default:
			i++
		}
	}
}

// size is about what the processes take in memory.
func (r *roster) size() (n int) {
	for _, p := range r.Processes() {
		n += p.Log.size()
	}
	return n
}

// forget lets go of the processes, and of what they wrote, whoever else knows them.
func (r *roster) forget() {
	for _, p := range r.Processes() {
		p.Log.forget()
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	r.all = nil
}

// Processes are those that are remembered, the oldest first.
func (r *roster) Processes() []*Process {
	r.lock.Lock()
	defer r.lock.Unlock()
	return slices.Clone(r.all)
}

// Process finds one by its number.
func (r *roster) Process(number int) (*Process, error) {
	r.lock.Lock()
	defer r.lock.Unlock()
	for _, p := range r.all {
		if p.Number == number {
			return p, nil
		}
	}
	return nil, ErrNoProcess
}

// Report is there when it has ended; else it is nil.
func (p *Process) Report() *status.Report { return p.report.Load() }

// Signal sends a signal to the process and its process group.
func (p *Process) Signal(sig os.Signal) error {
	if running := p.process.Load(); running != nil {
		return (*running).Signal(sig)
	}
	return os.ErrProcessDone
}

// Resize changes the size of its terminal.
func (p *Process) Resize(size backend.WinSize) error {
	if running := p.process.Load(); running != nil {
		return (*running).Resize(size)
	}
	return os.ErrProcessDone
}

// ErrFull says that a process took nothing of its standard input for a minute.
var ErrFull = errors.New("the process has not read its standard input for a minute")

// ErrBusy says that somebody else writes to the standard input of a process right now.
var ErrBusy = errors.New("somebody else writes to the standard input of the process")

// inputTime is how long a write waits for a process that doesn't read.
const inputTime = time.Minute

// WriteInput writes to its standard input what r gives, and waits for the process to take it, until ctx ends. It says how much
// was taken.
func (p *Process) WriteInput(ctx context.Context, r io.Reader) (n int64, err error) {
	if p.input == nil {
		return 0, ErrNoStdin
	}
	if !p.writing.TryLock() {
		return 0, ErrBusy
	}
	defer p.writing.Unlock()
	defer context.AfterFunc(ctx, func() { _ = p.input.SetWriteDeadline(time.Unix(1, 0)) })()
	for b := make([]byte, 32<<10); ; {
		some, ended := r.Read(b)
		_ = p.input.SetWriteDeadline(time.Now().Add(inputTime))
		if ctx.Err() != nil {
			return n, ctx.Err()
		}
		taken, err := p.input.Write(b[:some])
		n += int64(taken)
		switch {
		case ctx.Err() != nil:
			return n, ctx.Err()
		case errors.Is(err, os.ErrDeadlineExceeded):
			return n, ErrFull
		case errors.Is(err, os.ErrClosed), errors.Is(err, syscall.EPIPE):
			return n, ErrNoStdin
		case err != nil:
			return n, err
		case ended == io.EOF:
			return n, nil
		case ended != nil:
			return n, ended
		}
	}
}

// CloseInput is the end of its standard input.
func (p *Process) CloseInput() error {
	if p.input == nil {
		return ErrNoStdin
	}
	if err := p.input.Close(); err != nil {
		return ErrNoStdin
	}
	return nil
}

func (p *Process) closeInput() {
	if p.input != nil {
		_ = p.input.Close()
		_ = p.inside.Close()
	}
}
