package host

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

func (p *inProbe) noNewPrivs() error {
	return refuse("prctl(PR_SET_NO_NEW_PRIVS)", unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
}

// sentinel is an errno that getppid never gives by itself.
const sentinel = unix.ENOTNAM

// seccomp loads a filter for one call and makes that call.
func (p *inProbe) seccomp() error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the call's number
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_GETPPID},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(sentinel)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if _, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog))); errno != 0 {
		return refuse("seccomp(SECCOMP_SET_MODE_FILTER)", errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_GETPPID, 0, 0, 0); errno != sentinel {
		return refuse("a loaded seccomp filter is not obeyed", unsaid)
	}
	return nil
}

// forkUnderLimit forks, bounds the child's RLIMIT_NPROC to what is there
// already, and has the child fork once more. It gives the errno of that.
//
// The limit is the child's own, as this process's runtime may need a thread at
// any time. The child makes nothing but raw calls: after the fork it has one
// thread and no runtime.
func forkUnderLimit() unix.Errno {
	limit := unix.Rlimit{Cur: 1, Max: 1}
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	if pid == 0 {
		_, _, errno := unix.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NPROC, uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
		if errno == 0 {
			pid, _, errno = unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
			if errno == 0 && pid != 0 {
				unix.RawSyscall6(unix.SYS_WAIT4, pid, 0, 0, 0, 0, 0)
			}
		}
		for {
			unix.RawSyscall(unix.SYS_EXIT_GROUP, uintptr(errno), 0, 0)
		}
	}
	var ws unix.WaitStatus
	for {
		if _, err := unix.Wait4(int(pid), &ws, 0, nil); err != unix.EINTR {
			break
		}
	}
	if !ws.Exited() {
		return unix.EIO
	}
	return unix.Errno(ws.ExitStatus())
}
