// Package conformance is what every backend has to do, as tests.
package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

// Target is what is tested.
type Target struct {
	Backend backend.Backend
	// Program gives the words of a process that does what is said: "echo WORDS", "cat", "exit N", "sleep", "write FILE WORDS", "read FILE",
	// "env NAME", "pwd", "size" (of its terminal: "ROWS COLS"), "err WORDS" (to standard error), "flood" (without end), "burn" (uses CPU time without end, in a process of its own), "denied" (a system
	// call that no policy allows, and then "sleep").
	Program func(does ...string) []string
	// Snapshots: it has them.
	Snapshots bool
	// Forks: a sandbox that a test begins with is a fork of one that none of them touches, where another takes seconds to begin.
	Forks bool
	// Without are tests of what it says that it hasn't, and why. There has to be a test of that name.
	Without map[string]string
}

// Run runs the suite.
func Run(t *testing.T, target Target) {
	s, left := suite{Target: target}, map[string]bool{}
	if s.Forks {
		s.first = s.fresh(t)
	}
	for _, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"plans", s.plans},
		{"a run is a sandbox with one process", s.run},
		{"processes one after another", s.sequence},
		{"processes at once", s.overlap},
		{"streams", s.streams},
		{"environment and directory", s.surroundings},
		{"signals", s.signals},
		{"terminals", s.terminals},
		{"limits of one process", s.limits},
		{"files", s.files},
		{"links", s.links},
		{"permissions and names", s.permissionsAndNames},
		{"watching", s.watching},
		{"ends", s.ends},
		{"snapshots", layered{s}.snapshots},
		{"snapshots diverge", layered{s}.divergence},
		{"what was removed", layered{s}.removals},
		{"forks", layered{s}.forks},
		{"forks of who is busy", layered{s}.busyForks},
		{"beginnings", layered{s}.beginnings},
		{"changes so far", layered{s}.changesSoFar},
		{"snapshots of others", layered{s}.otherPlaces},
		{"snapshots that were thrown away", layered{s}.thrownAway},
		{"usage", s.usage},
		{"events", s.events},
		{"network", s.network},
	} {
		if why := target.Without[test.name]; why != "" {
			t.Logf("without %q: %s", test.name, why)
			left[test.name] = true
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t)
		})
	}
	for name := range target.Without {
		if !left[name] {
			t.Errorf("there is no test %q", name)
		}
	}
}

type suite struct {
	Target
	first backend.Sandbox // what others are forks of
}

func (s suite) spec(t *testing.T) *backend.Spec {
	p := config.Default()
	p.TimeLimit, p.MemoryLimit, p.Grace = time.Minute, 512<<20, 100*time.Millisecond
	p.Env.Pass = append(p.Env.Pass, "CONFORMANCE_*")
	p.AllowPartial = []string{config.WordAll}
	return &backend.Spec{Policy: &p, Argv: s.Program("exit", "0"), Dir: t.TempDir(), Environ: append(os.Environ(), "CONFORMANCE_PASSED=yes", "SECRET_OF_THE_CALLER=x")}
}

// open gives a sandbox that nobody else has.
func (s suite) open(t *testing.T) backend.Sandbox {
	t.Helper()
	if !s.Forks {
		return s.fresh(t)
	}
	box, err := s.first.Fork(t.Context())
	must.Do(t, err)
	t.Cleanup(func() { _, _ = box.Close() })
	return box
}

// Open opens a sandbox, which ends with the test.
func Open(t testing.TB, b backend.Backend, s *backend.Spec) backend.Sandbox {
	t.Helper()
	box, failed, err := backend.Open(t.Context(), b, s)
	if err != nil || failed != nil {
		t.Fatalf("%v, %+v", err, failed)
	}
	t.Cleanup(func() { _, _ = box.Close() })
	return box
}

// Close ends a sandbox.
func Close(t testing.TB, box backend.Sandbox) {
	t.Helper()
	if _, err := box.Close(); err != nil {
		t.Error(err)
	}
}

// fresh opens a sandbox that is a fork of none.
func (s suite) fresh(t *testing.T) backend.Sandbox {
	t.Helper()
	return Open(t, s.Backend, s.spec(t))
}

// start starts a process that does something, and gives where its output goes.
func (s suite) start(t *testing.T, box backend.Sandbox, e *backend.Exec, does ...string) (backend.Process, *buffer) {
	t.Helper()
	out := &buffer{}
	if e == nil {
		e = &backend.Exec{}
	}
	e.Argv = s.Program(does...)
	if e.Stdout == nil {
		e.Stdout = out
	}
	p, err := box.Start(t.Context(), e)
	must.Do(t, err)
	return p, out
}

