package windows

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/windows"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/backend/conformance"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

func TestMain(m *testing.M) {
	Init()
	conformance.Main("TEMP", map[string]func(words []string) error{
		"self": func([]string) error {
			self, err := os.Executable()
			fmt.Println(self)
			return err
		},
		"duplicate": func(words []string) error { // itself, in the directory that it is in
			self, err := os.Executable()
			if err != nil {
				return err
			}
			text, err := os.ReadFile(self)
			if err != nil {
				return err
			}
			at := filepath.Join(filepath.Dir(self), words[0])
			fmt.Println(at)
			return os.WriteFile(at, text, 0o700)
		},
		"size": func([]string) error {
			var now windows.ConsoleScreenBufferInfo
			err := windows.GetConsoleScreenBufferInfo(windows.Handle(os.Stdout.Fd()), &now)
			if err == nil {
				fmt.Println(now.Window.Bottom-now.Window.Top+1, now.Window.Right-now.Window.Left+1)
			}
			return err
		},
		"leave": func([]string) error { // a process in the background, with our streams
			c := exec.Command(os.Args[0], conformance.ProgramWord, "sleep")
			c.Stdout, c.Stderr = os.Stdout, os.Stderr
			if err := c.Start(); err != nil {
				return err
			}
			fmt.Println(c.Process.Pid)
			return nil
		},
		"breakaway": func([]string) error {
			c := exec.Command(os.Args[0], conformance.ProgramWord, "exit", "0")
			c.SysProcAttr = &windows.SysProcAttr{CreationFlags: windows.CREATE_BREAKAWAY_FROM_JOB}
			return c.Run()
		},
		"crash": func([]string) error {
			windows.SetErrorMode(windows.SEM_NOGPFAULTERRORBOX)
			return windows.TerminateProcess(windows.CurrentProcess(), 0xC0000005)
		},
	})
	os.Exit(m.Run())
}

func TestConformance(t *testing.T) {
	without := map[string]string{
		"links":                 "to make a symbolic link takes a privilege",
		"permissions and names": "files have no permission bits, and some names",
		"watching":              "nothing watches directories",
		"events":                "nothing is denied that could be told",
		"network":               "nothing holds the network",
	}
	if underWine() {
		without["limits of one process"] = "Wine's accounting counts nothing"
		without["usage"] = without["limits of one process"]
		without["terminals"] = "Wine changes the size of no pseudo console"
	}
	conformance.Run(t, conformance.Target{Backend: conformance.Named{Backend: Backend{}, Place: conformance.Does("env", "TEMP"), In: conformance.FromTemp}, Program: conformance.Does, Without: without})
}

// spec is one that takes whatever there is.
func spec(t *testing.T) *backend.Spec {
	t.Helper()
	p := config.Default()
	p.TimeLimit, p.Grace = time.Minute, 100*time.Millisecond
	p.AllowPartial = []string{config.WordAll}
	return &backend.Spec{Policy: &p, Dir: t.TempDir(), Environ: os.Environ()}
}

func TestBreakawayIsRefused(t *testing.T) {
	var out strings.Builder
	if err := exec.Command(conformance.Does("breakaway")[0], conformance.Does("breakaway")[1:]...).Run(); err != nil {
		t.Skip("it is refused outside, too: this test runs in a job")
	}
	p, err := backend.Run(t.Context(), Backend{}, spec(t), &backend.Exec{Argv: conformance.Does("breakaway"), Stderr: &out})
	must.Do(t, err)
	if r := p.Wait(); r.Status != status.Failed || !strings.Contains(out.String(), "Access") {
		t.Errorf("%s: %s: %q", r.Status, r.Reason, out.String())
	}
}

func TestCrashesHaveTheirNames(t *testing.T) {
	p, err := backend.Run(t.Context(), Backend{}, spec(t), &backend.Exec{Argv: conformance.Does("crash")})
	must.Do(t, err)
	r := p.Wait()
	if r.Status != status.KilledSignal || r.Signal != "SIGSEGV" || r.RC != 139 || !strings.Contains(r.Reason, "STATUS_ACCESS_VIOLATION") {
		t.Errorf("%s %s %d: %s", r.Status, r.Signal, r.RC, r.Reason)
	}
}

func TestNobodyOutlivesTheSandbox(t *testing.T) {
	box := conformance.Open(t, Backend{}, spec(t))
	var out strings.Builder
	p, err := box.Start(t.Context(), &backend.Exec{Argv: conformance.Does("leave"), Stdout: &out})
	must.Do(t, err)
	if r := p.Wait(); r.Status != status.OK {
		t.Fatalf("%s: %s", r.Status, r.Reason)
	}
	var pid uint32
	if _, err := fmt.Sscan(out.String(), &pid); err != nil {
		t.Fatalf("%q: %v", out.String(), err)
	}
	left, err := windows.OpenProcess(windows.SYNCHRONIZE, false, pid)
	if err != nil {
		t.Fatalf("who was left in the background is gone already: %v", err)
	}
	defer windows.CloseHandle(left)
	if e, err := windows.WaitForSingleObject(left, 0); err != nil || e != uint32(windows.WAIT_TIMEOUT) {
		t.Fatalf("who was left in the background has ended: %d, %v", e, err)
	}
	conformance.Close(t, box)
	if e, err := windows.WaitForSingleObject(left, 5000); err != nil || e != windows.WAIT_OBJECT_0 {
		t.Errorf("it outlives the sandbox: %d, %v", e, err)
	}
}
