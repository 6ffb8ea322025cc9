package supervisor

import (
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestParsePID(t *testing.T) {
	for text, want := range map[string]int{
		"pos:\t0\nflags:\t02000002\nPid:\t123\nNSpid:\t123\n": 123,
		"Pid:\t-1\n":  0, // gone
		"Pid:\t\n":    0,
		"NSpid:\t7\n": 0,
		"":            0,
	} {
		if got := parsePID(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// A target that has left its group for another gets the signal all the same,
// and so does who stayed in the group.
func TestSignalReachesTheTargetAndItsGroup(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		target := exec.Command("sleep", "60")
		target.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := target.Start(); err != nil {
			t.Fatal(err)
		}
		other := exec.Command("sleep", "60")
		other.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: target.Process.Pid}
		if leaves {
			other.SysProcAttr.Pgid = 0
		}
		if err := other.Start(); err != nil {
			t.Fatal(err)
		}
		pidfd, err := unix.PidfdOpen(target.Process.Pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := pidOf(pidfd); got != target.Process.Pid {
			t.Errorf("pidOf: %d, want %d", got, target.Process.Pid)
		}
		signalGroup(pidfd, unix.SIGTERM)
		if err := target.Wait(); err == nil || target.ProcessState.Sys().(syscall.WaitStatus).Signal() != unix.SIGTERM {
			t.Errorf("the target: %v", target.ProcessState)
		}
		if leaves { // positive control: another group is left alone
			if err := other.Process.Signal(syscall.Signal(0)); err != nil {
				t.Errorf("another group: %v", err)
			}
			other.Process.Kill()
		}
		other.Wait()
		signalGroup(pidfd, unix.SIGTERM) // gone: nobody else is hit
		unix.Close(pidfd)
	}
}
