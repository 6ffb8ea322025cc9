package output

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
)

// roleSession is a shell with one job in the background of a terminal. It says
// on descriptor 3 what becomes of the job, and brings it to the foreground when
// told to on descriptor 4.
func roleSession() {
	say, told := os.NewFile(3, "say"), bufio.NewReader(os.NewFile(4, "told"))
	job := helper(os.Getenv("JOB"))
	job.Stdin, job.Stdout = os.Stdin, say
	job.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := job.Start(); err != nil {
		panic(err)
	}
	go func() {
		told.ReadString('\n')
		unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, job.Process.Pid)
		unix.Kill(-job.Process.Pid, unix.SIGCONT)
	}()
	var ws unix.WaitStatus
	unix.Wait4(job.Process.Pid, &ws, unix.WUNTRACED, nil)
	if ws.Stopped() {
		fmt.Fprintln(say, "stopped")
		job.Process.Kill()
	}
	job.Wait()
}

// roleJob relays the terminal and says what comes.
func roleJob() {
	p, _ := New()
	fd, err := p.Stdin(0)
	if err != nil {
		panic(err)
	}
	p.Start()
	fmt.Println("ready")
	line, _ := bufio.NewReader(os.NewFile(uintptr(fd), "stdin")).ReadString('\n')
	fmt.Print("line ", line)
	p.End(0)
}

// roleBareJob reads the terminal itself.
func roleBareJob() {
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
}

func session(t *testing.T, job string) (master *os.File, says *bufio.Reader, tell *os.File, c *exec.Cmd) {
	m, s, err := pty.Open()
	must.Do(t, err)
	sayR, sayW := osPipe(t)
	tellR, tellW := osPipe(t)
	c = helper("session", "JOB="+job)
	c.Stdin = s
	c.ExtraFiles = []*os.File{sayW, tellR}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	must.Do(t, c.Start())
	s.Close()
	sayW.Close()
	t.Cleanup(func() { m.Close(); c.Process.Kill(); c.Wait() })
	return m, bufio.NewReader(sayR), tellW, c
}

func next(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	c := make(chan string, 1)
	go func() {
		s, err := r.ReadString('\n')
		if err != nil && err != io.EOF {
			s = err.Error()
		}
		c <- s
	}()
	return within(t, c, "session")
}

func TestATerminalInTheBackgroundStopsNothing(t *testing.T) {
	m, says, tell, c := session(t, "job")
	if s := next(t, says); s != "ready\n" {
		t.Fatalf("job says %q", s)
	}
	m.WriteString("hello\n") // for the shell; there to be read by whoever is in the foreground
	tell.WriteString("fg\n")
	if s := next(t, says); s != "line hello\n" {
		t.Errorf("job says %q", s)
	}
	c.Wait()
}

func TestATerminalInTheBackgroundStopsWhoReadsIt(t *testing.T) { // the control of the test above
	m, says, _, c := session(t, "bare-job")
	if s := next(t, says); s != "ready\n" {
		t.Fatalf("job says %q", s)
	}
	m.WriteString("hello\n")
	if s := next(t, says); s != "stopped\n" {
		t.Errorf("job says %q", s)
	}
	c.Wait()
}

type foreKeys chan bool

func (k foreKeys) Foreground()  { k <- true }
func (k foreKeys) Typed([]byte) {}
func (k foreKeys) Wanted() bool { return true }

