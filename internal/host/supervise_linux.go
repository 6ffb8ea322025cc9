package host

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// yamaScope says who may look into whom: 0 and 1 let a process look into those below it.
const yamaScope = "/proc/sys/kernel/yama/ptrace_scope"

// CantSupervise says why this process could not make socket calls for another below
// it, "" if it can: it has to read what they name, and to take duplicates of sockets.
// other: under other ids than its own.
func (f *Facts) CantSupervise(other bool) string {
	trace := f.Capable(unix.CAP_SYS_PTRACE)
	if other && !trace {
		return "a process of another user can't be looked into without CAP_SYS_PTRACE"
	}
	if text, err := os.ReadFile(yamaScope); err == nil {
		scope, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil || scope > 2 || scope == 2 && !trace {
			return "kernel.yama.ptrace_scope keeps processes from being looked into"
		}
	}
	if err := takesDescriptors(); err != nil {
		return "pidfd_getfd (Linux 5.6) is refused: " + err.Error()
	}
	return ""
}

// takesDescriptors tries it on this process, as a filter of system calls may refuse it.
func takesDescriptors() error {
	var pair [2]int
	if err := unix.Pipe2(pair[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	own, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return err
	}
	defer unix.Close(own)
	fd, err := unix.PidfdGetfd(own, pair[0], 0)
	if err != nil {
		return err
	}
	_ = unix.Close(fd)
	// With nothing to be read, it is refused for what it is or not at all.
	if _, err := unix.ProcessVMReadv(os.Getpid(), nil, nil, 0); err != nil {
		return err
	}
	return nil
}
