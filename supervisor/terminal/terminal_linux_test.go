package terminal

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
)

const patience = 20 * time.Second

func TestMain(m *testing.M) {
	if role := os.Getenv("TERMINAL_TEST_ROLE"); role != "" {
		roles[role]()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// roles are what this binary does as a process of its own.
var roles = map[string]func(){"shell": roleShell, "job": roleJob, "behind": roleBehind, "modes": roleModes, "broken-stderr": roleBrokenStderr}

func helper(role string) *exec.Cmd {
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), "TERMINAL_TEST_ROLE="+role)
	c.Stderr = os.Stderr
	return c
}

func open(t *testing.T) (master, slave *os.File) {
	t.Helper()
	m, s, err := pty.Open()
	must.Do(t, err)
	t.Cleanup(func() { m.Close(); s.Close() })
	return m, s
}

func modes(t *testing.T, f *os.File) unix.Termios {
	t.Helper()
	tio, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	must.Do(t, err)
	return *tio
}

func attach(t *testing.T, s *os.File) (term *Terminal, slave *os.File) {
	t.Helper()
	inner, slave := open(t)
	term = Open(int(s.Fd()), int(s.Fd()), -1)
	t.Cleanup(term.Restore)
	must.Do(t, term.Attach(int(inner.Fd())))
	return term, slave
}

func TestRawAndBack(t *testing.T) {
	_, s := open(t)
	before := modes(t, s)
	for range 2 {
		term, _ := attach(t, s)
		term.Foreground() // twice is as once
		if raw := modes(t, s); raw.Lflag&(unix.ICANON|unix.ECHO|unix.ISIG) != 0 || raw.Oflag&unix.OPOST != 0 {
			t.Errorf("raw: %+v", raw)
		}
		for range 2 {
			term.Restore()
		}
		if after := modes(t, s); after != before {
			t.Errorf("%+v\nbefore %+v", after, before)
		}
	}
}

func TestRestoreTouchesNothingThatWasNotTaken(t *testing.T) {
	_, s := open(t)
	term := Open(-1, int(s.Fd()), -1) // no keyboard: never raw
	inner, _ := open(t)
	must.Do(t, term.Attach(int(inner.Fd())))
	tio := modes(t, s)
	tio.Lflag ^= unix.ECHO // somebody else, meanwhile
	must.Do(t, unix.IoctlSetTermios(int(s.Fd()), unix.TCSETS, &tio))
	term.Restore()
	if modes(t, s) != tio {
		t.Error("changed")
	}
}

func TestNoTerminal(t *testing.T) {
	f, err := os.Open("/dev/null")
	must.Do(t, err)
	defer f.Close()
	inner, _ := open(t)
	term := Open(int(f.Fd()), -1, -1)
	if err := term.Attach(int(inner.Fd())); err != nil {
		t.Error(err)
	}
	term.Foreground()
	term.Restore()
}

func TestThePtyIsLikeTheTerminal(t *testing.T) {
	outer, s := open(t)
	tio := modes(t, s)
	tio.Cc[unix.VERASE] = 8
	tio.Iflag |= unix.IUTF8
	must.Do(t, unix.IoctlSetTermios(int(s.Fd()), unix.TCSETS, &tio))
	must.Do(t, pty.Setsize(outer, &pty.Winsize{Rows: 33, Cols: 99}))
	got := Open(int(s.Fd()), int(s.Fd()), -1).Modes()
	if got[4+unix.VERASE] != 8 || got[0]&unix.IUTF8 == 0 || got[3]&unix.ICANON == 0 {
		t.Errorf("%+v", got)
	}
	_, slave := attach(t, s)
	if r, c, _ := pty.Getsize(slave); r != 33 || c != 99 {
		t.Errorf("%d rows, %d columns", r, c)
	}
}

