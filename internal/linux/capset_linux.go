package linux

import (
	"math/bits"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// capset is the call after which a thread has exactly these capabilities,
// effective and permitted, and inheritable if asked.
func capset(inheritable bool, caps uint64) Call {
	header := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := new([2]unix.CapUserData)
	for i := range data {
		d := &data[i]
		d.Effective = uint32(caps >> (32 * i))
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
func NoCapabilities() Call { return capset(false, 0) }

// SetCapabilities gives the calling thread, to which the caller has to be locked,
// these capabilities and no others, effective and permitted.
func SetCapabilities(caps uint64) error {
	c := capset(false, caps)
	if _, _, errno := unix.RawSyscall(c.Nr, c.Args[0], c.Args[1], 0); errno != 0 {
		return errno
	}
	return nil
}

// AmbientCapabilities are the calls after which exactly these capabilities
// survive an execve, whatever the user id.
func AmbientCapabilities(caps uint64) []Call {
	calls := []Call{capset(true, caps)}
	for ; caps != 0; caps &= caps - 1 {
		calls = append(calls, Call{Name: "prctl PR_CAP_AMBIENT_RAISE", Nr: unix.SYS_PRCTL,
			Args: [5]uintptr{unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, uintptr(bits.TrailingZeros64(caps))}})
	}
	return calls
}

// others are the threads that meet files as others: whether a process is dumpable belongs to all of it, and a change of fsuid clears that.
var others struct {
	sync.Mutex
	threads, dumpable int
}

// FilesAs has this thread meet files as another user does, until leave.
func FilesAs(uid, gid uint32) (leave func(), err error) {
	runtime.LockOSThread()
	others.Lock()
	if others.threads++; others.threads == 1 {
		others.dumpable, _ = unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	}
	_, _ = unix.SetfsgidRetGid(int(gid))
	_, _ = unix.SetfsuidRetUid(int(uid))
	others.Unlock()
	leave = func() {
		others.Lock()
		_, _ = unix.SetfsuidRetUid(unix.Geteuid())
		_, _ = unix.SetfsgidRetGid(unix.Getegid())
		if others.threads--; others.threads == 0 && others.dumpable == 1 {
			_ = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
		}
		others.Unlock()
		runtime.UnlockOSThread()
	}
	// The calls give the former id and never an error; -1 changes nothing.
	nowUID, _ := unix.SetfsuidRetUid(-1)
	nowGID, _ := unix.SetfsgidRetGid(-1)
	if uint32(nowUID) != uid || uint32(nowGID) != gid {
		leave()
		return nil, unix.EPERM
	}
	return leave, nil
}

// AsUser has root do something with files as a user without capabilities, on one thread. Everybody else does it as they are.
func AsUser(uid, gid uint32, do func() error) error {
	if unix.Geteuid() != 0 {
		return do()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var had, none [2]unix.CapUserData
	if err := unix.Capget(&header, &had[0]); err != nil {
		return err
	}
	leave, err := FilesAs(uid, gid)
	if err != nil {
		return err
	}
	defer leave()
	for i := range none {
		none[i].Permitted, none[i].Inheritable = had[i].Permitted, had[i].Inheritable
	}
	defer func() { _ = unix.Capset(&header, &had[0]) }()
	if err := unix.Capset(&header, &none[0]); err != nil {
		return err
	}
	return do()
}
