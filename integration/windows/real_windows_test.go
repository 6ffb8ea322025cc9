package windows

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/confine-run/confine/integration/built"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

// unheld are what nothing holds on Windows. A run that goes on without these and nothing else shows that all others hold.
const unheld = "--allow-partial=file_descriptors,filesystem,network,syscalls,tasks"

func TestEverythingElseHolds(t *testing.T) {
	onWindows(t)
	r := built.Report(t, built.Command(t, append([]string{unheld, "--"}, built.Does("exit", "0")...)...))
	if r.Status != status.OK {
		t.Fatalf("%s: %s", r.Status, r.Reason)
	}
	for _, c := range []status.Capability{status.Containment, status.Privileges, status.Memory, status.CPUTime, status.WallTime, status.Output, status.Disk} {
		if e := r.Enforced[c]; !e.Applied || !e.Effective {
			t.Errorf("%s: %+v", c, e)
		}
	}
	if r.Usage.MemoryPeakBytes == 0 || r.Usage.TasksStarted == 0 {
		t.Errorf("%+v", r.Usage)
	}
}

func TestMemoryLimit(t *testing.T) {
	onWindows(t)
	if err := exec.Command(built.Does("allocate", "1024")[0], built.Does("allocate", "1024")[1:]...).Run(); err != nil {
		t.Fatal("control:", err)
	}
	r := built.Report(t, built.Command(t, append([]string{unheld, "-m", "200M", "--"}, built.Does("allocate", "1024")...)...))
	if r.Status != status.MemLimit || r.RC != 137 || !slices.Contains(r.LimitsHit, string(status.Memory)) {
		t.Errorf("%s, %d, %q: %s", r.Status, r.RC, r.LimitsHit, r.Reason)
	}
}

func TestProcessLimit(t *testing.T) {
	onWindows(t)
	r := built.Report(t, built.Command(t, append([]string{unheld, "--processes", "5", "-t", "20s", "--"}, built.Does("bomb")...)...))
	if r.Status != status.OK || strings.TrimSpace(r.Stdout) == "" || !slices.Contains(r.LimitsHit, string(status.Tasks)) {
		t.Errorf("%s, %q, %q", r.Status, r.Stdout, r.LimitsHit)
	}
}

func TestCPUTimeLimit(t *testing.T) {
	onWindows(t)
	r := built.Report(t, built.Command(t, append([]string{unheld, "--cpu-time", "1s", "-t", "30s", "--"}, built.Does("spin")...)...))
	if r.Status != status.CPULimit || r.RC != 152 || r.Usage.CPUMS < 900 {
		t.Errorf("%s, %d, %+v", r.Status, r.RC, r.Usage)
	}
}

// TestWritesAreHeld: outside of what was granted nothing is written, and in it what is protected stays.
func TestWritesAreHeld(t *testing.T) {
	onWindows(t)
	outside := t.TempDir()
	control := exec.Command(built.Does("write", filepath.Join(outside, "control"))[0], built.Does("write", filepath.Join(outside, "control"))[1:]...)
	if err := control.Run(); err != nil {
		t.Fatal("control:", err)
	}
	if r := built.Report(t, built.Command(t, append([]string{unheld, "--workdir", "rw", "--"}, built.Does("write", filepath.Join(outside, "x"))...)...)); r.Status != status.Failed {
		t.Errorf("a file outside was written: %s, %s", r.Status, r.Stderr)
	}
	c := built.Command(t, append([]string{unheld, "--workdir", "rw", "--"}, built.Does("write", "x")...)...)
	hooks := filepath.Join(c.Dir, ".git", "hooks")
	must.Do(t, os.MkdirAll(hooks, 0o700))
	dir := c.Dir
	if r := built.Report(t, c); r.Status != status.OK {
		t.Errorf("a file in the granted directory was not written: %s, %s", r.Status, r.Stderr)
	}
	for _, words := range [][]string{{"write", filepath.Join(hooks, "pre-push")}, {"remove", hooks}, {"remove", filepath.Join(dir, ".git")}} {
		c := built.Command(t, append([]string{unheld, "--workdir", "rw", "--"}, built.Does(words...)...)...)
		c.Dir = dir
		built.Report(t, c)
		if _, err := os.Stat(hooks); err != nil {
			t.Errorf("%q: %v", words, err)
		}
		if _, err := os.Stat(filepath.Join(hooks, "pre-push")); err == nil {
			t.Errorf("%q: a hook was written", words)
		}
	}
	out, err := exec.Command("icacls", dir, "/t").CombinedOutput()
	if err != nil || strings.Contains(string(out), "S-1-9-") || strings.Contains(string(out), "Mandatory Label") {
		t.Errorf("what was granted was not taken back: %v\n%s", err, out)
	}
}

// TestJunctionsAreNotGranted: an ACE doesn't reach what a junction in the tree leads to, and no run writes there by it.
func TestJunctionsAreNotGranted(t *testing.T) {
	onWindows(t)
	outside := t.TempDir()
	c := built.Command(t, append([]string{unheld, "--workdir", "rw", "--"}, built.Does("write", `link\x`)...)...)
	if out, err := exec.Command("cmd", "/c", "mklink", "/J", filepath.Join(c.Dir, "link"), outside).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if r := built.Report(t, c); r.Status != status.Failed {
		t.Errorf("%s: %s", r.Status, r.Stderr)
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
	if out, err := exec.Command("icacls", outside).CombinedOutput(); err != nil || strings.Contains(string(out), "S-1-9-") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestNoPrivileges(t *testing.T) {
	onWindows(t)
	r := built.Report(t, built.Command(t, unheld, "--", "whoami", "/priv"))
	if r.Status != status.OK || strings.Count(r.Stdout, "Privilege") < 1 || strings.Contains(r.Stdout, "SeShutdownPrivilege") || strings.Contains(r.Stdout, "SeDebugPrivilege") {
		t.Errorf("%s: %s", r.Status, r.Stdout)
	}
	r = built.Report(t, built.Command(t, unheld, "--", "whoami", "/groups"))
	if !strings.Contains(r.Stdout, "S-1-16-4096") {
		t.Errorf("%s: %s", r.Status, r.Stdout)
	}
}

func TestReportFile(t *testing.T) {
	onWindows(t)
	c := built.Command(t, append([]string{unheld, "--report", "r.json", "--events", "e.json", "--"}, built.Does("exit", "3")...)...)
	if _, errs, rc := built.Run(t, c); rc != 3 || errs != "" {
		t.Errorf("%d, %q", rc, errs)
	}
	for _, name := range []string{"r.json", "e.json"} {
		if text, err := os.ReadFile(filepath.Join(c.Dir, name)); err != nil || !strings.Contains(string(text), `"windows-job"`) {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}
