package denials

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
)

func refuse(errno unix.Errno) judgeFunc {
	return func(*Call, func(uint64) string) Answer { return Answer{What: "getppid", Errno: uint16(errno)} }
}

func TestEachCallGetsThePolicysErrno(t *testing.T) {
	x := start(t, "calls 3", true, refuse(unix.EXDEV))
	if out, status := x.end(); out != "map[EXDEV:3]" || !status.Exited() {
		t.Errorf("%s, %v", out, status)
	}
	all, others := x.List()
	if len(all) != 1 || all[0].Count != 3 || others != 0 || x.Killed() != nil {
		t.Fatalf("%+v, %d", all, others)
	}
	comm := "exe"
	if d := all[0]; d.By.PID != x.cmd.Process.Pid || d.By.Comm != comm || d.Call.Nr != unix.SYS_GETPPID || d.Call.Args[0] != 0 {
		t.Errorf("%+v", d)
	}
}

// An answer that would be no refusal is one all the same.
func TestNoAnswerLetsACallThrough(t *testing.T) {
	for _, errno := range []unix.Errno{0, 5000} {
		x := start(t, "calls 1", true, refuse(errno))
		if out, _ := x.end(); out != "map[EPERM:1]" {
			t.Errorf("with %d: %s", errno, out)
		}
	}
}

// What is let is made by the kernel, and told apart from what is denied.
func TestCallsThatAreLetGoOn(t *testing.T) {
	n := 0
	x := start(t, "calls 3", true, func(*Call, func(uint64) string) Answer {
		if n++; n == 2 {
			return Answer{What: "getppid", Errno: uint16(unix.EPERM)}
		}
		return Answer{What: "getppid", Rule: "let", Let: true}
	})
	if out, _ := x.end(); out != "map[:2 EPERM:1]" {
		t.Error(out)
	}
	if all, others := x.Passed(); len(all) != 1 || others != 0 || all[0].Count != 2 || all[0].By.PID != x.cmd.Process.Pid || all[0].Rule != "let" {
		t.Errorf("%+v, %d", all, others)
	}
	if all, _ := x.List(); len(all) != 1 || all[0].Count != 1 {
		t.Errorf("%+v", all)
	}
}

func TestAFloodIsCounted(t *testing.T) {
	const n = 20000
	x := start(t, "calls "+strconv.Itoa(n), true, func(c *Call, _ func(uint64) string) Answer {
		return Answer{What: "getppid " + strconv.FormatUint(c.Args[0], 10), Errno: uint16(unix.EPERM)}
	})
	if out, _ := x.end(); out != "map[EPERM:"+strconv.Itoa(n)+"]" {
		t.Error(out)
	}
	all, others := x.List()
	if len(all) != most || others != n-most {
		t.Errorf("%d kept, %d others", len(all), others)
	}
}

