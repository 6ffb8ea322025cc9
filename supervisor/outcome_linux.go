package supervisor

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/status"
)

// outcome is what is known of how a run ended. Each fact was recorded by
// whoever caused it; for SIGXCPU and SIGSYS see the package comment.
type outcome struct {
	setup *SetupError
	exec  *execError

	cause  status.Cause // ours, the first one; "" if we ended nothing
	detail string       // of cause: which limit, how much; of memory, who held it or was killed

	asked syscall.Signal // the first signal of the caller's that was passed on to end it; 0 is none
	early syscall.Signal // one that came before all was built
	heard uint64         // bits of the others that were passed on
	left  bool           // who read the target's output did so no longer
	built bool           // it is, and a target may have been made

	waited     bool // the init told how the target ended
	waitStatus syscall.WaitStatus

	seccompKills bool   // the policy kills
	told         bool   // what the filter denies is told
	denied       int64  // so often
	refused      int64  // attempts to reach something, so often
	files        int64  // accesses that the rules of files refused, so often, as far as they are told
	forbidden    string // the call that the target was killed for, and by whom
	limit        heldTo
	cpuUsed      time.Duration
}

// heldTo are limits that an end may be explained by; 0 is none of ours.
type heldTo struct {
	memory int64
	file   uint64 // RLIMIT_FSIZE of the target
	cpu    time.Duration
}

// execError is a command that could not be started.
type execError struct {
	path  string
	errno syscall.Errno
	step  string // of the hand-off
}

// rc is what a shell would make of it. ENOENT from execve itself is a script
// whose interpreter is missing: the file is there, and can't be executed.
func (e *execError) rc() int {
	if e.step == handoff.StepLookup && (e.errno == syscall.ENOENT || e.errno == syscall.ENOTDIR) {
		return 127
	}
	return 126
}

func (e *execError) reason() string {
	switch {
	case e.step == handoff.StepChdir:
		return fmt.Sprintf("it can't start in the directory %q: %v", e.path, e.errno)
	case e.rc() == 127:
		return fmt.Sprintf("command not found: %q", e.path)
	case e.errno == syscall.ENOENT:
		return fmt.Sprintf("the interpreter of %q was not found", e.path)
	case e.errno == syscall.ENOEXEC:
		return fmt.Sprintf("%q is no executable of this machine, and names no interpreter", e.path)
	}
	return fmt.Sprintf("%q can't be executed: %v", e.path, e.errno)
}

// verdict is the part of the report that says how it ended.
type verdict struct {
	status.Ending
	status   status.Status
	cause    status.Cause
	reason   string
	signal   syscall.Signal
	exitCode int // of the target; of a command that could not be started, 126 or 127
	exited   bool
}

// limits are the causes that have a status of their own. The first cause wins:
// what the target made of it, exiting 1 on SIGTERM for example, doesn't matter.
var limits = map[status.Cause]status.Status{
	status.CauseWall:     status.Timeout,
	status.CauseCPUTree:  status.CPULimit,
	status.CauseMemWatch: status.MemLimit,
	status.CauseCPUGroup: status.CPULimit,
	status.CauseMemGroup: status.MemLimit,
	status.CauseMemAlloc: status.MemLimit,
}

func outOfMemory(limit int64, detail string) string {
	return fmt.Sprintf("memory limit of %d bytes reached: %s", limit, detail)
}

func (o *outcome) verdict() verdict {
	v := verdict{cause: o.cause}
	if o.waited {
		if o.waitStatus.Exited() {
			v.exitCode, v.exited = o.waitStatus.ExitStatus(), true
		} else {
			v.signal = o.waitStatus.Signal()
		}
	}
	switch {
	case o.setup != nil:
		v.status, v.cause, v.reason = status.InternalError, status.CauseSetup, o.setup.Error()
	case o.exec != nil:
		v.status, v.cause, v.reason = status.ExecFailed, status.CauseExec, o.exec.reason()
		v.exitCode = o.exec.rc()
		v.NotFound = v.exitCode == 127
	case limits[o.cause] == status.MemLimit:
		v.status, v.Memory = status.MemLimit, o.detail
		v.reason = outOfMemory(o.limit.memory, o.detail)
	case limits[o.cause] != "":
		v.status, v.reason = limits[o.cause], o.detail
	case o.cause == status.CauseDisk || o.cause == status.CauseTasks:
		v.status, v.signal, v.reason = status.KilledKill, syscall.SIGKILL, o.detail
	case !o.waited && o.early != 0:
		o.earlyVerdict(&v)
	case !o.waited && o.cause != "":
		// We killed everything at once, on the caller's behalf.
		v.status, v.signal, v.reason = status.KilledKill, syscall.SIGKILL, o.detail
		if o.cause == status.CauseCaller && o.asked != 0 {
			v.reason, v.After = "killed by SIGKILL after "+o.detail, signalName(o.asked)
		}
	case !o.waited:
		o.setup = &SetupError{Step: "init", Op: "it ended without a word"}
		v.status, v.cause, v.reason = status.InternalError, status.CauseSetup, o.setup.Error()
	case v.exited:
		o.exitVerdict(&v)
	case o.forbidden != "":
		v.status, v.cause, v.reason = status.ForbiddenSyscall, status.CauseSeccomp, o.forbidden
	default:
		o.signalVerdict(&v)
	}
	return v
}

// earlyVerdict is of a run that a signal ended while it was set up. What is killed then is
// our own. When the child has said that all is built, by when it had not heard of the
// signal, the target may have begun.
func (o *outcome) earlyVerdict(v *verdict) {
	v.status, v.signal, v.reason = status.KilledSignal, o.early, o.detail+" while the run was set up"
	v.Early = true
	if o.early == syscall.SIGTERM {
		v.status = status.KilledTerm
	}
	if !o.built {
		v.reason += ": nothing was started"
	}
}

