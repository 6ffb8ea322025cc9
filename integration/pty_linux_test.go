package integration

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
)

// prompt is an interactive shell's. What is typed before it is there goes to
// whatever has the terminal.
const prompt = "at the prompt$ "

// screen is a terminal with a session of its own on it.
type screen struct {
	t    *testing.T
	ptm  *os.File
	cmd  *exec.Cmd
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

// onTerminal starts argv as the leader of a session on a new terminal.
func onTerminal(t *testing.T, argv ...string) *screen {
	t.Helper()
	dir := filepath.Join(scene.dir, "work", strings.ReplaceAll(t.Name(), "/", "_"))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if argv[0] == "confine" {
		argv[0] = filepath.Join(scene.programs, "confine")
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + scene.programs + ":" + os.Getenv("PATH"), "HOME=" + filepath.Join(scene.dir, "nobody"),
		"TERM=xterm", "PS1=" + prompt, "GOCOVERDIR=" + os.Getenv("GOCOVERDIR"),
	}
	ptm, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 33, Cols: 77})
	if err != nil {
		t.Fatal(err)
	}
	s := &screen{t: t, ptm: ptm, cmd: cmd}
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := ptm.Read(b)
			s.mu.Lock()
			s.text.Write(b[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = ptm.Close()
	})
	return s
}

func (s *screen) shown() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// see waits for a word.
func (s *screen) see(word string) { s.t.Helper(); s.seeTimes(word, 1) }

func (s *screen) seeTimes(word string, n int) {
	s.t.Helper()
	for end := time.Now().Add(20 * time.Second); strings.Count(s.shown(), word) < n; {
		if time.Now().After(end) {
			s.t.Fatalf("no %q on the terminal:\n%s", word, s.shown())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (s *screen) keys(text string) {
	s.t.Helper()
	if _, err := io.WriteString(s.ptm, text); err != nil {
		s.t.Fatal(err)
	}
}

// ended gives the exit code.
func (s *screen) ended() int {
	s.t.Helper()
	done := make(chan error, 1)
	go func() { done <- s.cmd.Wait() }()
	select {
	case err := <-done:
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			s.t.Fatal(err)
		}
		return s.cmd.ProcessState.ExitCode()
	case <-time.After(20 * time.Second):
		s.t.Fatalf("it did not end:\n%s", s.shown())
		return -1
	}
}

func TestTerminalIsOne(t *testing.T) {
	t.Parallel()
	s := onTerminal(t, "confine", "--", "sh", "-c", "test -t 0 && test -t 1 && test -t 2 && echo all three; stty size; tty")
	if rc := s.ended(); rc != 0 {
		t.Errorf("exit code %d", rc)
	}
	s.see("all three")
	s.see("33 77")
	s.see("/dev/pts/")
}

func TestWithoutTerminalThereIsNone(t *testing.T) {
	t.Parallel()
	s := onTerminal(t, "confine", "--tty", "never", "--", "sh", "-c", "test -t 1 || echo none; (exec 3</dev/tty) 2>/dev/null || echo no controlling one")
	s.ended()
	s.see("none")
	s.see("no controlling one")
}

func TestOnlyTerminalsBecomeOne(t *testing.T) {
	t.Parallel()
	s := onTerminal(t, "sh", "-c", `confine -- sh -c 'test -t 1 || echo pipe; test -t 2 && echo terminal >&2' | cat`)
	s.see("pipe")
	s.see("terminal")
	s.ended()
}

func TestInterruptKeyEndsTheTarget(t *testing.T) {
	t.Parallel()
	s := onTerminal(t, "confine", "--", "sh", "-c", "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.1; done")
	s.see("ready")
	s.keys("\x03")
	if rc := s.ended(); rc != 9 {
		t.Errorf("exit code %d, want 9:\n%s", rc, s.shown())
	}
	s.see("caught")
}

func TestWindowSizeIsPassedOn(t *testing.T) {
	t.Parallel()
	s := onTerminal(t, "confine", "--", "sh", "-c", "trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.1; done")
	s.see("ready")
	if err := pty.Setsize(s.ptm, &pty.Winsize{Rows: 44, Cols: 88}); err != nil {
		t.Fatal(err)
	}
	s.see("44 88")
	s.ended()
}

// A shell with job control is around it: Ctrl-Z gives the terminal back to that,
// and fg goes on.
func TestSuspendKeyStopsAndForegroundGoesOn(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	s := onTerminal(t, bash, "--norc", "--noprofile", "-i")
	s.see(prompt)
	s.keys("confine -- sh -c 'echo rea''dy; read x; echo got $x'\n")
	s.see("ready")
	s.keys("\x1a")
	s.see("Stopped")
	s.seeTimes(prompt, 2)
	s.keys("echo out''side\n")
	s.see("outside")
	s.seeTimes(prompt, 3)
	s.keys("fg\n")
	s.keys("word\n")
	s.see("got word")
	s.seeTimes(prompt, 4)
	s.keys("exit\n")
	s.ended()
}

func TestTerminalIsLeftAsItWas(t *testing.T) {
	t.Parallel()
	s := onTerminal(t, "sh", "-c", "stty -a >before; confine -- sh -c 'stty raw -echo; exit 3'; echo rc $?; stty -a >after; cmp before after && echo same")
	s.see("rc 3")
	s.see("same")
	s.ended()
}

// What is pushed into a terminal's input would be read by the caller's shell.
func TestNothingCanBeTypedIntoTheTerminal(t *testing.T) {
	t.Parallel()
	s := onTerminal(t, "sh", "-c", "confine --allow-read "+scene.programs+" -- attempt call tiocsti; echo rc $?")
	s.see("rc 3")
	s.ended()
}

func TestTargetCantStopItsOwnSupervisor(t *testing.T) {
	t.Parallel()
	s := onTerminal(t, "confine", "-t", "1s", "--grace", "200ms", "--", "sh", "-c", "kill -STOP $$")
	if rc := s.ended(); rc != 124 {
		t.Errorf("exit code %d, want 124:\n%s", rc, s.shown())
	}
}
