package darwin

import (
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/confine-run/confine/integration/built"
	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/internal/must"
)

func TestMain(m *testing.M) {
	built.Main(m, map[string]func(words []string) error{
		"fork": func(words []string) error { // so many that sleep
			n, _ := strconv.Atoi(words[0])
			for range n {
				if err := exec.Command(os.Args[0], built.Word, "sleep").Start(); err != nil {
					return err
				}
			}
			time.Sleep(time.Minute)
			return nil
		},
		"tree": func(words []string) error { // a process in a session of its own, whose number it writes
			c := exec.Command(os.Args[0], built.Word, "sleep")
			c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			err := c.Start()
			if err == nil {
				err = built.Tell(words[0], c.Process.Pid)
			}
			if err != nil {
				return err
			}
			time.Sleep(time.Minute)
			return nil
		},
		"fill": func(words []string) error {
			f, err := os.Create(words[0])
			if err == nil {
				_, err = io.CopyN(f, zeros{}, 64<<20)
			}
			return err
		},
		"open": func(words []string) error {
			n, _ := strconv.Atoi(words[0])
			for range n {
				if _, err := os.Open("/dev/null"); err != nil {
					return err
				}
			}
			return nil
		},
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// command is confine in a directory of the test's own.
func command(t *testing.T, words ...string) *exec.Cmd {
	t.Helper()
	outside(t)
	return built.Command(t, words...)
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
	program := built.Does(words...)
	return append([]string{built.Everywhere, "--allow-read", program[0], "--"}, program...)
}

// gone waits until a process is.
func gone(t *testing.T, pid int) {
	t.Helper()
	if !must.Within(20*time.Second, func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH }) {
		t.Errorf("%d is still there", pid)
	}
}
