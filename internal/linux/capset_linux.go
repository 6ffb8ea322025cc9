package linux

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// capset is the call after which a thread has exactly these capabilities,
// effective and permitted, and inheritable if asked.
func capset(inheritable bool, caps ...uint) Call {
	header := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := new([2]unix.CapUserData)
	for _, c := range caps {
		d := &data[c/32]
		d.Effective |= 1 << (c % 32)
		d.Permitted = d.Effective
		if inheritable {
			d.Inheritable = d.Effective
		}
	}
	return Call{Name: "capset", Nr: unix.SYS_CAPSET, Keep: [2]any{header, data},
		Args: [5]uintptr{uintptr(unsafe.Pointer(header)), uintptr(unsafe.Pointer(&data[0]))}}
}

// NoCapabilities is the call that empties the effective, permitted and
// inheritable set.
func NoCapabilities() Call { return capset(false) }

// SetCapabilities gives the calling thread, to which the caller has to be locked,
// these capabilities and no others, effective and permitted.
func SetCapabilities(caps ...uint) error {
	c := capset(false, caps...)
	if _, _, errno := unix.RawSyscall(c.Nr, c.Args[0], c.Args[1], 0); errno != 0 {
		return errno
	}
	return nil
}

// AmbientCapabilities are the calls after which exactly these capabilities
// survive an execve, whatever the user id.
func AmbientCapabilities(caps []uint) []Call {
	calls := []Call{capset(true, caps...)}
	for _, c := range caps {
		calls = append(calls, Call{Name: "prctl PR_CAP_AMBIENT_RAISE", Nr: unix.SYS_PRCTL,
			Args: [5]uintptr{unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, uintptr(c)}})
	}
	return calls
}