// Whoever is killed in the middle of its call is not answered, and not counted,
// and others are.
func TestACallerThatDiesMeanwhile(t *testing.T) {
	var x *target
	ready := make(chan struct{})
	x = start(t, "calls 1", true, func(*Call, func(uint64) string) Answer {
		<-ready
		_ = x.cmd.Process.Kill()
		_ = unix.Waitid(unix.P_PID, x.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		return Answer{What: "getppid", Errno: uint16(unix.EPERM)}
	})
	close(ready)
	if out, _ := x.end(); out != "" {
		t.Errorf("it goes on: %s", out)
	}
	if all, _ := x.List(); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}

func TestSignalsDisturbNobody(t *testing.T) {
	const n = 2000
	for _, words := range []string{"disturbed ", "killable-disturbed "} {
		t.Run(words, func(t *testing.T) {
			x := start(t, words+strconv.Itoa(n), true, refuse(unix.EPERM))
			if out, status := x.end(); out != "map[EPERM:"+strconv.Itoa(n)+"]" || !status.Exited() {
				t.Errorf("%s, %v", out, status)
			}
			if all, _ := x.List(); len(all) != 1 || all[0].Count < n {
				t.Errorf("%+v", all)
			}
		})
	}
}

func TestACallerThatIsStopped(t *testing.T) {
	stopped := false
	var x *target
	ready := make(chan struct{})
	x = start(t, "calls 2", true, func(*Call, func(uint64) string) Answer {
		<-ready
		if !stopped {
			stopped = true
			_ = x.cmd.Process.Signal(unix.SIGSTOP)
			defer x.cmd.Process.Signal(unix.SIGCONT)
		}
		return Answer{What: "getppid", Errno: uint16(unix.EPERM)}
	})
	close(ready)
	if out, _ := x.end(); out != "map[EPERM:2]" {
		t.Error(out)
	}
}

func TestStringsAreReadForWords(t *testing.T) {
	var got []string
	x := start(t, "calls 1", true, func(_ *Call, text func(uint64) string) Answer {
		got = append(got, text(8), text(^uint64(0)))
		return Answer{What: "getppid", Errno: uint16(unix.EPERM)}
	})
	x.end()
	if len(got) != 2 || got[0] != "" || got[1] != "" {
		t.Errorf("from nowhere: %q", got)
	}
}

func kill(*Call, func(uint64) string) Answer { return Answer{What: "getppid", Kill: true} }

// The shell asks for its parent when it starts.
func TestAKillIsBySIGSYS(t *testing.T) {
	x := start(t, "shell", true, refuse(unix.EPERM))
	if out, status := x.end(); status.ExitStatus() != 7 || len(x.list) != 1 {
		t.Skipf("control: the shell doesn't make the call: %v %s", status, out)
	}
	x = start(t, "shell", true, kill)
	if out, status := x.end(); !status.Signaled() || status.Signal() != unix.SIGSYS || out != "" {
		t.Errorf("%v %s", status, out)
	}
	if d := x.Killed(); d == nil || d.What != "getppid" || d.By.PID != x.cmd.Process.Pid || d.By.Comm != "sh" {
		t.Errorf("%+v", d)
	}
	x = start(t, "killable-shell", true, kill)
	if out, status := x.end(); !status.Signaled() || status.Signal() != unix.SIGSYS || out != "" {
		t.Errorf("%v %s", status, out)
	}
	x = start(t, "shell", false, kill)
	if _, status := x.end(); !status.Signaled() || x.Killed() != nil || len(x.list) != 1 {
		t.Errorf("a process that isn't the target: %v, %+v, %+v", status, x.Killed(), x.list)
	}
}

// The Go runtime handles SIGSYS.
func TestAKillIsCertain(t *testing.T) {
	for _, words := range []string{"calls 2", "thread", "killable-calls 2", "killable-thread"} {
		x := start(t, words, true, kill)
		out, status := x.end()
		if !status.Signaled() || status.Signal() != unix.SIGKILL || out != "" {
			t.Errorf("%s: %v %s", words, status, out)
		}
		if d := x.Killed(); d == nil || d.By.PID != x.cmd.Process.Pid {
			t.Errorf("%s: %+v", words, d)
		}
		if all, _ := x.List(); len(all) != 1 || all[0].Count != 1 {
			t.Errorf("%s: %+v", words, all)
		}
	}
}

// A process that outlives SIGSYS, by whatever trick, doesn't outlive its grace.
func TestAProcessThatOutlivesSIGSYSIsKilled(t *testing.T) {
	for _, early := range []bool{false, true} {
		cmd := exec.Command("sleep", "60")
		must.Do(t, cmd.Start())
		pidfd, err := unix.PidfdOpen(cmd.Process.Pid, 0)
		must.Do(t, err)
		var c dying
		if !c.add(pidfd) {
			t.Fatal("no room")
		}
		if early {
			c.end()
		}
		_ = cmd.Wait()
		if s := cmd.ProcessState.String(); s != "signal: killed" {
			t.Error(s)
		}
		c.end()
		if len(c.fds) != 0 {
			t.Errorf("left: %v", c.fds)
		}
	}
	full := dying{}
	for i := range maxDying { // none of them is a process
		if !full.add(-1 - i) {
			t.Fatal("no room")
		}
	}
	if full.add(-1 - maxDying) {
		t.Error("there is always room")
	}
	full.end()
}

func TestANilListenerReportsNothing(t *testing.T) {
	var l *Listener
	l.Close()
	if all, others := l.List(); all != nil || others != 0 || l.Killed() != nil || l.Broken() != nil {
		t.Error("it has")
	}
}

func TestListeningOnAnotherDescriptorFails(t *testing.T) {
	f, err := os.Open(os.DevNull)
	must.Do(t, err)
	fd, err := unix.Dup(int(f.Fd()))
	f.Close()
	must.Do(t, err)
	l, err := Listen(fd, refuse(unix.EPERM), 0, nil, nil)
	if err != nil {
		return
	}
	err = <-l.Broken()
	if err == nil || !strings.Contains(err.Error(), "ioctl") && !strings.Contains(err.Error(), "waiting") {
		t.Errorf("%v", err)
	}
	l.Close()
}