func TestKeyboardReachesThePty(t *testing.T) {
	caller, callerTTY, err := pty.Open() // caller is the keyboard's end
	must.Do(t, err)
	keep(t, caller, callerTTY)
	master, slave, err := pty.Open()
	must.Do(t, err)
	src, err := unix.FcntlInt(master.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	must.Do(t, err)
	p := pump(t)
	fore := make(chan bool, 1)
	must.Do(t, p.Keyboard(int(callerTTY.Fd()), src, foreKeys(fore)))
	s, err := p.Output(Config{Src: src, Dst: int(callerTTY.Fd())})
	must.Do(t, err)
	master.Close()
	p.Start()
	within(t, fore, "foreground")
	caller.WriteString("typed\n")
	r := bufio.NewReader(slave)
	if line, err := r.ReadString('\n'); line != "typed\n" || err != nil {
		t.Errorf("the target reads %q, %v", line, err)
	}
	slave.Close() // the target ends
	ended(t, p)
	if s.Bytes() != int64(len("typed\r\n")) || s.Err() != nil { // the inner echo
		t.Errorf("%d bytes, %v", s.Bytes(), s.Err())
	}
}

func ptyPair(t *testing.T) (master, slave *os.File) {
	t.Helper()
	m, s, err := pty.Open()
	must.Do(t, err)
	keep(t, m, s)
	return m, s
}

func line(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	read := make(chan string, 1)
	go func() {
		s, _ := r.ReadString('\n')
		read <- s
	}()
	return within(t, read, "a line")
}

func setModes(t *testing.T, f *os.File, clear, set uint32) {
	t.Helper()
	tio, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	must.Do(t, err)
	tio.Lflag = tio.Lflag&^clear | set
	must.Do(t, unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, tio))
}

// What the target doesn't read of a terminal is there for the next program, but for a line.
func TestStdinTerminalIsReadOneLineAhead(t *testing.T) {
	m, s := ptyPair(t)
	p, target := stdin(t, int(s.Fd()))
	m.WriteString("one\ntwo\nthree\n")
	r := bufio.NewReader(target)
	if got := line(t, r); got != "one\n" {
		t.Errorf("%q", got)
	}
	if err := within(t, pollIn(target), "the second line"); err != nil { // relayed by now: no third
		t.Fatal(err)
	}
	ended(t, p)
	if got := line(t, r); got != "two\n" {
		t.Errorf("%q", got)
	}
	if got := line(t, bufio.NewReader(s)); got != "three\n" {
		t.Errorf("the next program reads %q", got)
	}
}

// pollIn waits until there is something to read, and reads nothing.
func pollIn(f *os.File) chan error {
	done := make(chan error, 1)
	go func() {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}}, int(patience.Milliseconds()))
		done <- err
	}()
	return done
}

// Who reads keys or a password has changed the modes of the terminal, and gets them.
func TestStdinTerminalIsLeftToWhoHasChangedItsModes(t *testing.T) {
	for name, modes := range map[string]uint32{"keys": unix.ICANON | unix.ECHO, "a password": unix.ECHO} {
		t.Run(name, func(t *testing.T) {
			m, s := ptyPair(t)
			p, target := stdin(t, int(s.Fd()))
			defer ended(t, p)
			setModes(t, s, modes, 0)
			m.WriteString("theirs\n")
			if got := line(t, bufio.NewReader(s)); got != "theirs\n" {
				t.Errorf("they read %q", got)
			}
			setModes(t, s, 0, modes)
			m.WriteString("the target's\n")
			if got := line(t, bufio.NewReader(target)); got != "the target's\n" {
				t.Errorf("the target reads %q", got)
			}
		})
	}
}

// The end of a file is a character on a terminal, and comes after all that was there.
func TestEndOfFileReachesThePty(t *testing.T) {
	for _, text := range []string{"", "a line\n", "no end of a line"} {
		caller, write := osPipe(t)
		write.WriteString(text)
		write.Close()
		master, slave := ptyPair(t)
		src, err := unix.FcntlInt(master.Fd(), unix.F_DUPFD_CLOEXEC, 3)
		must.Do(t, err)
		p := pump(t)
		must.Do(t, p.Keyboard(int(caller.Fd()), src, nil))
		p.Start()
		if got := string(within(t, collect(slave), "end of file")); got != text {
			t.Errorf("%q, want %q", got, text)
		}
		unix.Close(src)
		ended(t, p)
	}
}
