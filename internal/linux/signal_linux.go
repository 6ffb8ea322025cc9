package linux

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sigaction is the kernel's struct: handler, flags, restorer, mask. All zero is SIG_DFL.
type sigaction [4]uint64

const sigIgn = 1 // SIG_IGN

func rtSigaction(n unix.Signal, action, old *sigaction) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(n), uintptr(unsafe.Pointer(action)), uintptr(unsafe.Pointer(old)), 8, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// Ignored says whether n is ignored. The Go runtime keeps that of whoever started this
// process for SIGHUP, SIGINT and the signals that stop a process; for others it installs
// its own handler first, and what was there before can't be told.
func Ignored(n unix.Signal) bool {
	var old sigaction
	return rtSigaction(n, nil, &old) == nil && old[0] == sigIgn
}

// DefaultAction gives n its default action until restore is called. Package signal can't:
// the runtime keeps a handler that it once installed.
func DefaultAction(n unix.Signal) (restore func()) {
	var action, old sigaction
	if rtSigaction(n, &action, &old) != nil {
		return func() {}
	}
	return func() { _ = rtSigaction(n, &old, nil) }
}

// Sigset is a set of signals.
func Sigset(signals ...unix.Signal) (set unix.Sigset_t) {
	const bits = 32 << (^uint(0) >> 63)
	for _, n := range signals {
		set.Val[(int(n)-1)/bits] |= 1 << ((int(n) - 1) % bits)
	}
	return set
}

// DieBy ends this process by n, so that whoever waits for it sees that, and with job sends n
// to the rest of its process group, too. There is no core dump: this process is not what
// failed.
func DieBy(n unix.Signal, job bool) {
	runtime.LockOSThread()
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	DefaultAction(n)
	set := Sigset(n)
	_ = unix.PthreadSigmask(unix.SIG_UNBLOCK, &set, nil)
	if job {
		_ = unix.Kill(0, n)
	}
	_ = unix.Tgkill(unix.Getpid(), unix.Gettid(), n)
}
