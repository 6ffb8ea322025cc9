package integration

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

// deniedOften is a run that is denied a call n times, or for ever.
func (p *place) deniedOften(t *testing.T, n string) *exec.Cmd {
	return p.command(t.Context(), "confine", "--report", p.own+"/report.json", "--time-limit", "5m", "--cpu-time", "5m", "--allow-read", p.own+"/bin",
		"--", p.program("attempt"), "often", n)
}

// TestAHundredThousandDenialsAreCounted: all of them are answered and counted, and the supervisor
// stays small.
func TestAHundredThousandDenialsAreCounted(t *testing.T) {
	t.Parallel()
	const n, memory = 100_000, 64 << 10 // KiB
	needs(t, "seccomp_user_notif")
	p := placeOf(t)
	cmd := p.deniedOften(t, "100000")
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != exitRefused {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(p.own + "/report.json")
	must.Do(t, err)
	var r status.Report
	must.Do(t, json.Unmarshal(text, &r))
	if r.Status != status.SandboxDenied || len(r.Violations) != 1 || r.Violations[0].Count != n {
		t.Errorf("%s", text)
	}
	if got := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss; got >= memory {
		t.Errorf("%d KiB", got)
	} else {
		t.Logf("%d KiB, %d ms", got, r.DurationMS)
	}
}

// TestNothingOutlivesASupervisorKilledAmongDenials: whoever asks it, nobody outlives it.
func TestNothingOutlivesASupervisorKilledAmongDenials(t *testing.T) {
	t.Parallel()
	needs(t, "seccomp_user_notif")
	p := placeOf(t)
	for range 5 {
		cmd := p.deniedOften(t, "0")
		stdout, err := cmd.StdoutPipe()
		must.Do(t, err)
		must.Do(t, cmd.Start())
		if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "began\n" {
			t.Errorf("%q, %v", line, err)
		}
		must.Do(t, cmd.Process.Kill())
		_, _ = io.Copy(io.Discard, stdout)
		_ = cmd.Wait()
		if left := p.stays(); len(left) > 0 {
			t.Fatalf("left behind: %v", left)
		}
	}
}
