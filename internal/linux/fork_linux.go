package linux

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Call is one system call of a list that ForkExec makes in the new process.
type Call struct {
	Name string
	Nr   uintptr
	Args [5]uintptr
	// Result, if not nil, is where the result goes, for a later call of the list.
	Result *int32
	// Keep holds what Args point to.
	Keep any
}

// CallError is the call of the list that the kernel refused.
type CallError struct {
	Name  string
	Errno unix.Errno
}

func (e *CallError) Error() string { return e.Name + ": " + e.Errno.Error() }

// Unwrap gives the errno.
func (e *CallError) Unwrap() error { return e.Errno }

// ForkExec forks, makes the calls of the list in the new process, one after
// another, and says which of them failed. The last is to be execve.
//
// The new process has one thread and no working Go runtime, so nothing runs in
// it but this list: no allocation, no stack growth, no scheduler. The calls can
// therefore be such that no Go program survives them, and seccomp can come right
// before execve. Success is the end of a close-on-exec pipe, as in os/exec.
//
// The caller has to be locked to its thread, with no signal handled: what is left
// of the Go runtime must not handle one in the new process.
func ForkExec(calls []Call) (pid int, err error) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return 0, &CallError{"pipe2", err.(unix.Errno)}
	}
	defer unix.Close(pipe[0])
	pid, errno := forkCalls(calls, uintptr(pipe[1]))
	_ = unix.Close(pipe[1])
	runtime.KeepAlive(calls)
	if errno != 0 {
		return 0, &CallError{"clone", errno}
	}
	var report [2]uint32
	n, err := unix.Read(pipe[0], (*[8]byte)(unsafe.Pointer(&report))[:])
	if err != nil || n == 0 {
		return pid, nil
	}
	var status unix.WaitStatus
	for {
		if _, err := unix.Wait4(pid, &status, 0, nil); err != unix.EINTR {
			break
		}
	}
	if n != 8 || int(report[0]) >= len(calls) {
		return 0, &CallError{"clone", unix.EIO}
	}
	return 0, &CallError{calls[report[0]].Name, unix.Errno(report[1])}
}

// forkCalls returns only in the old process.
//
//go:noinline
//go:norace
//go:nosplit
func forkCalls(calls []Call, pipe uintptr) (pid int, errno unix.Errno) {
	var report [2]uint32
	r, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || r != 0 {
		return int(r), errno
	}
	for i := range calls {
		c := &calls[i]
		r, _, errno = unix.RawSyscall6(c.Nr, c.Args[0], c.Args[1], c.Args[2], c.Args[3], c.Args[4], 0)
		if errno != 0 {
			report[0], report[1] = uint32(i), uint32(errno)
			break
		}
		if c.Result != nil {
			*c.Result = int32(r)
		}
	}
	unix.RawSyscall(unix.SYS_WRITE, pipe, uintptr(unsafe.Pointer(&report[0])), 8)
	for {
		unix.RawSyscall(unix.SYS_EXIT_GROUP, 127, 0, 0)
	}
}
