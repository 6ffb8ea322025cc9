package denials

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/internal/must"
)

// A target is this test binary, run again: it loads a filter that tells getppid,
// sends the listener over descriptor 3, and does what its words say.

const targetEnv = "CONFINE_TEST_DENIALS_TARGET"

func TestMain(m *testing.M) {
	host.ProbeMain()
	if words := os.Getenv(targetEnv); words != "" {
		os.Unsetenv(targetEnv)
		beTarget(strings.Fields(words))
	}
	os.Exit(m.Run())
}

func beTarget(words []string) {
	word, killable := strings.CutPrefix(words[0], "killable-")
	words[0] = word
	if err := sendListener(killable); err != nil {
		fmt.Println(err)
		os.Exit(125)
	}
	n := 1
	if len(words) > 1 {
		n, _ = strconv.Atoi(words[1])
	}
	switch words[0] {
	case "shell":
		fmt.Println(syscall.Exec("/bin/sh", []string{"sh", "-c", "exit 7"}, os.Environ()))
		os.Exit(125)
	case "thread":
		done := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			defer close(done)
			tally(1)
		}()
		<-done
	case "disturbed":
		alarms := make(chan os.Signal, 1)
		signal.Notify(alarms, unix.SIGALRM)
		every := unix.Itimerval{Interval: unix.Timeval{Usec: 50}, Value: unix.Timeval{Usec: 50}}
		_, _, _ = unix.RawSyscall(unix.SYS_SETITIMER, unix.ITIMER_REAL, uintptr(unsafe.Pointer(&every)), 0)
		tally(n)
	case "calls":
		tally(n)
	}
	os.Exit(0)
}

// tally makes the call n times, each with another argument, and prints how often
// there was which answer.
func tally(n int) {
	count := map[string]int{}
	for i := range n {
		_, _, errno := unix.RawSyscall(unix.SYS_GETPPID, uintptr(i), 0, 0)
		count[unix.ErrnoName(errno)]++
	}
	fmt.Println(count)
}

func sendListener(killable bool) error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_GETPPID},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	// On all threads, and those to come.
	flags := uintptr(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_TSYNC | unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH)
	if killable {
		flags |= 1 << 5 // SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
	}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	defer unix.Close(int(fd))
	return unix.Sendmsg(3, []byte{0}, unix.UnixRights(int(fd)), nil, 0)
}

// target is one that runs.
type target struct {
	*testing.T
	cmd *exec.Cmd
	out bytes.Buffer
	*Listener
}

// judgeFunc is a judge that has no hints.
type judgeFunc func(c *Call, text func(addr uint64) string) Answer

func (j judgeFunc) Answer(c *Call, text func(addr uint64) string) Answer { return j(c, text) }
func (j judgeFunc) Hint(*Call) string                                    { return "" }

// start starts a target whose kill is the run's end, or of somebody else.
func start(t *testing.T, words string, its bool, judge judgeFunc) *target {
	t.Helper()
	if ok, err := host.Has("seccomp_user_notif"); err != nil {
		t.Fatal(err)
	} else if !ok {
		must.Do(t, host.MustRun("seccomp_user_notif"))
		t.Skip("no seccomp_user_notif")
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must.Do(t, err)
	theirs := os.NewFile(uintptr(pair[1]), "channel")
	x := &target{T: t, cmd: exec.CommandContext(t.Context(), "/proc/self/exe")}
	x.cmd.Env = append(os.Environ(), targetEnv+"="+words)
	x.cmd.ExtraFiles = []*os.File{theirs}
	x.cmd.Stdout, x.cmd.Stderr = &x.out, &x.out
	must.Do(t, x.cmd.Start())
	t.Cleanup(func() { _ = x.cmd.Process.Kill() })
	theirs.Close()
	defer unix.Close(pair[0])
	space := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(pair[0], make([]byte, 1), space, unix.MSG_CMSG_CLOEXEC)
	if err != nil || n == 0 {
		_ = x.cmd.Wait()
		if strings.Contains(x.out.String(), "invalid argument") {
			t.Skip("before Linux 5.19")
		}
		t.Skipf("no listener: %v %s", err, x.out.String()) // there is one above
	}
	messages, err := unix.ParseSocketControlMessage(space[:n])
	must.Do(t, err)
	fds, err := unix.ParseUnixRights(&messages[0])
	must.Do(t, err)
	pid := 1 << 22
	if its {
		pid = x.cmd.Process.Pid
	}
	x.Listener, err = Listen(fds[0], judge, pid, nil, nil)
	must.Do(t, err)
	return x
}

// end waits for the target, and gives what it printed and how it ended.
func (x *target) end() (string, syscall.WaitStatus) {
	x.Helper()
	var stuck atomic.Bool
	timer := time.AfterFunc(time.Minute, func() { stuck.Store(true); _ = x.cmd.Process.Kill() })
	_ = x.cmd.Wait()
	timer.Stop()
	x.Close()
	if stuck.Load() {
		x.Fatalf("it hangs: %s", x.out.String())
	}
	select {
	case err := <-x.Broken():
		x.Errorf("the listener is broken: %v", err)
	default:
	}
	return strings.TrimSpace(x.out.String()), x.cmd.ProcessState.Sys().(syscall.WaitStatus)
}
