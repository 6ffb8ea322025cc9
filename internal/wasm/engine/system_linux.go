package engine

import (
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

// Packages are initialised on the thread that the process began with, and where the module goes on: see handoff.MonitorSlack.
func init() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) }

func ofKernel(f *os.File) bool { return linux.OfKernel(int(f.Fd())) }

func setTimes(f *os.File, atime, mtime time.Time) error {
	times := [2]unix.Timespec{timespec(atime), timespec(mtime)}
	_, _, e := unix.Syscall6(unix.SYS_UTIMENSAT, f.Fd(), 0, uintptr(unsafe.Pointer(&times)), 0, 0, 0)
	if e != 0 {
		return e
	}
	return nil
}

func timespec(t time.Time) unix.Timespec {
	if t.IsZero() {
		return unix.Timespec{Nsec: unix.UTIME_OMIT}
	}
	return unix.NsecToTimespec(t.UnixNano())
}
