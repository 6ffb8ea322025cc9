package integration

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
)

// prompt is an interactive shell's. What is typed before it is there goes to
// whatever has the terminal.
const prompt = "at the prompt$ "

// screen is a terminal with a session of its own on it.
type screen struct {
	t       *testing.T
	ptm     *os.File
	cmd     *exec.Cmd
	mu      sync.Mutex
	text    strings.Builder // guarded by mu
	prompts int             // that were seen, of a shell
}

// onTerminal starts argv as the leader of a session on a new terminal.
func onTerminal(t *testing.T, argv ...string) *screen {
	t.Helper()
	dir := filepath.Join(scene.dir, "work", strings.ReplaceAll(t.Name(), "/", "_"))
	must.Do(t, os.MkdirAll(dir, 0o755))
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
	must.Do(t, err)
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
	if !must.Within(20*time.Second, func() bool { return strings.Count(s.shown(), word) >= n }) {
		s.t.Fatalf("no %q on the terminal:\n%s", word, s.shown())
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
		must.Do(s.t, broken(err))
		return s.cmd.ProcessState.ExitCode()
	case <-time.After(20 * time.Second):
		s.t.Fatalf("it did not end:\n%s", s.shown())
		return -1
	}
}

func (s *screen) modes() unix.Termios {
	s.t.Helper()
	t, err := unix.IoctlGetTermios(int(s.ptm.Fd()), unix.TCGETS) // of the other end, as ever with ptys
	must.Do(s.t, err)
	return *t
}

// signalled gives the signal that it was ended by, 0 if by none.
func (s *screen) signalled() syscall.Signal {
	s.t.Helper()
	s.ended()
	if ws := s.cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		return ws.Signal()
	}
	return 0
}

// left compares the modes that a command line left with those before it.
func left(line string) string {
	return "stty -a >before; " + line + "\nstty -a >after; cmp before after && echo le''ft as it was"
}

// inShell starts a shell with job control on a terminal of its own, at its first prompt.
func inShell(t *testing.T) *screen {
	t.Helper()
	needs(t, "program:bash")
	s := onTerminal(t, "bash", "--norc", "--noprofile", "-i")
	s.see(prompt)
	s.prompts = 1
	return s
}

// command types a line, and waits for what it shows, and for the next prompt.
func (s *screen) command(line, sees string) {
	s.t.Helper()
	s.keys(line + "\n")
	s.see(sees)
	s.atPrompt()
}

// atPrompt waits until the shell has the terminal again.
func (s *screen) atPrompt() {
	s.t.Helper()
	s.prompts++
	s.seeTimes(prompt, s.prompts)
}

// suspend types Ctrl-Z.
func (s *screen) suspend() {
	s.t.Helper()
	s.keys("\x1a")
	s.see("Stopped")
	s.atPrompt()
}

// leave ends the shell.
func (s *screen) leave() {
	s.t.Helper()
	s.keys("exit\n")
	s.ended()
}

// childOf waits for a process whose parent is pid, and that is called name.
func childOf(t *testing.T, pid int, name string) (child int) {
	t.Helper()
	if !must.Within(20*time.Second, func() bool {
		for _, word := range children(strconv.Itoa(pid)) {
			if comm, _ := os.ReadFile("/proc/" + word + "/comm"); string(comm) == name+"\n" {
				child, _ = strconv.Atoi(word)
			}
		}
		return child > 0
	}) {
		t.Fatalf("no %s below %d", name, pid)
	}
	return child
}

// children are whom the threads of a process have started.
func children(pid string) (pids []string) {
	threads, _ := filepath.Glob("/proc/" + pid + "/task/*/children")
	for _, thread := range threads {
		b, _ := os.ReadFile(thread)
		pids = append(pids, strings.Fields(string(b))...)
	}
	return pids
}

// states are the names and the states of a process, and of all below it, in the words of /proc/PID/stat.
func states(pid int) (all []string) {
	for below := []string{strconv.Itoa(pid)}; len(below) > 0; below = append(below[1:], children(below[0])...) {
		stat, _ := os.ReadFile("/proc/" + below[0] + "/stat")
		if _, rest, ok := strings.Cut(string(stat), " ("); ok {
			name, rest, _ := strings.Cut(rest, ") ")
			all = append(all, name+" "+rest[:1])
		}
	}
	return all
}

// asleep waits until a process below pid that is called name waits for something itself.
func asleep(t *testing.T, pid int, name string) {
	t.Helper()
	if !must.Within(20*time.Second, func() bool { return slices.Contains(states(pid), name+" S") }) {
		t.Fatalf("no %s below %d waits", name, pid)
	}
}

// stopped waits until all that a process has started, and what those have, is stopped.
func stopped(t *testing.T, pid int) {
	t.Helper()
	var now []string
	if !must.Within(20*time.Second, func() bool {
		now = states(pid)
		// confine, the init, which the kernel protects from signals, the target
		return len(now) == 3 && strings.HasSuffix(now[0], " T") && strings.HasSuffix(now[2], " T")
	}) {
		t.Fatalf("states: %q", now)
	}
}