func TestThePtyFollowsTheSize(t *testing.T) {
	outer, s := open(t)
	_, slave := attach(t, s)
	must.Do(t, pty.Setsize(outer, &pty.Winsize{Rows: 10, Cols: 20}))
	unix.Kill(os.Getpid(), unix.SIGWINCH) // s isn't our controlling terminal: the kernel doesn't
	deadline := time.Now().Add(patience)
	for r, c := 0, 0; r != 10 || c != 20; r, c, _ = pty.Getsize(slave) {
		if time.Now().After(deadline) {
			t.Fatalf("%d rows, %d columns", r, c)
		}
		time.Sleep(time.Millisecond)
	}
}

// roleShell has one job in the foreground of its terminal and does what a shell
// does when it stops. It says on descriptor 3 what it sees.
func roleShell() {
	say := os.NewFile(3, "say")
	before, _ := unix.IoctlGetTermios(0, unix.TCGETS)
	job := helper("job")
	job.Stdin, job.Stdout = os.Stdin, say
	job.SysProcAttr = &syscall.SysProcAttr{Foreground: true, Ctty: 0}
	if err := job.Start(); err != nil {
		panic(err)
	}
	var ws unix.WaitStatus
	unix.Wait4(job.Process.Pid, &ws, unix.WUNTRACED, nil)
	now, _ := unix.IoctlGetTermios(0, unix.TCGETS)
	fmt.Fprintln(say, "stopped", ws.Stopped() && ws.StopSignal() == unix.SIGTSTP, "cooked", *now == *before)
	if ws.Stopped() {
		unix.Kill(-job.Process.Pid, unix.SIGCONT) // fg: it still has the terminal
	}
	job.Wait()
	now, _ = unix.IoctlGetTermios(0, unix.TCGETS)
	fmt.Fprintln(say, "cooked", *now == *before)
}

func roleJob() {
	inner, _, err := pty.Open()
	if err != nil {
		panic(err)
	}
	isRaw := func() bool {
		tio, _ := unix.IoctlGetTermios(0, unix.TCGETS)
		return tio.Lflag&unix.ICANON == 0
	}
	t := Open(0, 0, -1) // its standard output is the test's
	if err := t.Attach(int(inner.Fd())); err != nil {
		panic(err)
	}
	fmt.Println("raw", isRaw())
	t.Suspend(true)
	fmt.Println("raw", isRaw())
	t.Restore()
}

// roleBehind has a job in the background, while it has the terminal raw itself, as a shell that reads a line.
func roleBehind() {
	say := os.NewFile(3, "say")
	tio, _ := unix.IoctlGetTermios(0, unix.TCGETS)
	tio.Lflag &^= unix.ICANON | unix.ECHO
	if err := unix.IoctlSetTermios(0, unix.TCSETS, tio); err != nil {
		panic(err)
	}
	job := helper("modes")
	job.Stdin, job.Stdout = os.Stdin, say
	job.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := job.Run(); err != nil {
		panic(err)
	}
}

func roleModes() { fmt.Println("modes", len(Open(0, 0, -1).Modes())) }

// TestModesOfAnotherAreNotTaken: what the terminal is set to while this process is in the background is
// for whoever has it then.
func TestModesOfAnotherAreNotTaken(t *testing.T) {
	expect(t, session(t, "behind"), "modes 0")
}

func session(t *testing.T, role string) *bufio.Reader {
	_, s := open(t)
	r, w, err := os.Pipe()
	must.Do(t, err)
	c := helper(role)
	c.Stdin, c.Stdout = s, w
	c.ExtraFiles = []*os.File{w}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	must.Do(t, c.Start())
	w.Close()
	r.SetReadDeadline(time.Now().Add(patience))
	t.Cleanup(func() { r.Close(); c.Process.Kill(); c.Wait() })
	return bufio.NewReader(r)
}

func expect(t *testing.T, r *bufio.Reader, lines ...string) {
	t.Helper()
	for _, want := range lines {
		if got, err := r.ReadString('\n'); got != want+"\n" {
			t.Fatalf("%q, %v; want %q", got, err, want)
		}
	}
}

func TestSuspendAndResume(t *testing.T) {
	expect(t, session(t, "shell"), "raw true", "stopped true cooked true", "raw true", "cooked true")
}

