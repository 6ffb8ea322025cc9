package linux

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// DropCapabilities empties the effective, permitted and inheritable set of
// every thread of the process: capset(2) reaches one thread only.
func DropCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET,
		uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none[0])), 0)
	if errno != 0 {
		return errno
	}
	return nil
}
