package windows

import (
	"fmt"
	"syscall"

	"github.com/confine-run/confine/supervisor/outcome"
)

// killedCode is the exit code of what is killed by us; that it was, is known apart from it.
const killedCode = 0xE0C0_0009

// controlC is what a console program ends with that Ctrl-C ended.
const controlC = 0xC000_013A

// statuses are ends that have a name. They are what a program that crashes exits with; signal is the one that it would have died of
// elsewhere.
var statuses = [...]struct {
	code   uint32
	name   string
	signal syscall.Signal
}{
	{0x8000_0002, "STATUS_DATATYPE_MISALIGNMENT", syscall.SIGBUS},
	{0x8000_0003, "STATUS_BREAKPOINT", syscall.SIGTRAP},
	{0x8000_0004, "STATUS_SINGLE_STEP", syscall.SIGTRAP},
	{0xC000_0005, "STATUS_ACCESS_VIOLATION", syscall.SIGSEGV},
	{0xC000_0006, "STATUS_IN_PAGE_ERROR", syscall.SIGBUS},
	{0xC000_0017, "STATUS_NO_MEMORY", syscall.SIGABRT},
	{0xC000_001D, "STATUS_ILLEGAL_INSTRUCTION", syscall.SIGILL},
	{0xC000_0025, "STATUS_NONCONTINUABLE_EXCEPTION", syscall.SIGABRT},
	{0xC000_008C, "STATUS_ARRAY_BOUNDS_EXCEEDED", syscall.SIGSEGV},
	{0xC000_008E, "STATUS_FLOAT_DIVIDE_BY_ZERO", syscall.SIGFPE},
	{0xC000_0090, "STATUS_FLOAT_INVALID_OPERATION", syscall.SIGFPE},
	{0xC000_0091, "STATUS_FLOAT_OVERFLOW", syscall.SIGFPE},
	{0xC000_0094, "STATUS_INTEGER_DIVIDE_BY_ZERO", syscall.SIGFPE},
	{0xC000_0095, "STATUS_INTEGER_OVERFLOW", syscall.SIGFPE},
	{0xC000_0096, "STATUS_PRIVILEGED_INSTRUCTION", syscall.SIGILL},
	{0xC000_00FD, "STATUS_STACK_OVERFLOW", syscall.SIGSEGV},
	{0xC000_012D, "STATUS_COMMITMENT_LIMIT", syscall.SIGABRT},
	{controlC, "STATUS_CONTROL_C_EXIT", syscall.SIGINT},
	{0xC000_0374, "STATUS_HEAP_CORRUPTION", syscall.SIGABRT},
	{0xC000_0409, "STATUS_STACK_BUFFER_OVERRUN", syscall.SIGABRT},
	{0xC000_0420, "STATUS_ASSERTION_FAILURE", syscall.SIGABRT},
	{0xE043_4352, "an unhandled exception of .NET", syscall.SIGABRT},
	{0xE06D_7363, "an unhandled exception of C++", syscall.SIGABRT},
}

// unloadable are ends of programs that never began, since what they need could not be loaded.
var unloadable = [...]struct {
	code uint32
	name string
}{
	{0xC000_007B, "STATUS_INVALID_IMAGE_FORMAT"},
	{0xC000_0135, "STATUS_DLL_NOT_FOUND"},
	{0xC000_0138, "STATUS_ORDINAL_NOT_FOUND"},
	{0xC000_0139, "STATUS_ENTRYPOINT_NOT_FOUND"},
	{0xC000_0142, "STATUS_DLL_INIT_FAILED"},
}

// ended is the exit code of a process, and whether it was killed by us.
type ended struct {
	code   uint32
	killed bool
}

var (
	_ outcome.Ended  = ended{}
	_ outcome.Native = ended{}
)

// Signal is the one that stands for how it ended, or -1.
func (e ended) Signal() syscall.Signal {
	if e.killed && e.code == killedCode {
		return syscall.SIGKILL
	}
	for i := range statuses {
		if s := &statuses[i]; s.code == e.code {
			return s.signal
		}
	}
	return -1
}

func (e ended) Signaled() bool  { return e.Signal() > 0 }
func (e ended) Exited() bool    { return !e.Signaled() }
func (e ended) ExitStatus() int { return int(e.code) }

// Native is what Windows calls it.
func (e ended) Native() string {
	if e.killed && e.code == killedCode || e.code < 0x8000_0000 {
		return ""
	}
	name := "NTSTATUS"
	for i := range statuses {
		if statuses[i].code == e.code {
			name = statuses[i].name
		}
	}
	for i := range unloadable {
		if unloadable[i].code == e.code {
			name = unloadable[i].name + ", it or a library of its could not be loaded"
		}
	}
	return fmt.Sprintf("%s (0x%08X)", name, e.code)
}
