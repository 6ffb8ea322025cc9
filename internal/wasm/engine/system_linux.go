package engine

import (
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ofKernel says whether a file is one by which the kernel tells of processes and devices, or takes orders.
func ofKernel(f *os.File) bool {
	var made unix.Statfs_t
	if unix.Fstatfs(int(f.Fd()), &made) != nil {
		return true
	}
	switch made.Type {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC:
		return true
	}
	return false
}

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
