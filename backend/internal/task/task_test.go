package task

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/outcome"
)

// system is one whose programs are functions.
type system struct {
	mu      sync.Mutex
	targets []*target
	killed  bool
	closed  bool
	fail    error
}

type exit struct {
	code   int
	signal syscall.Signal
}

func (e exit) Exited() bool           { return e.signal == 0 }
func (e exit) ExitStatus() int        { return e.code }
func (e exit) Signaled() bool         { return e.signal != 0 }
func (e exit) Signal() syscall.Signal { return e.signal }

type target struct {
	end  chan exit
	once sync.Once
	deaf bool // it does nothing about signals
	cpu  atomic.Int64
}

func (t *target) over(e exit) { t.once.Do(func() { t.end <- e }) }

func (s *system) Start(x *Start) (Target, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return nil, s.fail
	}
	t := &target{end: make(chan exit, 1), deaf: x.Exec.Argv[0] == "deaf"}
	s.targets = append(s.targets, t)
	own := x.Streams
	for i, f := range own { // the caller closes those
		if x.Exec.TTY != nil {
			break
		}
		own[i] = dup(f)
	}
	go func() {
		defer func() {
			for _, f := range own {
				if f != nil {
					_ = f.Close()
				}
			}
		}()
		switch words := x.Exec.Argv; words[0] {
		case "cat":
			_, _ = io.Copy(own[1], own[0])
			t.over(exit{})
		case "exit":
			t.over(exit{code: len(words) - 1})
		case "flood":
			for {
				if _, err := own[1].WriteString("0123456789\n"); err != nil {
					t.over(exit{code: 1})
					return
				}
			}
		case "leave": // somebody has our streams and goes on
			_, _ = own[1].WriteString("said\n")
			t.over(exit{})
			<-time.After(time.Minute)
		}
		<-time.After(time.Minute)
	}()
	if s.killed {
		t.Kill()
	}
	return t, nil
}

func (s *system) Files() backend.Files { return nil }
func (s *system) Usage() (backend.Usage, error) {
	return backend.Usage{Memory: 1, Scratch: -1}, nil
}
func (s *system) Used() status.Usage { return status.Usage{CPUMS: 7} }
func (s *system) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.killed = true
	for _, t := range s.targets {
		t.Kill()
	}
}
func (s *system) Changes() *status.Changes { return nil }
func (s *system) Close() ([]status.Violation, error) {
	s.closed = true
	return []status.Violation{{Kind: "file", What: "x", Count: 1, Rule: status.RuleProtected}}, nil
}

func (t *target) Signal(n syscall.Signal) error {
	if !t.deaf {
		t.over(exit{signal: n})
	}
	return nil
}
func (t *target) Kill()                        { t.over(exit{signal: syscall.SIGKILL}) }
func (t *target) Wait() outcome.Ended          { return <-t.end }
func (t *target) Hang()                        {}
func (t *target) Resize(backend.WinSize) error { return nil }
func (t *target) Used() status.Usage           { return status.Usage{} }
func (t *target) Usage() (backend.Usage, error) {
	return backend.Usage{CPU: time.Duration(t.cpu.Add(int64(50 * time.Millisecond)))}, nil
}

func box(t *testing.T, change func(*config.Policy)) (*Box, *system) {
	t.Helper()
	p := config.Default()
	p.TimeLimit, p.Grace, p.OutputLimit, p.MemoryLimit = time.Minute, 50*time.Millisecond, 0, 1<<20
	if change != nil {
		change(&p)
	}
	spec := &backend.Spec{Policy: &p, Environ: os.Environ()}
	l := plan.Ledger(backend.Asked(&p))
	l.Enforced(status.WallTime, "timer", "")
	s := &system{}
	b := New(t.Context(), "test", spec, status.Ledger(l), s)
	t.Cleanup(func() { _, _ = b.Close() })
	return b, s
}

func start(t *testing.T, b *Box, e *backend.Exec, words ...string) backend.Process {
	t.Helper()
	e.Argv = words
	p, err := b.Start(t.Context(), e)
	must.Do(t, err)
	return p
}