// says is what a process prints that ends well.
func (s suite) says(t *testing.T, box backend.Sandbox, e *backend.Exec, does ...string) string {
	t.Helper()
	p, out := s.start(t, box, e, does...)
	if r := p.Wait(); r.Status != status.OK {
		t.Errorf("%q: %s: %s", does, r.Status, r.Reason)
	}
	return out.String()
}

func (s suite) plans(t *testing.T) {
	one, err := s.Backend.Plan(t.Context(), s.spec(t))
	must.Do(t, err)
	if one.Ledger()[status.WallTime].Mechanism == "" {
		t.Errorf("a ledger without wall time: %+v", one.Ledger())
	}
	spec := s.spec(t)
	spec.Policy.MemoryLimit = 64 << 20
	other, err := s.Backend.Plan(t.Context(), spec)
	if err != nil || one.Key() == other.Key() {
		t.Errorf("another limit on memory, and the same key; %v", err)
	}
	same, err := s.Backend.Plan(t.Context(), spec)
	if err != nil || same.Key() != other.Key() {
		t.Errorf("the same twice, and two keys; %v", err)
	}
	for range 2 {
		box, err := s.Backend.Build(t.Context(), one)
		must.Do(t, err)
		if got := s.says(t, box, nil, "echo", "built"); got != "built\n" {
			t.Errorf("built from a plan: %q", got)
		}
		Close(t, box)
	}
	spec.Policy.AllowPartial, spec.Policy.Require = nil, []string{"isolation=none-such"}
	if _, err := s.Backend.Plan(t.Context(), spec); !errors.As(err, new(*config.Unenforceable)) {
		t.Errorf("what can't be had: %v", err)
	}
	box, failed, err := backend.Open(t.Context(), s.Backend, spec)
	if box != nil || err != nil || failed == nil || failed.Status != status.InternalError || failed.Backend != s.Backend.Name() {
		t.Errorf("what can't be had: %v, %+v", err, failed)
	}
}

