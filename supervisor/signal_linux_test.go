package supervisor

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
	"github.com/confine-run/confine/internal/must"
)

// TestHelperLeavesItsGroup is no test but the target of the next one.
func TestHelperLeavesItsGroup(t *testing.T) {
	if os.Getenv("SUPERVISOR_TEST_LEAVE") == "" {
		return // only as a process of its own
	}
	var group int
	if _, err := fmt.Scan(&group); err != nil {
		t.Fatal(err)
	}
	must.Do(t, unix.Setpgid(0, group))
	fmt.Println("left")
	time.Sleep(time.Minute)
}

// A target that leaves somebody else in the group that it was started in, and
// goes to another itself, is killed all the same, and the other group is not.
func TestSignalReachesATargetThatLeftItsGroup(t *testing.T) {
	sleeper := func(group int) *exec.Cmd {
		c := exec.Command("sleep", "60")
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: group}
		must.Do(t, c.Start())
		t.Cleanup(func() { c.Process.Kill(); c.Wait() })
		return c
	}
	elsewhere := sleeper(0)
	target := exec.Command(os.Args[0], "-test.run=^TestHelperLeavesItsGroup$")
	target.Env = append(os.Environ(), "SUPERVISOR_TEST_LEAVE=1")
	target.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, _ := target.StdinPipe()
	out, _ := target.StdoutPipe()
	must.Do(t, target.Start())
	defer target.Process.Kill()
	sleeper(target.Process.Pid) // the decoy
	fmt.Fprintln(in, elsewhere.Process.Pid)
	if _, err := io.ReadFull(out, make([]byte, len("left\n"))); err != nil {
		t.Fatal(err)
	}
	pidfd, err := unix.PidfdOpen(target.Process.Pid, 0)
	must.Do(t, err)
	defer unix.Close(pidfd)
	if got := linux.PIDOf(pidfd); got != target.Process.Pid {
		t.Errorf("PIDOf: %d, want %d", got, target.Process.Pid)
	}
	signalGroup(pidfd, unix.SIGTERM)
	gone := make(chan error, 1)
	go func() { gone <- target.Wait() }()
	select {
	case <-gone:
	case <-time.After(20 * time.Second):
		t.Fatal("the target goes on")
	}
	if err := elsewhere.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the other group: %v", err)
	}
	signalGroup(pidfd, unix.SIGTERM) // gone: nobody else is hit
}

// A key of the terminal's, or timeout(1), sends a signal to everybody in the caller's process group. The child would die of it without a word.
func TestWhatIsSentToTheCallersGroupIsNotForTheChild(t *testing.T) {
	for _, namespaces := range []uintptr{0, First.Namespaces} {
		child, failed := clone(namespaces).wait()
		if failed != nil && namespaces != 0 && !slices.Contains(strings.Split(os.Getenv("CONFINE_MUST_RUN"), ","), "userns") {
			t.Skipf("no user namespace can be made: %v", failed)
		}
		if failed != nil {
			t.Fatalf("%#x: %v", namespaces, failed)
		}
		if group, err := unix.Getpgid(child.pid); err != nil || group != child.pid {
			t.Errorf("%#x: its group is %d, and it is %d: %v", namespaces, group, child.pid, err)
		}
		child.discard()
	}
}
