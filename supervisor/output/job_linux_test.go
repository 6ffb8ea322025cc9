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
	if err != nil {
		t.Fatal(err)
	}
	sayR, sayW := osPipe(t)
	tellR, tellW := osPipe(t)
	c = helper("session", "JOB="+job)
	c.Stdin = s
	c.ExtraFiles = []*os.File{sayW, tellR}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	keep(t, caller, callerTTY)
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	src, err := unix.FcntlInt(master.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		t.Fatal(err)
	}
	p := pump(t)
	fore := make(chan bool, 1)
	if err := p.Keyboard(int(callerTTY.Fd()), src, foreKeys(fore)); err != nil {
		t.Fatal(err)
	}
	s, err := p.Output(Config{Src: src, Dst: int(callerTTY.Fd())})
	if err != nil {
		t.Fatal(err)
	}
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
