package process

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor"
)

func TestMain(m *testing.M) {
	Init()
	// What is left in the place for temporary files is this package's, whoever else tests meanwhile.
	dir, err := os.MkdirTemp("", "own")
	if err == nil {
		err = os.Setenv("TMPDIR", dir)
	}
	if err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// boxOf builds one as a policy has it, and gives what starts a shell's script in it.
func boxOf(t *testing.T, ctx context.Context, change func(*config.Policy)) (*supervisor.Sandbox, func(script string, change ...func(*handoff.Exec)) *supervisor.Process) {
	t.Helper()
	policy := config.Default()
	policy.TimeLimit, policy.MemoryLimit, policy.Processes = time.Minute, 512<<20, 256
	if change != nil {
		change(&policy)
	}
	dir := t.TempDir()
	p, err := NewPlan(&policy, &Command{Argv: []string{"/bin/sh"}, Dir: dir, Environ: []string{"PATH=/usr/bin:/bin"}})
	must.Do(t, err)
	none := supervisor.Options{Stdin: -1, Stdout: -1, Stderr: -1}
	ready := supervisor.Prepare(p.Namespaces, none)
	box, failed := ready.Build(ctx, &p.Plan, -1, nil)
	if failed != nil {
		t.Skip("no sandbox can be built here: ", failed.Reason)
	}
	return box, func(script string, change ...func(*handoff.Exec)) *supervisor.Process {
		t.Helper()
		e := p.Exec
		e.Argv = []string{"sh", "-c", script}
		for _, f := range change {
			f(&e)
		}
		o := none
		o.Capture = true
		process, failed := box.Start(&e, o, p.judge(), p.refuses)
		if failed != nil {
			t.Error(failed)
		}
		return process
	}
}

func TestASandboxHoldsProcesses(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	box, sh := boxOf(t, ctx, nil)
	says := func(script, want string, rc int) {
		t.Helper()
		if r := sh(script).Wait(ctx); r.RC != rc || r.Stdout != want {
			t.Errorf("%s: %s %d %q %q, %+v", script, r.Status, r.RC, r.Stdout, r.Stderr, r.SetupError)
		}
	}
	says("echo one; exit 3", "one\n", 3)
	// What the first leaves behind is there for the next.
	says("echo left >/tmp/f; sleep 100 >/dev/null 2>&1 & echo $! >/tmp/pid", "", 0)
	says("cat /tmp/f; kill $(cat /tmp/pid)", "left\n", 0)
	if r := sh("x", func(e *handoff.Exec) { e.Argv = []string{"nosuch"} }).Wait(ctx); r.Status != status.ExecFailed || r.RC != 127 {
		t.Errorf("a command that isn't there: %+v", r)
	}

	// Side by side, each with streams and an end of its own.
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			want := fmt.Sprintf("%d\n", i)
			if r := sh(fmt.Sprintf("sleep 0.%d; echo %d; exit %d", i%5, i, i)).Wait(ctx); r.RC != i || r.Stdout != want {
				t.Errorf("%d: %s %d %q", i, r.Status, r.RC, r.Stdout)
			}
		})
	}
	all.Wait()

	// One that is ended leaves the others alone.
	other, killed := sh("sleep 1; echo there"), sh("sleep 100")
	killed.Signal(unix.SIGKILL)
	if r := killed.Wait(ctx); r.Status != status.KilledKill || r.Cause != status.CauseCaller {
		t.Errorf("killed: %s, %s", r.Status, r.Cause)
	}
	asked := sh("trap 'echo asked; exit 5' TERM; touch /tmp/ready; while :; do sleep 0.1; done")
	says("while ! test -e /tmp/ready; do sleep 0.01; done", "", 0)
	asked.Signal(unix.SIGTERM)
	if r := asked.Wait(ctx); r.RC != 5 || r.Stdout != "asked\n" {
		t.Errorf("asked to end: %s %d %q", r.Status, r.RC, r.Stdout)
	}
	if r := other.Wait(ctx); r.RC != 0 || r.Stdout != "there\n" {
		t.Errorf("beside them: %s %d %q", r.Status, r.RC, r.Stdout)
	}

	// Terminals, the second one while the first is there.
	tty := func(e *handoff.Exec) { e.TTY = [3]bool{true, true, true} }
	first, second := sh("test -t 0 && sleep 0.5; tty", tty), sh("test -t 1 && tty && ps -o sess= -p $$ >/dev/null", tty)
	for _, p := range []*supervisor.Process{second, first} {
		if r := p.Wait(ctx); r.RC != 0 || !strings.HasPrefix(r.Stdout, "/dev/pts/") {
			t.Errorf("on a terminal: %s %d %q", r.Status, r.RC, r.Stdout)
		}
	}

	long := sh("sleep 100")
	if r := box.Close(); r.SetupError != nil || r.Usage.CPUMS == 0 || r.Enforced[status.Memory].Mechanism == "" {
		t.Errorf("%+v", r)
	}
	if r := long.Wait(ctx); r.RC == 0 {
		t.Errorf("what ran at the end: %+v", r)
	}
	if p, failed := box.Start(&handoff.Exec{Argv: []string{"true"}}, supervisor.Options{Stdin: -1, Stdout: -1, Stderr: -1}, nil, nil); failed == nil {
		t.Errorf("a process in a sandbox that is closed: %v", p)
	}
}

func TestASandboxEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	box, sh := boxOf(t, ctx, nil)
	p := sh("sleep 100")
	cancel()
	if r := p.Wait(context.Background()); r.Cause != status.CauseContext {
		t.Errorf("%s, %s", r.Status, r.Cause)
	}
	box.Close()
}

func TestSandboxesOverlap(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			box, sh := boxOf(t, ctx, nil)
			for j := range 3 {
				want := fmt.Sprintf("%d %d\n", i, j)
				// Each has a /tmp of its own, and no other's files are in it.
				if r := sh(fmt.Sprintf("touch /tmp/mine%d; test $(ls /tmp | grep -c mine) = 1 && echo %d %d", i, i, j)).Wait(ctx); r.Stdout != want {
					t.Errorf("%q, want %q", r.Stdout, want)
				}
			}
			if r := box.Close(); r.SetupError != nil {
				t.Error(r.SetupError)
			}
		})
	}
	all.Wait()
}

// What one process leaves running may hold its streams, and write to them: the end of that one process is told all the
// same, with all that it wrote itself.
func TestWhatAProcessLeavesRunningHoldsUpNothing(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	box, sh := boxOf(t, ctx, nil)
	defer box.Close()
	for _, tty := range []bool{false, true} {
		change := func(e *handoff.Exec) { e.TTY = [3]bool{tty, tty, tty} }
		for _, left := range []string{"sleep 100", "(trap '' HUP; while :; do echo noise; done)"} {
			r := sh("i=0; while [ $i -lt 2000 ]; do echo mine mine mine; i=$((i+1)); done; "+left+" & sleep 0.1; echo last", change).Wait(ctx)
			if n := strings.Count(r.Stdout, "mine mine mine"); r.Status != status.OK || n != 2000 || !strings.Contains(r.Stdout, "last") {
				t.Errorf("%s, terminal %t: %s, %d lines, %d bytes", left, tty, r.Status, n, len(r.Stdout))
			}
		}
	}
}

// A server that goes on in the background is not ended by what it writes.
func TestWhatIsLeftRunningMayWrite(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	box, sh := boxOf(t, ctx, nil)
	defer box.Close()
	if r := sh("(i=0; while [ $i -lt 3000 ]; do echo a line of the server; i=$((i+1)); done; sleep 0.2; echo x && touch /tmp/went-on) & exit 0").Wait(ctx); r.Status != status.OK {
		t.Error(r.Status)
	}
	if r := sh("while ! test -e /tmp/went-on; do sleep 0.05; done").Wait(ctx); r.Status != status.OK {
		t.Errorf("%s: %s", r.Status, r.Reason)
	}
}
