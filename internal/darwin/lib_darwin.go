package darwin

import (
	"sync"
	"syscall"
	"time"
	"unsafe"
)

//go:cgo_import_dynamic libc_mach_timebase_info mach_timebase_info "/usr/lib/libSystem.B.dylib"
//go:cgo_import_dynamic libc_proc_listpids proc_listpids "/usr/lib/libSystem.B.dylib"
//go:cgo_import_dynamic libc_proc_pid_rusage proc_pid_rusage "/usr/lib/libSystem.B.dylib"
//go:cgo_import_dynamic libc_proc_pidinfo proc_pidinfo "/usr/lib/libSystem.B.dylib"
//go:cgo_import_dynamic libc_sandbox_check sandbox_check "/usr/lib/libSystem.B.dylib"

var (
	machTimebaseInfoAddr uintptr
	procListpidsAddr     uintptr
	procPidRusageAddr    uintptr
	procPidinfoAddr      uintptr
	sandboxCheckAddr     uintptr
)

//go:linkname syscall6 syscall.syscall6
func syscall6(fn, a1, a2, a3, a4, a5, a6 uintptr) (r1, r2 uintptr, err syscall.Errno)

const (
	procUIDOnly     = 4 // PROC_UID_ONLY: by effective user
	procPidTaskInfo = 4 // PROC_PIDTASKINFO
	rusageInfoV2    = 2 // RUSAGE_INFO_V2
)

// Processes are those of a user.
func Processes(uid int) ([]int, error) {
	for room := 1024; ; room *= 2 {
		pids := make([]int32, room)
		n, _, errno := syscall6(procListpidsAddr, procUIDOnly, uintptr(uid), uintptr(unsafe.Pointer(&pids[0])), uintptr(4*room), 0, 0)
		if int32(n) <= 0 {
			return nil, errno
		}
		if got := int(int32(n)) / 4; got < room {
			all := make([]int, 0, got)
			for _, pid := range pids[:got] {
				if pid > 0 {
					all = append(all, int(pid))
				}
			}
			return all, nil
		}
	}
}

// rusage is struct rusage_info_v2. Times are of the machine's own clock.
type rusage struct {
	UUID                            [16]byte
	User, System                    uint64
	PkgIdleWkups, InterruptWkups    uint64
	Pageins, Wired, Resident        uint64
	Footprint                       uint64
	Start, Exit                     uint64
	ChildUser, ChildSystem          uint64
	ChildPkgIdle, ChildInterrupt    uint64
	ChildPageins, ChildElapsed      uint64
	DiskBytesRead, DiskBytesWritten uint64
}

// taskInfo is struct proc_taskinfo.
type taskInfo struct {
	VirtualSize, ResidentSize, TotalUser, TotalSystem, ThreadsUser, ThreadsSystem                                uint64
	Policy, Faults, Pageins, CowFaults, Sent, Received, SyscallsMach, SyscallsUnix, Csw, Threads, Running, Prior int32
}

// Usage is what one process uses.
type Usage struct {
	CPU     time.Duration // user and system
	Memory  int64         // physical footprint, which is what "Activity Monitor" shows and the kernel's own limits count
	Threads int
	Start   uint64 // when it began, which tells it from a later one of the same number
}

// UsageOf is what a process uses. One that has ended is syscall.ESRCH.
func UsageOf(pid int) (Usage, error) {
	var r rusage
	if n, _, errno := syscall6(procPidRusageAddr, uintptr(pid), rusageInfoV2, uintptr(unsafe.Pointer(&r)), 0, 0, 0); int32(n) != 0 {
		return Usage{}, errno
	}
	u := Usage{CPU: nanoseconds(r.User + r.System), Memory: int64(r.Footprint), Threads: 1, Start: r.Start}
	var t taskInfo
	size := unsafe.Sizeof(t)
	if n, _, _ := syscall6(procPidinfoAddr, uintptr(pid), procPidTaskInfo, 0, uintptr(unsafe.Pointer(&t)), size, 0); n == size {
		u.Threads = max(1, int(t.Threads))
	}
	return u, nil
}

// timebase is how many nanoseconds a tick of the machine's clock has.
var timebase = sync.OnceValue(func() (t struct{ Numer, Denom uint32 }) {
	if n, _, _ := syscall6(machTimebaseInfoAddr, uintptr(unsafe.Pointer(&t)), 0, 0, 0, 0, 0); int32(n) != 0 || t.Denom == 0 {
		t.Numer, t.Denom = 1, 1
	}
	return t
})

func nanoseconds(ticks uint64) time.Duration {
	t := timebase()
	return time.Duration(ticks / uint64(t.Denom) * uint64(t.Numer))
}

const (
	sandboxFilterGlobalName = 2          // SANDBOX_FILTER_GLOBAL_NAME
	sandboxCheckNoReport    = 0x40000000 // SANDBOX_CHECK_NO_REPORT
)

// Sandboxed says whether a process is in a sandbox.
func Sandboxed(pid int) bool {
	n, _, _ := syscall6(sandboxCheckAddr, uintptr(pid), 0, 0, 0, 0, 0)
	return int32(n) == 1
}

// MayLookUp says whether the sandbox of a process lets it look up a service of that name, whether there is one or not. The fourth argument of
// sandbox_check is one of a variable number, which arm64 wants on the stack: syscall6 puts it there, too, for the sake of openat.
func MayLookUp(pid int, service string) bool {
	op, name := append([]byte("mach-lookup"), 0), append([]byte(service), 0)
	n, _, _ := syscall6(sandboxCheckAddr, uintptr(pid), uintptr(unsafe.Pointer(&op[0])), sandboxFilterGlobalName|sandboxCheckNoReport,
		uintptr(unsafe.Pointer(&name[0])), 0, 0)
	return int32(n) == 0
}

// Product is the version of macOS; "": it can't be told.
func Product() string {
	text, err := syscall.Sysctl("kern.osproductversion")
	if err != nil {
		return ""
	}
	return text
}

// The kernel writes as much as its own have.
const (
	_ = -(unsafe.Sizeof(rusage{}) ^ (16 + 18*8))
	_ = -(unsafe.Sizeof(taskInfo{}) ^ (6*8 + 12*4))
)
