package attempts

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

var processTries = []Try{
	{"deaf", 1, deaf},           // SECONDS: ignores what can be ignored; writes "ready" first
	{"hear", 1, hear},           // SECONDS: exits with 40+n on signal n; writes "ready" first
	{"sleep", 1, Sleep},         // SECONDS
	{"awake", 1, awake},         // SECONDS
	{"daemon", 1, daemon},       // SECONDS [TOKEN]: leaves a process of a session of its own, deaf
	{"between", 2, between},     // SECONDS TOKEN: the one that daemon ends
	{"stopped", 1, stopped},     // SECONDS: leaves a stopped process
	{"killall", 1, killAll},     // PID: every signal there is, one after another
	{"ptrace", 1, ptrace},       // PID
	{"peek", 1, peek},           // PID: process_vm_readv
	{"pidfd", 2, pidfd},         // PID FD: pidfd_getfd
	{"limit", 1, limit},         // PID: prlimit64, of the files that it may open
	{"tree", 2, grow},           // N SECONDS: N children at once, each sleeping; prints how many there were
	{"lived", 2, lived},         // N SECONDS: the same, and all of them have to live through it
	{"signalled", 3, signalled}, // SIGNAL,… WORD COMMAND…: sends them once it has written WORD
	{"bomb", 2, bomb},           // N SECONDS [TOKEN]: forks without pause, each child forking once more, N at most
	{"affinity", 0, affinity},   // prints the number of cores
}

func deaf(args []string) error {
	signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGTSTP, unix.SIGPIPE)
	fmt.Println("ready")
	return Sleep(args)
}

func hear(args []string) error {
	n := Number(args[0])
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGUSR1)
	fmt.Println("ready")
	select {
	case s := <-heard:
		fmt.Println("heard", s)
		os.Exit(40 + int(s.(syscall.Signal)))
	case <-time.After(time.Duration(n) * time.Second):
	}
	return nil
}

// Sleep sleeps for so many seconds.
func Sleep(args []string) error {
	time.Sleep(time.Duration(Number(args[0])) * time.Second)
	return nil
}

// awake says that it runs.
func awake(args []string) error {
	if _, err := os.Stdout.WriteString("awake\n"); err != nil {
		return err
	}
	return Sleep(args)
}

// Self is what has to stand before a word for this program to take it as one of ours.
var Self []string

// Again starts this program once more.
func Again(attr *syscall.SysProcAttr, args ...string) (*exec.Cmd, error) {
	cmd := again(args...)
	cmd.SysProcAttr = attr
	return cmd, cmd.Start()
}

func again(args ...string) *exec.Cmd {
	return exec.Command("/proc/self/exe", append(Self[:len(Self):len(Self)], args...)...)
}

// cloned starts this program once more, and waits for it.
func cloned(attr *syscall.SysProcAttr, words ...string) error {
	cmd, err := Again(attr, words...)
	if err != nil {
		return err
	}
	return cmd.Wait()
}

// daemon forks twice: the one in between ends, and nobody knows the other's parent.
// Who looks for it finds the token among its words.
func daemon(args []string) error {
	return cloned(&syscall.SysProcAttr{Setsid: true}, "between", args[0], strings.Join(args[1:], ""))
}

func between(args []string) error {
	return errOf(Again(&syscall.SysProcAttr{Setsid: true}, "deaf", args[0], args[1]))
}

func stopped(args []string) error {
	cmd, err := Again(nil, "sleep", args[0])
	if err != nil {
		return err
	}
	if err := cmd.Process.Signal(unix.SIGSTOP); err != nil {
		return err
	}
	var status unix.WaitStatus
	_, err = unix.Wait4(cmd.Process.Pid, &status, unix.WUNTRACED, nil)
	if err == nil && !status.Stopped() {
		return fmt.Errorf("%w: it did not stop", ErrBroken)
	}
	return err
}

// killAll leaves the real-time signals out that the C library uses.
func killAll(args []string) error {
	pid := Number(args[0])
	for n := 1; n <= 64; n++ {
		if n == 32 || n == 33 {
			continue
		}
		if err := unix.Kill(int(pid), unix.Signal(n)); err != nil {
			return fmt.Errorf("signal %d: %w", n, err)
		}
	}
	return nil
}

func ptrace(args []string) error { return withPID(args[0], unix.PtraceSeize) }

func peek(args []string) error {
	return withPID(args[0], func(pid int) error {
		b := make([]byte, 8)
		local := []unix.Iovec{{Base: &b[0], Len: 8}}
		// Any address will do: one that isn't there gives EFAULT, behind the check.
		return anyBut(errOf(unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: 0x10000, Len: 8}}, 0)), unix.EFAULT)
	})
}

func limit(args []string) error {
	return withPID(args[0], func(pid int) error {
		var is unix.Rlimit
		if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &is); err != nil {
			return fmt.Errorf("%w: prlimit: %w", ErrBroken, err)
		}
		is.Cur--
		return unix.Prlimit(pid, unix.RLIMIT_NOFILE, &is, nil)
	})
}

func pidfd(args []string) error {
	n := Number(args[1])
	return withPID(args[0], func(pid int) error {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return err
		}
		return errOf(unix.PidfdGetfd(fd, int(n), 0))
	})
}

func grow(args []string) error {
	children, err := several(Number(args[0]), "sleep", args[1])
	fmt.Println("started", len(children))
	_ = wait(children, nil)
	return err
}

func lived(args []string) error { return wait(several(Number(args[0]), "sleep", args[1])) }

// signalled exits as the command does.
func signalled(args []string) error {
	cmd := exec.Command(args[2], args[3:]...)
	cmd.Stdin, cmd.Stderr = os.Stdin, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		fmt.Println(lines.Text())
		if lines.Text() != args[1] {
			continue
		}
		for i, name := range strings.Split(args[0], ",") {
			if i > 0 {
				// Equal signals that are both pending are one.
				time.Sleep(200 * time.Millisecond)
			}
			if err := cmd.Process.Signal(unix.SignalNum("SIG" + name)); err != nil {
				return err
			}
		}
	}
	if exit, ok := errors.AsType[*exec.ExitError](cmd.Wait()); ok {
		os.Exit(exit.ExitCode())
	}
	return nil
}

// bomb forks for so many seconds; a refusal doesn't end it.
func bomb(args []string) error {
	n := Numbers(args[:2])
	end := time.Now().Add(time.Duration(n[1]) * time.Second)
	var refused error
	for i := int64(0); i < n[0] && time.Now().Before(end); i++ {
		cmd, err := Again(nil, append([]string{"tree", "1", "1"}, args[2:]...)...)
		if err != nil {
			refused = err
			continue
		}
		go func() { _ = cmd.Wait() }()
	}
	return refused
}

func affinity([]string) error {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return err
	}
	fmt.Println(set.Count())
	return nil
}