func TestSuspendWhereNobodyCouldResume(t *testing.T) { // a session leader's own group is orphaned
	expect(t, session(t, "job"), "raw true", "raw true")
}

func TestConsoleOnATerminal(t *testing.T) {
	m, s := open(t)
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	must.Do(t, err)
	defer null.Close()
	c := NewConsole(s)
	if c.Guard(int(s.Fd())) == nil || c.Guard(int(null.Fd())) != nil {
		t.Error("what is the same place?")
	}
	must.Do(t, pty.Setsize(m, &pty.Winsize{Rows: 10, Cols: 40}))
	c.show(progress)
	c.Print("end")
	want := []byte(erase + "\rend\r\r\n")
	got := make([]byte, 0, 200)
	m.SetReadDeadline(time.Now().Add(patience))
	for !bytes.HasSuffix(got, want) {
		b := make([]byte, 100)
		n, err := m.Read(b)
		if got = append(got, b[:n]...); err != nil {
			t.Fatalf("%q, %v", got, err)
		}
	}
	if first := "\r[confine] 12 s of 30 s · 120 MiB of 512"; !bytes.HasPrefix(got, []byte(first+"\x1b[K")) {
		t.Errorf("%q", got)
	}
}

func roleBrokenStderr() {
	r, w, _ := os.Pipe()
	r.Close()
	unix.Dup3(int(w.Fd()), 2, 0)
	NewConsole(os.Stderr).Print("nobody reads this")
	fmt.Print("alive")
}

func TestALineToABrokenPipeIsNoDeath(t *testing.T) {
	out, err := helper("broken-stderr").Output()
	if string(out) != "alive" || err != nil {
		t.Errorf("%q, %v", out, err)
	}
}

// Where keys come from a terminal and output goes elsewhere, the terminal is somebody else's.
func TestAPipelineLeavesTheModesAlone(t *testing.T) {
	_, s := open(t)
	before := modes(t, s)
	inner, _ := open(t)
	r, w, err := os.Pipe()
	must.Do(t, err)
	defer r.Close()
	defer w.Close()
	term := Open(int(s.Fd()), int(w.Fd()), int(s.Fd()))
	defer term.Restore()
	must.Do(t, term.Attach(int(inner.Fd())))
	term.Foreground()
	if modes(t, s) != before || term.Interactive() {
		t.Error("taken")
	}
}

func TestKeysThatSendSignals(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(*unix.Termios)
		keys string
		want []unix.Signal
	}{
		{"none", nil, "hello\r", nil},
		{"interrupt", nil, "ab\x03", []unix.Signal{unix.SIGINT}},
		{"both", nil, "\x1c\x03", []unix.Signal{unix.SIGINT, unix.SIGQUIT}},
		{"another key", func(t *unix.Termios) { t.Cc[unix.VINTR] = 7 }, "\x03\x07", []unix.Signal{unix.SIGINT}},
		{"no longer a key", func(t *unix.Termios) { t.Cc[unix.VINTR] = 7 }, "\x03", nil},
		{"no key", func(t *unix.Termios) { t.Cc[unix.VINTR] = 0 }, "\x00\x03", nil},
		{"a terminal that sends none", func(t *unix.Termios) { t.Lflag &^= unix.ISIG }, "\x03", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, s := open(t)
			if c.set != nil {
				tio := modes(t, s)
				c.set(&tio)
				must.Do(t, unix.IoctlSetTermios(int(s.Fd()), unix.TCSETS, &tio))
			}
			term, _ := attach(t, s)
			term.Typed([]byte(c.keys))
			for _, n := range []unix.Signal{unix.SIGINT, unix.SIGQUIT} {
				if got, want := term.Pressed(n), slices.Contains(c.want, n); got != want {
					t.Errorf("%v: %v", n, got)
				}
			}
		})
	}
	if (*Terminal)(nil).Pressed(unix.SIGINT) {
		t.Error("without a terminal")
	}
}
