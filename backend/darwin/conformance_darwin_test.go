package darwin

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/backend/conformance"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/darwin"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

func TestMain(m *testing.M) {
	Init()
	conformance.Main("TMPDIR", map[string]func(words []string) error{
		"size": func([]string) error {
			now, err := unix.IoctlGetWinsize(1, unix.TIOCGWINSZ)
			if err == nil {
				fmt.Println(now.Row, now.Col)
			}
			return err
		},
		"leave": func([]string) error { // in a session of its own, whose parent ends at once, with our streams
			c := exec.Command(os.Args[0], conformance.ProgramWord, "left")
			c.Stdout, c.Stderr = os.Stdout, os.Stderr
			c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			return c.Run()
		},
		"left": func([]string) error {
			c := exec.Command(os.Args[0], conformance.ProgramWord, "sleep")
			c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			if err := c.Start(); err != nil {
				return err
			}
			fmt.Println(c.Process.Pid)
			return nil
		},
		"connect": func(words []string) error {
			c, err := net.Dial("tcp", words[0])
			if err == nil {
				err = c.Close()
			}
			return err
		},
		"link":   func(words []string) error { return os.Link(words[0], words[1]) },
		"rename": func(words []string) error { return os.Rename(words[0], words[1]) },
		"signal": func(words []string) error {
			n, err := strconv.Atoi(words[0])
			if err == nil {
				err = syscall.Kill(n, 0)
			}
			return err
		},
	})
	if darwin.Sandboxed(os.Getpid()) {
		fmt.Fprintln(os.Stderr, "these tests run outside of a sandbox")
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestConformance(t *testing.T) {
	conformance.Run(t, conformance.Target{
		Backend: conformance.Named{Backend: Backend{}, Place: conformance.Does("env", "TMPDIR"), In: conformance.FromTemp}, Program: conformance.Does,
		Without: map[string]string{
			"links":                 "absolute links of the suite lead to the host's own /tmp",
			"permissions and names": "absolute links of the suite lead to the host's own /tmp",
			"watching":              "nothing watches directories",
			"events":                "system calls aren't filtered, and files that are denied aren't told",
			"network":               "the rules of a sandbox that stands aren't changed",
		},
	})
}

// spec is one that takes whatever there is.
func spec(t *testing.T) *backend.Spec {
	t.Helper()
	p := config.Default()
	p.TimeLimit, p.Grace, p.Filesystem.Workdir = time.Minute, 100*time.Millisecond, "rw"
	p.AllowPartial = []string{config.WordAll}
	return &backend.Spec{Policy: &p, Dir: t.TempDir(), Environ: os.Environ()}
}

// TestAttempts: what is tried inside fails, and what is tried outside succeeds.
func TestAttempts(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	other := t.TempDir()
	secret := other + "/secret"
	for _, c := range []struct {
		name  string
		words func(dir string) []string
	}{
		{"to read what isn't shown", func(string) []string { return []string{"read", secret} }},
		{"to write beside the tree", func(string) []string { return []string{"write", other + "/new", "x"} }},
		{"to write what is protected", func(dir string) []string { return []string{"write", dir + "/.git/config", "x"} }},
		{"to make what is protected", func(dir string) []string { return []string{"write", dir + "/.envrc", "x"} }},
		{"to move away what leads to it", func(dir string) []string { return []string{"rename", dir + "/.git", dir + "/away"} }},
		{"to move away the tree", func(dir string) []string { return []string{"rename", dir, dir + "-away"} }},
		{"to give it another name", func(dir string) []string { return []string{"link", dir + "/.git/config", dir + "/config"} }},
		{"to connect to this host", func(string) []string { return []string{"connect", l.Addr().String()} }},
		{"to signal another process", func(string) []string { return []string{"signal", fmt.Sprint(os.Getpid())} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := spec(t)
			dir, err := realPath(s.Dir)
			must.Do(t, err)
			must.Do(t, os.MkdirAll(dir+"/.git", 0o755))
			for _, name := range []string{dir + "/.git/config", secret} {
				must.Do(t, os.WriteFile(name, []byte("x"), 0o600))
			}
			words := conformance.Does(c.words(dir)...)
			run, err := backend.Run(t.Context(), Backend{}, s, &backend.Exec{Argv: words})
			must.Do(t, err)
			if r := run.Wait(); r.Status != status.Failed && r.Status != status.SandboxDenied {
				t.Errorf("%s: %s", r.Status, r.Reason)
			}
			if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
				t.Errorf("it fails outside, too: %v: %s", err, out)
			}
		})
	}
}

func realPath(name string) (string, error) {
	have, err := here()
	if err != nil {
		return "", err
	}
	f, err := have.Files.Resolve(name)
	return f.Path, err
}

// TestNobodyOutlivesTheSandbox: whatever session somebody is in, and whoever the parent is by now.
func TestNobodyOutlivesTheSandbox(t *testing.T) {
	box := conformance.Open(t, Backend{}, spec(t))
	var out strings.Builder
	p, err := box.Start(t.Context(), &backend.Exec{Argv: conformance.Does("leave"), Stdout: &out})
	must.Do(t, err)
	if r := p.Wait(); r.Status != status.OK {
		t.Fatalf("%s: %s", r.Status, r.Reason)
	}
	pid := 0
	if _, err := fmt.Sscan(out.String(), &pid); err != nil {
		t.Fatalf("%q: %v", out.String(), err)
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("who was left in the background is gone already: %v", err)
	}
	if u, err := box.Usage(); err != nil || u.Tasks < 1 {
		t.Errorf("nobody counts who was left: %+v, %v", u, err)
	}
	conformance.Close(t, box)
	if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
		t.Errorf("it outlives the sandbox: %v", err)
	}
}

// TestMembersAreKnownByTheirMark, and by nothing that another has too.
func TestMembersAreKnownByTheirMark(t *testing.T) {
	if member(os.Getpid(), "run.confine.x") {
		t.Error("who is in no sandbox is taken for a member")
	}
	box := conformance.Open(t, Backend{}, spec(t))
	if _, err := box.Start(t.Context(), &backend.Exec{Argv: conformance.Does("sleep")}); err != nil {
		t.Fatal(err)
	}
	pids, err := members("run.confine.x")
	if err != nil || len(pids) > 0 {
		t.Errorf("of another mark: %v, %v", pids, err)
	}
}
