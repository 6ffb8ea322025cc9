package windows

import (
	"fmt"
	"io"
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
	"github.com/confine-run/confine/status"
)

// programWord makes the test a program of the suite. The suite speaks of /tmp, which is where TEMP is here.
const programWord = "__program"

func TestMain(m *testing.M) {
	Init()
	if len(os.Args) > 2 && os.Args[1] == programWord {
		program(os.Args[2], os.Args[3:])
	}
	os.Exit(m.Run())
}

func fromTemp(name, temp string) string {
	if rest, ok := strings.CutPrefix(name, "/tmp"); ok && (rest == "" || rest[0] == '/') {
		return temp + filepath.FromSlash(rest)
	}
	return name
}

func program(does string, words []string) {
	temp := os.Getenv("TEMP")
	check := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	switch does {
	case "echo":
		fmt.Println(strings.Join(words, " "))
	case "err":
		fmt.Fprintln(os.Stderr, strings.Join(words, " "))
	case "cat":
		_, err := io.Copy(os.Stdout, os.Stdin)
		check(err)
	case "exit":
		n := 0
		_, err := fmt.Sscan(words[0], &n)
		check(err)
		os.Exit(n)
	case "sleep", "denied":
		time.Sleep(100 * time.Second)
	case "write":
		check(os.WriteFile(fromTemp(words[0], temp), []byte(words[1]), 0o600))
	case "read":
		text, err := os.ReadFile(fromTemp(words[0], temp))
		check(err)
		os.Stdout.Write(text)
	case "env":
		fmt.Println(os.Getenv(words[0]))
	case "pwd":
		dir, err := os.Getwd()
		check(err)
		if rest, ok := strings.CutPrefix(dir, temp); ok {
			dir = "/tmp" + filepath.ToSlash(rest)
		}
		fmt.Println(dir)
	case "self":
		self, err := os.Executable()
		check(err)
		fmt.Println(self)
	case "duplicate": // itself, in the directory that it is in
		self, err := os.Executable()
		check(err)
		text, err := os.ReadFile(self)
		check(err)
		at := filepath.Join(filepath.Dir(self), words[0])
		check(os.WriteFile(at, text, 0o700))
		fmt.Println(at)
	case "size":
		var now windows.ConsoleScreenBufferInfo
		check(windows.GetConsoleScreenBufferInfo(windows.Handle(os.Stdout.Fd()), &now))
		fmt.Println(now.Window.Bottom-now.Window.Top+1, now.Window.Right-now.Window.Left+1)
	case "flood":
		for {
			fmt.Println("0123456789")
		}
	case "spin":
		for n := uint64(0); ; n++ {
			_ = n
		}
	case "burn":
		check(exec.Command(os.Args[0], programWord, "spin").Run())
	case "leave": // a process in the background, with our streams
		c := exec.Command(os.Args[0], programWord, "sleep")
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		check(c.Start())
		fmt.Println(c.Process.Pid)
	case "breakaway":
		c := exec.Command(os.Args[0], programWord, "exit", "0")
		c.SysProcAttr = &windows.SysProcAttr{CreationFlags: windows.CREATE_BREAKAWAY_FROM_JOB}
		check(c.Run())
	case "crash":
		var nowhere *int
		windows.SetErrorMode(windows.SEM_NOGPFAULTERRORBOX)
		_ = windows.TerminateProcess(windows.CurrentProcess(), 0xC0000005)
		*nowhere = 1
	default:
		fmt.Fprintln(os.Stderr, "no such word")
		os.Exit(2)
	}
	os.Exit(0)
}

func does(words ...string) []string {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return append([]string{self, programWord}, words...)
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
	conformance.Run(t, conformance.Target{Backend: conformance.Named{Backend: Backend{}, Place: does("env", "TEMP"), In: fromTemp}, Program: does, Without: without})
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
	if err := exec.Command(does("breakaway")[0], does("breakaway")[1:]...).Run(); err != nil {
		t.Skip("it is refused outside, too: this test runs in a job")
	}
	p, err := backend.Run(t.Context(), Backend{}, spec(t), &backend.Exec{Argv: does("breakaway"), Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	if r := p.Wait(); r.Status != status.Failed || !strings.Contains(out.String(), "Access") {
		t.Errorf("%s: %s: %q", r.Status, r.Reason, out.String())
	}
}

func TestCrashesHaveTheirNames(t *testing.T) {
	p, err := backend.Run(t.Context(), Backend{}, spec(t), &backend.Exec{Argv: does("crash")})
	if err != nil {
		t.Fatal(err)
	}
	r := p.Wait()
	if r.Status != status.KilledSignal || r.Signal != "SIGSEGV" || r.RC != 139 || !strings.Contains(r.Reason, "STATUS_ACCESS_VIOLATION") {
		t.Errorf("%s %s %d: %s", r.Status, r.Signal, r.RC, r.Reason)
	}
}

func TestNobodyOutlivesTheSandbox(t *testing.T) {
	box, failed, err := backend.Open(t.Context(), Backend{}, spec(t))
	if err != nil || failed != nil {
		t.Fatalf("%v, %+v", err, failed)
	}
	var out strings.Builder
	p, err := box.Start(t.Context(), &backend.Exec{Argv: does("leave"), Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
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
	if _, err := box.Close(); err != nil {
		t.Error(err)
	}
	if e, err := windows.WaitForSingleObject(left, 5000); err != nil || e != windows.WAIT_OBJECT_0 {
		t.Errorf("it outlives the sandbox: %d, %v", e, err)
	}
}
