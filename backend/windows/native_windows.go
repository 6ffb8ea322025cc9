package windows

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// What golang.org/x/sys/windows lacks.
var (
	advapi32 = windows.NewLazySystemDLL("advapi32.dll")
	kernel32 = windows.NewLazySystemDLL("kernel32.dll")
	user32   = windows.NewLazySystemDLL("user32.dll")

	procCreateRestrictedToken    = advapi32.NewProc("CreateRestrictedToken")
	procCreateProcessWithTokenW  = advapi32.NewProc("CreateProcessWithTokenW")
	procGetKernelObjectSecurity  = advapi32.NewProc("GetKernelObjectSecurity")
	procIsProcessInJob           = kernel32.NewProc("IsProcessInJob")
	procCreateWindowStationW     = user32.NewProc("CreateWindowStationW")
	procCreateDesktopW           = user32.NewProc("CreateDesktopW")
	procCloseWindowStation       = user32.NewProc("CloseWindowStation")
	procCloseDesktop             = user32.NewProc("CloseDesktop")
	procGetProcessWindowStation  = user32.NewProc("GetProcessWindowStation")
	procSetProcessWindowStation  = user32.NewProc("SetProcessWindowStation")
	procGetUserObjectInformation = user32.NewProc("GetUserObjectInformationW")
	procAttachConsole            = kernel32.NewProc("AttachConsole")
	procFreeConsole              = kernel32.NewProc("FreeConsole")
	procSetConsoleCtrlHandler    = kernel32.NewProc("SetConsoleCtrlHandler")
)

const (
	disableMaxPrivilege = 0x1
	writeRestricted     = 0x8

	attributeJobList = 0x2000D // PROC_THREAD_ATTRIBUTE_JOB_LIST

	logonWithoutProfile = 0
)

// Messages of a job's completion port.
const (
	msgEndOfJobTime       = 1
	msgActiveProcessLimit = 3
	msgNewProcess         = 6
	msgProcessMemoryLimit = 9
	msgJobMemoryLimit     = 10
)

// counts are JOBOBJECT_BASIC_ACCOUNTING_INFORMATION; times are of 100 ns.
type counts struct {
	TotalUserTime, TotalKernelTime           int64
	ThisPeriodUserTime, ThisPeriodKernelTime int64
	PageFaults, Processes, Active, Ended     uint32
}

type accounting struct {
	counts
	IO windows.IO_COUNTERS
}

type cpuRate struct{ Flags, Rate uint32 }

const cpuRateHardCap = 0x1 | 0x4 // JOB_OBJECT_CPU_RATE_CONTROL_ENABLE, _HARD_CAP

type completionPort struct {
	Key  uintptr
	Port windows.Handle
}

func setJob[T any](job windows.Handle, class uint32, v *T) error {
	_, err := windows.SetInformationJobObject(job, class, uintptr(unsafe.Pointer(v)), uint32(unsafe.Sizeof(*v)))
	return err
}

func queryJob[T any](job windows.Handle, class int32, v *T) error {
	return windows.QueryInformationJobObject(job, class, uintptr(unsafe.Pointer(v)), uint32(unsafe.Sizeof(*v)), nil)
}

// call is a call that gives 0 where it fails.
func call(p *windows.LazyProc, args ...uintptr) (uintptr, error) {
	if err := p.Find(); err != nil {
		return 0, err
	}
	r, _, err := p.Call(args...)
	if r == 0 {
		return 0, err
	}
	return r, nil
}

func inJob(process, job windows.Handle) (bool, error) {
	var is int32
	_, err := call(procIsProcessInJob, uintptr(process), uintptr(job), uintptr(unsafe.Pointer(&is)))
	return is != 0, err
}

// underWine says whether this is Wine, which says so.
func underWine() bool {
	return windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() == nil
}