func (o *outcome) exitVerdict(v *verdict) {
	v.status, v.reason = status.OK, "exited 0"
	if v.exitCode != 0 {
		v.status, v.reason = status.Failed, fmt.Sprintf("exited %d", v.exitCode)
	}
	if v.cause != "" {
		return
	}
	v.cause = status.CauseExit
	if v.exitCode != 0 && o.denied+o.refused+o.files > 0 {
		v.status = status.SandboxDenied
		v.reason = fmt.Sprintf("exited %d after %s", v.exitCode, o.whatWasDenied())
	}
}

// whatWasDenied counts what the report names.
func (o *outcome) whatWasDenied() string {
	var words []string
	for _, d := range []struct {
		n         int64
		one, many string
	}{
		{o.denied, "a system call was denied", "system calls were denied"},
		{o.refused, "an attempt to reach the network was refused", "attempts to reach the network were refused"},
		{o.files, "an access to a file was refused", "accesses to files were refused"},
	} {
		switch {
		case d.n == 1:
			words = append(words, d.one)
		case d.n > 1:
			words = append(words, fmt.Sprintf("%d %s", d.n, d.many))
		}
	}
	if n := len(words); n > 2 {
		words = []string{strings.Join(words[:n-1], ", "), words[n-1]}
	}
	return strings.Join(words, " and ")
}

func (o *outcome) signalVerdict(v *verdict) {
	if v.cause == "" {
		v.cause = status.CauseSignal
		if o.heard&(1<<v.signal) != 0 {
			v.cause = status.CauseCaller
		}
	}
	v.reason = "killed by " + signalName(v.signal)
	if v.cause == status.CauseSignal && v.signal == syscall.SIGPIPE && o.left {
		v.cause = status.CauseReader
		v.reason += ": nobody read its output any more"
	}
	if v.cause == status.CauseCaller && o.asked != 0 && o.asked != v.signal {
		v.reason, v.After = v.reason+" after "+o.detail, signalName(o.asked)
	}
	switch v.signal {
	case syscall.SIGTERM:
		v.status = status.KilledTerm
	case syscall.SIGKILL:
		v.status = status.KilledKill
	case syscall.SIGXCPU:
		v.status = status.KilledSignal
		if o.limit.cpu > 0 && o.cpuUsed >= o.limit.cpu {
			v.status, v.cause = status.CPULimit, status.CauseCPURlim
			v.reason = "CPU time limit of one process reached"
		}
	case syscall.SIGXFSZ:
		v.status = status.KilledSignal
		if o.limit.file > 0 {
			v.reason = fmt.Sprintf("killed by SIGXFSZ, which answers writing beyond the limit of %d bytes in one file", o.limit.file)
		}
	case syscall.SIGSYS:
		v.status = status.KilledSignal
		if o.seccompKills && !o.told {
			v.status, v.cause = status.ForbiddenSyscall, status.CauseSeccomp
			v.reason = "ended by SIGSYS, which the system call filter sends"
		}
	default:
		v.status = status.KilledSignal
	}
}

// fileLimit is the size that no file may grow beyond. The kernel sends SIGXFSZ for nothing
// else.
func fileLimit(e *handoff.Exec) uint64 {
	for _, l := range e.Rlimits {
		if l.Resource == unix.RLIMIT_FSIZE {
			return l.Soft
		}
	}
	return 0
}

// tooMany is what the watchdog knows: that it killed the target as one of the
// newest tasks, which is no guess about a SIGKILL.
func (o *outcome) tooMany(limit int64) {
	if o.cause == "" && o.waited && o.waitStatus.Signaled() && o.waitStatus.Signal() == syscall.SIGKILL {
		o.cause = status.CauseTasks
		o.detail = fmt.Sprintf("limit of %d tasks reached: the command was one too many", limit)
	}
}

// signalName is the name as in signal(7). Real-time signals go by their number: the kernel's
// SIGRTMIN is 32, glibc's 34.
func signalName(n syscall.Signal) string {
	if n > 0 && int(n) < len(signalNames) && signalNames[n] != "" {
		return "SIG" + signalNames[n]
	}
	return fmt.Sprintf("SIG%d", int(n))
}

// signalNames are Linux's numbers.
var signalNames = [...]string{
	1: "HUP", 2: "INT", 3: "QUIT", 4: "ILL", 5: "TRAP", 6: "ABRT", 7: "BUS", 8: "FPE", 9: "KILL",
	10: "USR1", 11: "SEGV", 12: "USR2", 13: "PIPE", 14: "ALRM", 15: "TERM", 16: "STKFLT", 17: "CHLD",
	18: "CONT", 19: "STOP", 20: "TSTP", 21: "TTIN", 22: "TTOU", 23: "URG", 24: "XCPU", 25: "XFSZ",
	26: "VTALRM", 27: "PROF", 28: "WINCH", 29: "IO", 30: "PWR", 31: "SYS",
}

// capabilityOf is whose limit a cause is, "" of those that are no limit.
func capabilityOf(cause status.Cause) status.Capability {
	switch cause {
	case status.CauseDisk:
		return status.Disk
	case status.CauseTasks:
		return status.Tasks
	}
	switch limits[cause] {
	case status.Timeout:
		return status.WallTime
	case status.CPULimit:
		return status.CPUTime
	case status.MemLimit:
		return status.Memory
	}
	return ""
}
