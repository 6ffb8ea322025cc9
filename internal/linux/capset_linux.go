package linux

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// DropCapabilities empties the effective, permitted and inheritable set of the
// calling thread, to which the caller has to be locked.
func DropCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return unix.Capset(&header, &none[0])
}

// AmbientCapabilities are the calls after which exactly these capabilities
// survive an execve, whatever the user id.
func AmbientCapabilities(caps []uint) []Call {
	header := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := new([2]unix.CapUserData)
	for _, c := range caps {
		d := &data[c/32]
		d.Effective |= 1 << (c % 32)
		d.Permitted, d.Inheritable = d.Effective, d.Effective
	}
	calls := []Call{{Name: "capset", Nr: unix.SYS_CAPSET, Keep: [2]any{header, data},
		Args: [5]uintptr{uintptr(unsafe.Pointer(header)), uintptr(unsafe.Pointer(&data[0]))}}}
	for _, c := range caps {
		calls = append(calls, Call{Name: "prctl PR_CAP_AMBIENT_RAISE", Nr: unix.SYS_PRCTL,
			Args: [5]uintptr{unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, uintptr(c)}})
	}
	return calls
}
