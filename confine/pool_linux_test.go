package confine_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/confine-run/confine/confine"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

// newPool is a pool of which so many are ready.
func newPool(t *testing.T, size confine.PoolOptions) *confine.Pool {
	t.Helper()
	policy, err := confine.Profile("standard")
	must.Do(t, err)
	policy.Filesystem.Workdir, policy.AllowPartial = "none", []string{"all"}
	p, err := confine.NewPool(t.Context(), policy, size)
	must.Do(t, err)
	t.Cleanup(p.Close)
	filled(t, p, size.Min)
	return p
}

func filled(t *testing.T, p *confine.Pool, n int) {
	t.Helper()
	for until := time.Now().Add(30 * time.Second); p.Stats().Ready < n; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("%+v", p.Stats())
		}
	}
}

// inits are the children of this process: the inits of its sandboxes.
func inits(t *testing.T) (pids []int) {
	t.Helper()
	lists, err := filepath.Glob("/proc/self/task/*/children")
	must.Do(t, err)
	for _, list := range lists {
		text, _ := os.ReadFile(list) // a thread may have ended
		for _, word := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(word)
			must.Do(t, err)
			pids = append(pids, pid)
		}
	}
	return pids
}

// holds says whether a process has a word somewhere in its memory.
func holds(t *testing.T, pid int, word string) bool {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	must.Do(t, err)
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	must.Do(t, err)
	defer memory.Close()
	for line := range strings.Lines(string(maps)) {
		var from, to uint64
		var mode string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &mode); err != nil {
			t.Fatal(err)
		}
		if mode[0] != 'r' || to-from > 64<<20 {
			continue
		}
		some := make([]byte, to-from)
		n, _ := memory.ReadAt(some, int64(from)) // what can't be read is the kernel's
		if bytes.Contains(some[:n], []byte(word)) {
			return true
		}
	}
	return false
}

// Environment, arguments and input of one command are nowhere in the memory of what waits for the next. The command's own
// init has them, which shows that they would be found.
func TestSecretsOfACommandAreInNoParkedSandbox(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the inits are not dumpable: only root reads their memory")
	}
	p := newPool(t, confine.PoolOptions{Min: 3, Max: 3})
	box, err := p.Open(t.Context())
	must.Do(t, err)
	defer box.Close()
	secret := "hunter2-" + strconv.Itoa(os.Getpid())
	cmd := box.Command("sh", "-c", "cat; echo $S; sleep 0.05", secret)
	cmd.Env, cmd.Stdin = []string{"S=" + secret}, strings.NewReader(secret)
	if _, err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	must.Do(t, box.Files().WriteFile("/tmp/secret", []byte(secret), 0o600))
	filled(t, p, 3)
	with := 0
	all := inits(t)
	for _, pid := range all {
		if holds(t, pid, secret) {
			with++
		}
	}
	if len(all) < 4 || with != 1 {
		t.Errorf("%d of %d inits hold the secret", with, len(all))
	}
	out, _, err := p.Command("sh", "-c", "test ! -e /tmp/secret && tr '\\0' '\\n' </proc/self/environ; env; ps -ef 2>/dev/null").Output()
	if err != nil || strings.Contains(string(out), "hunter2") {
		t.Errorf("%v: %s", err, out)
	}
}

// A command that ends at once is reaped by the thread that started it, and others are by another: both at once, with
// orphans, lose nobody.
func TestShortAndLongProcessesOfASandboxAreAllReaped(t *testing.T) {
	p := newPool(t, confine.PoolOptions{Min: 1, Max: 1})
	box, err := p.Open(t.Context())
	must.Do(t, err)
	defer box.Close()
	run := func(script string, want int) {
		if r, _ := box.Command("sh", "-c", script).Run(); r == nil || r.ExitCode == nil || *r.ExitCode != want {
			t.Errorf("%s: %+v", script, r)
		}
	}
	for range 20 {
		run("exit 3", 3)
	}
	run("(sleep 0.02; echo x >/tmp/late) & exit 4", 4) // an orphan of a short one
	run("exit 5", 5)
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() { run(fmt.Sprintf("(sleep 0.01 &) ; sleep 0.0%d; exit %d", i%5, i), i) })
	}
	group.Wait()
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		out, _, err := box.Command("sh", "-c", "cat /tmp/late; grep -h '^State:' /proc/[0-9]*/status | grep -c Z").Output()
		if strings.HasPrefix(string(out), "x\n0") {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("%s, %v", out, err)
		}
	}
}

// Inits that are killed while they are parked, and in the moment that they are claimed, cost no command its result.
func TestInitsThatAreKilledAreReplaced(t *testing.T) {
	p := newPool(t, confine.PoolOptions{Min: 4, Max: 8})
	for _, pid := range inits(t) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	}
	ended := 0
	for range 20 {
		if r, _ := p.Command("true").Run(); r == nil || r.Status != status.OK {
			ended++
		}
	}
	// One that is started in the microseconds between an init's death and the news of it fails, and says so.
	if ended > 4 {
		t.Errorf("%d of 20 commands failed", ended)
	}
	filled(t, p, 4)
	if r, err := p.Command("true").Run(); err != nil {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestACommandOfAPoolEndsWithItsContext(t *testing.T) {
	p := newPool(t, confine.PoolOptions{Min: 1, Max: 1})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if r, _ := p.CommandContext(ctx, "sleep", "100").Run(); r == nil || r.Status != status.KilledKill || r.Cause != status.CauseContext && r.Cause != status.CauseCaller {
		t.Errorf("%+v", r)
	}
	if r, err := p.CommandContext(ctx, "true").Run(); err == nil {
		t.Errorf("whoever has gone gets a result: %+v", r)
	}
	cmd := p.Command("true")
	if cmd.Policy = confine.Default(); cmd.Start() == nil {
		t.Error("a command of a pool has a policy of its own")
	}
}

func TestManyCommandsOfAPoolLeaveNothing(t *testing.T) {
	leavesNothing(t, func() {
		policy := confine.Default()
		policy.AllowPartial = []string{"all"}
		p, err := confine.NewPool(t.Context(), policy, confine.PoolOptions{Min: 2, Max: 4})
		must.Do(t, err)
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				out, r, err := p.Command("sh", "-c", "sleep 100 & echo out; echo err >&2").Output()
				if err != nil || string(out) != "out\n" || r.Bytes.Stderr != 4 {
					t.Errorf("%q, %+v, %v", out, r, err)
				}
			})
		}
		group.Wait()
		p.Close()
	})
}

// A process that may have 256 descriptors serves whatever it is asked for at once: what there is no room for waits.
func TestABurstWithFewDescriptorsIsServed(t *testing.T) {
	const inner, at = "CONFINE_TEST_BURST", 150
	if os.Getenv(inner) == "" {
		program, err := os.Executable()
		must.Do(t, err)
		cmd := exec.Command("sh", "-c", `ulimit -n 256 && exec "$0" -test.run='^TestABurstWithFewDescriptorsIsServed$'`, program)
		cmd.Env = append(os.Environ(), inner+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	p := newPool(t, confine.PoolOptions{Min: 1, Max: 2, Patience: 5 * time.Minute})
	var group sync.WaitGroup
	for range at {
		group.Go(func() {
			if r, err := p.Command("true").Run(); err != nil || r.RC != 0 {
				t.Errorf("%v", err)
			}
		})
	}
	group.Wait()
	if s := p.Stats(); s.Parked.Claims+s.Cold.Claims != at || s.Refused != 0 || s.Waiting != 0 {
		t.Errorf("%+v", s)
	}
}
