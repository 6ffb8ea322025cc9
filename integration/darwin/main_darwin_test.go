package darwin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/status"
)

// word makes the test a program that does what is said.
const word = "__does"

// everywhere lets a run go on with what there is.
const everywhere = "--allow-partial=all"

var confine string

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == word {
		os.Exit(do(os.Args[2], os.Args[3:]))
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "confine-test-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		confine = filepath.Join(dir, "confine")
		if out, err := exec.Command("go", "build", "-o", confine, "../..").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// do is what the program does. It gives its exit code.
func do(what string, words []string) int {
	fail := func(err error) int {
		if err == nil {
			return 0
		}
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	switch what {
	case "env":
		fmt.Println(os.Getenv(words[0]))
	case "exit":
		n, _ := strconv.Atoi(words[0])
		return n
	case "allocate": // so many MiB, all of it touched
		n, _ := strconv.Atoi(words[0])
		b := make([]byte, n<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = byte(i)
		}
		time.Sleep(time.Minute)
		fmt.Println(b[0])
	case "spin":
		for n := uint64(0); ; n++ {
			_ = n
		}
	case "fork": // so many that sleep
		n, _ := strconv.Atoi(words[0])
		for range n {
			if err := exec.Command(os.Args[0], word, "sleep").Start(); err != nil {
				return fail(err)
			}
		}
		time.Sleep(time.Minute)
	case "sleep":
		time.Sleep(time.Minute)
	case "tree": // a process in a session of its own, whose number it writes
		c := exec.Command(os.Args[0], word, "sleep")
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := c.Start(); err != nil {
			return fail(err)
		}
		if err := os.WriteFile(words[0]+".new", []byte(strconv.Itoa(c.Process.Pid)), 0o600); err != nil {
			return fail(err)
		}
		if err := os.Rename(words[0]+".new", words[0]); err != nil {
			return fail(err)
		}
		time.Sleep(time.Minute)
	case "fill":
		f, err := os.Create(words[0])
		if err != nil {
			return fail(err)
		}
		_, err = io.CopyN(f, zeros{}, 64<<20)
		return fail(err)
	case "open":
		n, _ := strconv.Atoi(words[0])
		for range n {
			if _, err := os.Open("/dev/null"); err != nil {
				return fail(err)
			}
		}
	default:
		return 2
	}
	return 0
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// command is confine in a directory of the test's own.
func command(t *testing.T, words ...string) *exec.Cmd {
	t.Helper()
	outside(t)
	c := exec.CommandContext(t.Context(), confine, words...)
	c.Dir = t.TempDir()
	return c
}

// outside skips a test that runs in a sandbox.
func outside(t *testing.T) {
	t.Helper()
	if err := exec.Command("/usr/bin/sandbox-exec", "-p", "(version 1)(allow default)", "/usr/bin/true").Run(); err != nil {
		if must := host.MustRun("macos"); must != nil {
			t.Fatal(must, err)
		}
		t.Skip("there is no sandbox: ", err)
	}
}

// does are the words of confine for a program of the test's.
func does(words ...string) []string {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return append([]string{everywhere, "--allow-read", self, "--", self, word}, words...)
}

func run(t *testing.T, c *exec.Cmd) (out, errs string, rc int) {
	t.Helper()
	var o, e bytes.Buffer
	c.Stdout, c.Stderr = &o, &e
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return o.String(), e.String(), c.ProcessState.ExitCode()
}

func report(t *testing.T, c *exec.Cmd) *status.Report {
	t.Helper()
	c.Args = append([]string{c.Args[0], "--json"}, c.Args[1:]...)
	out, errs, _ := run(t, c)
	var r status.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v: %q, %q", err, out, errs)
	}
	return &r
}

// await waits for a file with the number of a process.
func await(t *testing.T, name string) (pid int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if text, err := os.ReadFile(name); err == nil {
			if pid, err = strconv.Atoi(strings.TrimSpace(string(text))); err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	t.Fatal("nothing came to be at", name)
	return 0
}

// gone waits until a process is.
func gone(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if syscall.Kill(pid, 0) == syscall.ESRCH {
			return
		}
	}
	t.Errorf("%d is still there", pid)
}