func TestStreams(t *testing.T) {
	b, _ := box(t, nil)
	var out bytes.Buffer
	text := strings.Repeat("0123456789abcdef", 1<<15)
	r := start(t, b, &backend.Exec{Stdin: strings.NewReader(text), Stdout: &out}, "cat").Wait()
	if r.Status != status.OK || out.String() != text || r.Bytes.Stdout != int64(len(text)) || r.Backend != "test" {
		t.Errorf("%s, %d octets, %+v", r.Status, out.Len(), r.Bytes)
	}
	out.Reset()
	r = start(t, b, &backend.Exec{Stdout: &out}, "leave").Wait()
	if r.Status != status.OK || out.String() != "said\n" {
		t.Errorf("%s, %q", r.Status, out.String())
	}
	out.Reset()
	p := start(t, b, &backend.Exec{Stdout: &out, Limits: backend.Limits{Output: 100, Time: 200 * time.Millisecond}}, "flood")
	r = p.Wait()
	if r.Status != status.Timeout || !r.Truncated.Stdout || !strings.HasSuffix(out.String(), "[TRUNCATED]\n") || out.Len() > 120 ||
		!slices.Equal(r.LimitsHit, []string{"output", "wall_time"}) {
		t.Errorf("%s, %q, %d octets", r.Status, r.LimitsHit, out.Len())
	}
	refuses, w := io.Pipe()
	_ = refuses.Close()
	if r := start(t, b, &backend.Exec{Stdout: w}, "flood").Wait(); r.Status != status.Failed {
		t.Errorf("whose output nobody takes: %s", r.Status)
	}
}

