package attempts

import (
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// leakTries are what of the caller could be left lying about.
var leakTries = []Try{
	{"inherited", 0, inherited}, // is a descriptor open beyond the three streams?
	{"variable", 1, variable},   // NAME: is it in the environment?
	{"tty", 0, tty},             // a controlling terminal
	{"segment", 1, segment},     // KEY: shared memory of System V
	{"memory", 1, memory},       // PID: /proc/PID/mem
	{"environ", 1, environ},     // PID: /proc/PID/environ
	{"rootof", 2, rootOf},       // PID FILE: by way of its root
	{"signal", 1, signalTo},     // PID: one that does it no harm
}

func inherited([]string) error {
	open, err := openFDs()
	if err != nil {
		return err
	}
	for _, n := range open {
		if n > 2 {
			to, _ := os.Readlink("/proc/self/fd/" + strconv.Itoa(n))
			fmt.Println(n, to)
			return nil
		}
	}
	return fmt.Errorf("none but 0, 1, 2: %w", unix.EBADF)
}

func variable(args []string) error {
	if os.Getenv(args[0]) == "" {
		return fmt.Errorf("%s is not set", args[0])
	}
	return nil
}

func tty([]string) error {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: "/dev/tty", Err: err}
	}
	return unix.Close(fd)
}

func segment(args []string) error {
	key := Number(args[0])
	id, err := unix.SysvShmGet(int(key), 0, 0)
	if err != nil {
		return fmt.Errorf("shmget: %w", err)
	}
	b, err := unix.SysvShmAttach(id, 0, unix.SHM_RDONLY)
	if err != nil {
		return fmt.Errorf("shmat: %w", err)
	}
	return unix.SysvShmDetach(b)
}

// withPID is for what is done to another process: "parent", "child", which is one
// that is started for it, or a number.
func withPID(word string, do func(pid int) error) error {
	switch word {
	case "parent":
		return do(os.Getppid())
	case "child":
		cmd, err := Again(nil, "sleep", "20")
		if err != nil {
			return fmt.Errorf("%w: %w", ErrBroken, err)
		}
		defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
		return do(cmd.Process.Pid)
	}
	pid := Number(word)
	return do(int(pid))
}

// memory: the kernel checks at the open.
func memory(args []string) error {
	return withPID(args[0], func(pid int) error {
		f, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
		if err != nil {
			return err
		}
		return f.Close()
	})
}

func environ(args []string) error {
	return withPID(args[0], func(pid int) error {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err == nil && len(b) == 0 {
			return io.ErrUnexpectedEOF
		}
		return err
	})
}

func rootOf(args []string) error {
	return withPID(args[0], func(pid int) error {
		return read([]string{fmt.Sprintf("/proc/%d/root%s", pid, args[1])})
	})
}

func signalTo(args []string) error {
	return withPID(args[0], func(pid int) error { return unix.Kill(pid, unix.SIGCONT) })
}
