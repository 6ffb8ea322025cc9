package integration

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/status"
)

// deniedOften is a run that is denied a call n times, or for ever.
func deniedOften(t *testing.T, n string) (cmd *exec.Cmd, report string, s *stock) {
	t.Helper()
	if ok, err := host.Has("seccomp_user_notif"); err != nil {
		t.Fatal(err)
	} else if !ok {
		if err := host.MustRun("seccomp_user_notif"); err != nil {
			t.Fatal(err)
		}
		t.Skip("no seccomp_user_notif")
	}
	own, work := filepath.Join(scene.dir, "own", t.Name()), filepath.Join(scene.dir, "work", t.Name())
	for _, dir := range []string{own + "/bin", own + "/tmp", own + "/home", work} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"confine", "attempt"} {
		if err := copyProgram(filepath.Join(scene.programs, name), filepath.Join(own, "bin", name)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := takeStock(own, work)
	if err != nil {
		t.Fatal(err)
	}
	report = filepath.Join(own, "report.json")
	cmd = exec.Command(own+"/bin/confine", "--report", report, "--time-limit", "5m", "--cpu-time", "5m", "--allow-read", own+"/bin",
		"--", own+"/bin/attempt", "often", n)
	cmd.Dir = work
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + own + "/home", "TMPDIR=" + own + "/tmp", "GOCOVERDIR=" + os.Getenv("GOCOVERDIR")}
	if os.Getenv("CONFINE_TEST_PARTIAL") != "" {
		cmd.Env = append(cmd.Env, "CONFINE_ALLOW_PARTIAL=all")
	}
	return cmd, report, s
}

// TestAFloodOfDenials: all of them are answered and counted, and the supervisor
// stays small.
func TestAFloodOfDenials(t *testing.T) {
	const n, memory = 100_000, 64 << 10 // KiB
	cmd, report, _ := deniedOften(t, "100000")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitRefused {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	var r status.Report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if r.Status != status.SandboxDenied || len(r.Violations) != 1 || r.Violations[0].Count != n {
		t.Errorf("%s", text)
	}
	if got := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss; got >= memory {
		t.Errorf("%d KiB", got)
	} else {
		t.Logf("%d KiB, %d ms", got, r.DurationMS)
	}
}

// TestTheSupervisorDiesInAFloodOfDenials: whoever asks it, nobody outlives it.
func TestTheSupervisorDiesInAFloodOfDenials(t *testing.T) {
	cmd, _, s := deniedOften(t, "0")
	for range 5 {
		cmd := &exec.Cmd{Path: cmd.Path, Args: cmd.Args, Dir: cmd.Dir, Env: cmd.Env}
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "began\n" {
			t.Errorf("%q, %v", line, err)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, stdout)
		_ = cmd.Wait()
		left := s.left()
		for end := time.Now().Add(patience); len(left) > 0 && time.Now().Before(end); left = s.left() {
			time.Sleep(5 * time.Millisecond)
		}
		if len(left) > 0 {
			t.Fatalf("left behind: %v", left)
		}
	}
}