func (s suite) run(t *testing.T) {
	for _, c := range []struct {
		does []string
		want string
		rc   int
	}{
		{[]string{"echo", "hello"}, "hello\n", 0},
		{[]string{"exit", "3"}, "", 3},
	} {
		var out buffer
		p, err := backend.Run(t.Context(), s.Backend, s.spec(t), &backend.Exec{Argv: s.Program(c.does...), Stdout: &out})
		must.Do(t, err)
		r := p.Wait()
		if r.RC != c.rc || out.String() != c.want || r.Backend != s.Backend.Name() || r.PolicyDigest == "" || len(r.Enforced) == 0 {
			t.Errorf("%q: %d %q, %+v", c.does, r.RC, out.String(), r)
		}
		if again := p.Wait(); again.RC != r.RC {
			t.Errorf("another Wait: %+v", again)
		}
		if err := p.Signal(os.Kill); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("a signal after the end: %v", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	p, err := backend.Run(ctx, s.Backend, s.spec(t), &backend.Exec{Argv: s.Program("sleep")})
	must.Do(t, err)
	cancel()
	if r := p.Wait(); r.Status != status.KilledKill {
		t.Errorf("cancelled: %s: %s", r.Status, r.Reason)
	}
}

func (s suite) sequence(t *testing.T) {
	box := s.open(t)
	s.says(t, box, nil, "write", "/tmp/left", "by the first")
	if got := s.says(t, box, nil, "read", "/tmp/left"); got != "by the first" {
		t.Errorf("%q", got)
	}
	p, _ := s.start(t, box, nil, "exit", "7")
	if r := p.Wait(); r.RC != 7 || r.Status != status.Failed || r.ExitCode == nil || *r.ExitCode != 7 {
		t.Errorf("%+v", r)
	}
	p, err := box.Start(t.Context(), &backend.Exec{Argv: []string{"no-such-program-anywhere"}})
	must.Do(t, err)
	if r := p.Wait(); r.Status != status.ExecFailed || r.RC != 127 {
		t.Errorf("%+v", r)
	}
	if _, err := box.Start(t.Context(), &backend.Exec{}); !errors.As(err, new(*config.UsageError)) {
		t.Errorf("no command: %v", err)
	}
}

func (s suite) overlap(t *testing.T) {
	var all sync.WaitGroup
	for i := range 2 {
		all.Go(func() {
			box := s.open(t)
			var inside sync.WaitGroup
			for j := range 4 {
				inside.Go(func() {
					if got, want := s.says(t, box, nil, "echo", fmt.Sprint(i, j)), fmt.Sprintln(i, j); got != want {
						t.Errorf("%q, want %q", got, want)
					}
				})
			}
			s.says(t, box, nil, "write", fmt.Sprint("/tmp/of", i), "x")
			inside.Wait()
			if _, err := box.Files().Stat(fmt.Sprint("/tmp/of", 1-i)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("another sandbox's file: %v", err)
			}
		})
	}
	all.Wait()
}

func (s suite) streams(t *testing.T) {
	box := s.open(t)
	const text = "some\x00bytes\xff\n"
	if got := s.says(t, box, &backend.Exec{Stdin: strings.NewReader(text)}, "cat"); got != text {
		t.Errorf("%q", got)
	}
	if got := s.says(t, box, nil, "cat"); got != "" {
		t.Errorf("from the null device: %q", got)
	}
	big := strings.Repeat("0123456789abcdef", 1<<16)
	if got := s.says(t, box, &backend.Exec{Stdin: strings.NewReader(big)}, "cat"); got != big {
		t.Errorf("%d of %d bytes", len(got), len(big))
	}
	var errs buffer
	if got := s.says(t, box, &backend.Exec{Stderr: &errs}, "err", "aside"); got != "" || errs.String() != "aside\n" {
		t.Errorf("%q, %q", got, errs.String())
	}
	both := &buffer{}
	s.says(t, box, &backend.Exec{Stdout: both, Stderr: both}, "err", "together")
	if both.String() != "together\n" {
		t.Errorf("%q", both.String())
	}
	r, w, err := os.Pipe()
	must.Do(t, err)
	defer r.Close()
	s.says(t, box, &backend.Exec{Stdout: w}, "echo", "by descriptor")
	w.Close()
	if got, err := io.ReadAll(r); err != nil || string(got) != "by descriptor\n" {
		t.Errorf("%q, %v", got, err)
	}
	// A reader that never gives anything doesn't hold up the end.
	never, held := io.Pipe()
	defer held.Close()
	s.says(t, box, &backend.Exec{Stdin: never}, "exit", "0")
}

func (s suite) surroundings(t *testing.T) {
	box := s.open(t)
	for name, want := range map[string]string{"CONFORMANCE_PASSED": "yes", "SECRET_OF_THE_CALLER": "", "OWN": "first=second"} {
		if got := s.says(t, box, &backend.Exec{Env: []string{"OWN=no", "OWN=first=second"}}, "env", name); got != want+"\n" {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if got := s.says(t, box, &backend.Exec{Dir: "/tmp"}, "pwd"); got != "/tmp\n" {
		t.Errorf("%q", got)
	}
	s.says(t, box, nil, "write", "/tmp/file", "x")
	for _, name := range []string{"/no-such-directory", "/tmp/file", "/tmp/file/below", "/tmp/" + strings.Repeat("x", 300)} {
		var e *backend.DirError
		if p, err := box.Start(t.Context(), &backend.Exec{Argv: s.Program("pwd"), Dir: name}); !errors.As(err, &e) || e.Dir != name {
			t.Errorf("in %s: %v, %v", name, p, err)
		}
	}
}

func (s suite) signals(t *testing.T) {
	box := s.open(t)
	p, _ := s.start(t, box, nil, "sleep")
	in, feed := io.Pipe()
	defer feed.Close()
	read, out := io.Pipe()
	defer read.Close()
	other, _ := s.start(t, box, &backend.Exec{Stdin: in, Stdout: out}, "cat")
	if _, err := io.WriteString(feed, "x"); err != nil { // one that reads has begun; Wine's console ends others by a fault
		t.Error(err)
	}
	if _, err := read.Read(make([]byte, 1)); err != nil {
		t.Error(err)
	}
	all(t, p.Signal(os.Kill))
	if r := p.Wait(); r.Status != status.KilledKill || r.Signal != "SIGKILL" {
		t.Errorf("killed: %+v", r)
	}
	if err := p.Signal(os.Kill); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("killed again: %v", err)
	}
	all(t, other.Signal(os.Interrupt))
	if r := other.Wait(); r.Status == status.OK || r.Signal != "SIGINT" {
		t.Errorf("interrupted: %s, %s", r.Status, r.Signal)
	}
	ctx, cancel := context.WithCancel(t.Context())
	p, err := box.Start(ctx, &backend.Exec{Argv: s.Program("sleep")})
	must.Do(t, err)
	cancel()
	if r := p.Wait(); r.Status != status.KilledKill {
		t.Errorf("cancelled: %s", r.Status)
	}
	if _, err := box.Start(ctx, &backend.Exec{Argv: s.Program("sleep")}); !errors.Is(err, context.Canceled) {
		t.Errorf("started with a context that has ended: %v", err)
	}
	if got := s.says(t, box, nil, "echo", "still there"); got != "still there\n" {
		t.Errorf("%q", got)
	}
}

func (s suite) terminals(t *testing.T) {
	box := s.open(t)
	if got := s.says(t, box, &backend.Exec{TTY: &backend.WinSize{Rows: 17, Cols: 71}}, "size"); strings.TrimSpace(got) != "17 71" {
		t.Errorf("%q", got)
	}
	// At once after its start, too.
	p, _ := s.start(t, box, &backend.Exec{TTY: &backend.WinSize{Rows: 17, Cols: 71}}, "sleep")
	all(t, p.Resize(backend.WinSize{Rows: 18, Cols: 72}))
	_ = p.Signal(os.Kill)
	p.Wait()
	p, _ = s.start(t, box, nil, "sleep")
	if err := p.Resize(backend.WinSize{Rows: 1, Cols: 1}); err == nil {
		t.Error("a terminal that isn't there has another size")
	}
	_ = p.Signal(os.Kill)
	p.Wait()
}

func (s suite) limits(t *testing.T) {
	box := s.open(t)
	p, _ := s.start(t, box, &backend.Exec{Limits: backend.Limits{Time: 200 * time.Millisecond}}, "sleep")
	if r := p.Wait(); r.Status != status.Timeout || r.RC != 124 || !slices.Contains(r.LimitsHit, string(status.WallTime)) {
		t.Errorf("%s, %d, %q", r.Status, r.RC, r.LimitsHit)
	}
	// CPU time of one process, with those below it: it ends, and nobody else.
	other, _ := s.start(t, box, nil, "sleep")
	p, _ = s.start(t, box, &backend.Exec{Limits: backend.Limits{CPU: 300 * time.Millisecond, Time: 30 * time.Second}}, "burn")
	if r := p.Wait(); r.Status != status.CPULimit || r.RC != 152 || !slices.Contains(r.LimitsHit, string(status.CPUTime)) {
		t.Errorf("%s, %d, %q: %s", r.Status, r.RC, r.LimitsHit, r.Reason)
	} else if e := r.Enforced[status.CPUTime]; !e.Applied || !e.Effective {
		t.Errorf("%+v", e)
	}
	_ = other.Signal(os.Kill)
	if r := other.Wait(); r.Status != status.KilledKill || len(r.LimitsHit) > 0 {
		t.Errorf("the other: %s, %q", r.Status, r.LimitsHit)
	}
	p, out := s.start(t, box, &backend.Exec{Limits: backend.Limits{Output: 1000, Time: 10 * time.Second}}, "flood")
	for len(out.String()) < 1000 {
		time.Sleep(time.Millisecond)
	}
	_ = p.Signal(os.Kill)
	if r := p.Wait(); !r.Truncated.Stdout || r.Truncated.Stderr || !slices.Contains(r.LimitsHit, string(status.Output)) || !strings.HasSuffix(out.String(), "[TRUNCATED]\n") || len(out.String()) > 1100 {
		t.Errorf("%d bytes, %+v, %q", len(out.String()), r.Truncated, r.LimitsHit)
	}
	// It is no end: what ends by itself ends well.
	p, _ = s.start(t, box, &backend.Exec{Limits: backend.Limits{Output: 4}}, "echo", "too long")
	if r := p.Wait(); r.Status != status.OK || !r.Truncated.Stdout || !slices.Contains(r.LimitsHit, string(status.Output)) {
		t.Errorf("%s, %+v, %q", r.Status, r.Truncated, r.LimitsHit)
	}
	if got := s.says(t, box, nil, "echo", "still there"); got != "still there\n" {
		t.Errorf("%q", got)
	}
}

func (s suite) ends(t *testing.T) {
	box := s.open(t)
	p, _ := s.start(t, box, nil, "sleep")
	select {
	case <-box.Done():
		t.Error("done before it has ended")
	default:
	}
	r, err := box.Close()
	<-box.Done()
	if err != nil || len(box.Ledger()) == 0 || r.Backend != s.Backend.Name() || r.Version != status.ReportVersion || len(r.Enforced) == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if r := p.Wait(); r.Status == status.OK {
		t.Errorf("what ran at the end: %s", r.Status)
	}
	if again, err := box.Close(); again != r || err != nil {
		t.Errorf("closed again: %+v, %v", again, err)
	}
	if _, err := box.Start(t.Context(), &backend.Exec{Argv: s.Program("exit", "0")}); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("started in what is closed: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	box, failed, err := backend.Open(ctx, s.Backend, s.spec(t))
	if err != nil || failed != nil {
		t.Fatalf("%v, %+v", err, failed)
	}
	p, _ = s.start(t, box, nil, "sleep")
	cancel()
	if r := p.Wait(); r.Status != status.KilledKill {
		t.Errorf("the sandbox's context has ended: %s", r.Status)
	}
	<-box.Done()
	Close(t, box)
}

// buffer can be read while it is written to.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