func TestEnds(t *testing.T) {
	b, s := box(t, nil)
	for _, c := range []struct {
		what   string
		words  []string
		e      backend.Exec
		do     func(p backend.Process)
		status status.Status
		cause  status.Cause
		rc     int
	}{
		{"exit", []string{"exit", "x", "x"}, backend.Exec{}, nil, status.Failed, status.CauseExit, 2},
		{"time", []string{"sleep"}, backend.Exec{Limits: backend.Limits{Time: 20 * time.Millisecond}}, nil, status.Timeout, status.CauseWall, 124},
		{"time, and it is deaf", []string{"deaf"}, backend.Exec{Limits: backend.Limits{Time: 20 * time.Millisecond}}, nil, status.Timeout, status.CauseWall, 124},
		{"CPU time", []string{"sleep"}, backend.Exec{Limits: backend.Limits{CPU: 200 * time.Millisecond}}, nil, status.CPULimit, status.CauseCPUTree, 152},
		{"killed", []string{"sleep"}, backend.Exec{}, func(p backend.Process) { _ = p.Signal(os.Kill) }, status.KilledKill, status.CauseCaller, 137},
		{"interrupted", []string{"sleep"}, backend.Exec{}, func(p backend.Process) { _ = p.Signal(os.Interrupt) }, status.KilledSignal, status.CauseCaller, 130},
		{"stopped by its user", []string{"sleep"}, backend.Exec{}, func(p backend.Process) { p.(backend.Stopper).Stop(syscall.SIGTERM) }, status.KilledTerm, status.CauseCaller, 143},
		{"stopped, and deaf", []string{"deaf"}, backend.Exec{}, func(p backend.Process) { p.(backend.Stopper).Stop(syscall.SIGTERM) }, status.KilledKill, status.CauseCaller, 137},
	} {
		p := start(t, b, &c.e, c.words...)
		if c.do != nil {
			c.do(p)
		}
		if r := p.Wait(); r.Status != c.status || r.Cause != c.cause || r.RC != c.rc {
			t.Errorf("%s: %s by %s, %d (%s)", c.what, r.Status, r.Cause, r.RC, r.Reason)
		}
		if err := p.Signal(os.Kill); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("%s: a signal afterwards: %v", c.what, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	p, err := b.Start(ctx, &backend.Exec{Argv: []string{"sleep"}})
	must.Do(t, err)
	cancel()
	if r := p.Wait(); r.Status != status.KilledKill || r.Cause != status.CauseContext {
		t.Errorf("cancelled: %s by %s", r.Status, r.Cause)
	}
	for want, err := range map[status.Status]error{
		status.ExecFailed:    &outcome.ExecError{Path: "x", Errno: syscall.ENOENT, Step: "lookup"},
		status.InternalError: &outcome.SetupError{Step: "start", Op: "x"},
	} {
		s.fail = err
		r := start(t, b, &backend.Exec{}, "x").Wait()
		if r.Status != want || r.DurationMS != 0 || r.Enforced[status.WallTime].Applied {
			t.Errorf("%v: %+v", err, r)
		}
	}
}

// TestALimitOfAllEndsAll: who runs has the cause, and the sandbox too.
func TestALimitOfAllEndsAll(t *testing.T) {
	b, s := box(t, nil)
	var told []status.Capability
	p := start(t, b, &backend.Exec{Tell: func(e backend.Event) { told = append(told, e.Limit) }}, "sleep")
	other := start(t, b, &backend.Exec{}, "sleep")
	b.End(status.CauseCPUGroup, "enough")
	for _, p := range []backend.Process{p, other} {
		if r := p.Wait(); r.Status != status.CPULimit || r.Cause != status.CauseCPUGroup || r.Reason != "enough" || !slices.Equal(r.LimitsHit, []string{"cpu_time"}) {
			t.Errorf("%s by %s, %q: %s", r.Status, r.Cause, r.LimitsHit, r.Reason)
		}
	}
	<-b.Done()
	r, err := b.Close()
	if err != nil || r.Cause != status.CauseCPUGroup || !slices.Equal(r.LimitsHit, []string{"cpu_time"}) || r.Usage.CPUMS != 7 || len(r.Violations) != 1 || !s.closed {
		t.Errorf("%+v, %v", r, err)
	}
	if !slices.Equal(told, []status.Capability{status.CPUTime}) {
		t.Errorf("told: %q", told)
	}
	if _, err := b.Start(t.Context(), &backend.Exec{Argv: []string{"sleep"}}); !errors.Is(err, backend.ErrClosed) {
		t.Error(err)
	}
}

// TestRefusedMemory: what failed after it was refused memory failed for that, and what went on did not.
func TestRefusedMemory(t *testing.T) {
	b, s := box(t, nil)
	for _, c := range []struct {
		e    exit
		want status.Status
	}{{exit{code: 1}, status.MemLimit}, {exit{}, status.OK}} {
		p := start(t, b, &backend.Exec{}, "sleep")
		b.Reached(status.Memory)
		s.targets[len(s.targets)-1].over(c.e)
		if r := p.Wait(); r.Status != c.want || !slices.Contains(r.LimitsHit, "memory") {
			t.Errorf("%+v: %s, %q", c.e, r.Status, r.LimitsHit)
		}
	}
	p := start(t, b, &backend.Exec{}, "exit", "1")
	if r := p.Wait(); r.Status != status.Failed || len(r.LimitsHit) > 0 {
		t.Errorf("another's: %s, %q", r.Status, r.LimitsHit)
	}
}

// seeing is a system whose gateway has refused something.
type seeing struct{ system }

func (*seeing) Traffic() *status.Traffic { return &status.Traffic{SentBytes: 7} }
func (*seeing) Refused() int64           { return 2 }

// TestWhatIsRefusedIsTold, in the report of who failed, and to whoever listens.
func TestWhatIsRefusedIsTold(t *testing.T) {
	p := config.Default()
	p.AllowPartial = []string{config.WordAll}
	b := New(t.Context(), "test", &backend.Spec{Policy: &p}, status.Ledger{}, &seeing{})
	told := make(chan backend.Event, 2)
	b.Tell(func(e backend.Event) { told <- e })
	run, err := b.Start(t.Context(), &backend.Exec{Argv: []string{"sleep"}, Tell: func(e backend.Event) { told <- e }})
	must.Do(t, err)
	b.Denied(status.Violation{What: "evil.test:443"})
	for range 2 {
		if e := <-told; e.Denied == nil || e.Denied.What != "evil.test:443" {
			t.Errorf("%+v", e)
		}
	}
	_ = run.Signal(os.Kill)
	run.Wait()
	failing, err := b.Start(t.Context(), &backend.Exec{Argv: []string{"exit", "1"}})
	must.Do(t, err)
	if r := failing.Wait(); r.Status != status.SandboxDenied {
		t.Errorf("%s: %s", r.Status, r.Reason)
	}
	if whole, err := b.Close(); err != nil || whole.Network == nil || whole.Network.SentBytes != 7 {
		t.Errorf("%+v, %v", whole, err)
	}
}
