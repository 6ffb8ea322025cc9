package outcome

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/status"
)

// Outcome is what is known of how a run ended. Each fact was recorded by
// whoever caused it; for SIGXCPU and SIGSYS see package supervisor.
type Outcome struct {
	Setup *SetupError
	Exec  *ExecError

	Cause  status.Cause // ours, the first one; "" if we ended nothing
	Detail string       // of Cause: which limit, how much; of memory, who held it or was killed

	Asked syscall.Signal // the first signal of the caller's that was passed on to end it; 0 is none
	Early syscall.Signal // one that came before all was built
	Heard uint64         // bits of the others that were passed on
	Left  bool           // who read the target's output did so no longer
	Built bool           // it is, and a target may have been made

	Waited bool  // it was told how the target ended
	Ended  Ended // nil: well

	SeccompKills bool   // the policy kills
	Told         bool   // what the filter denies is told
	Denied       int64  // so often
	Refused      int64  // attempts to reach something, so often
	Files        int64  // accesses that the rules of files refused, so often, as far as they are told
	Forbidden    string // the call that the target was killed for, and by whom
	Limit        HeldTo
	CPUUsed      time.Duration
}

// Ended is how a target ended: a syscall.WaitStatus, or what stands for one where there are no signals.
type Ended interface {
	Exited() bool
	ExitStatus() int
	Signaled() bool
	Signal() syscall.Signal
}

// Native is an end that the system has a name of its own for.
type Native interface{ Native() string }

// HeldTo are limits that an end may be explained by; 0 is none of ours.
type HeldTo struct {
	Memory int64
	File   uint64 // RLIMIT_FSIZE of the target
	CPU    time.Duration
}

// ExecError is a command that could not be started.
type ExecError struct {
	Path  string
	Errno syscall.Errno
	Step  string // of the hand-off
}

// rc is what a shell would make of it. ENOENT from execve itself is a script
// whose interpreter is missing: the file is there, and can't be executed.
func (e *ExecError) rc() int {
	if e.Step == handoff.StepLookup && (e.Errno == syscall.ENOENT || e.Errno == syscall.ENOTDIR) {
		return 127
	}
	return 126
}

func (e *ExecError) Error() string {
	switch {
	case e.Step == handoff.StepChdir:
		return fmt.Sprintf("it can't start in the directory %q: %v", e.Path, e.Errno)
	case e.rc() == 127:
		return fmt.Sprintf("command not found: %q", e.Path)
	case e.Errno == syscall.ENOENT:
		return fmt.Sprintf("the interpreter of %q was not found", e.Path)
	case e.Errno == syscall.ENOEXEC:
		return fmt.Sprintf("%q is no executable of this machine, and names no interpreter", e.Path)
	}
	return fmt.Sprintf("%q can't be executed: %v", e.Path, e.Errno)
}

// Verdict is the part of the report that says how it ended.
type Verdict struct {
	status.Ending
	Status   status.Status
	Cause    status.Cause
	Reason   string
	Signal   syscall.Signal
	ExitCode int // of the target; of a command that could not be started, 126 or 127
	Exited   bool
}

// ends are the causes that have a status of their own. The first cause wins:
// what the target made of it, exiting 1 on SIGTERM for example, doesn't matter.
var ends = map[status.Cause]status.Status{
	status.CauseWall:     status.Timeout,
	status.CauseCPUTree:  status.CPULimit,
	status.CauseMemWatch: status.MemLimit,
	status.CauseCPUGroup: status.CPULimit,
	status.CauseMemGroup: status.MemLimit,
	status.CauseMemAlloc: status.MemLimit,
}

// OutOfMemory says that the limit on memory was reached, and who held it or was killed.
func OutOfMemory(limit int64, detail string) string {
	return fmt.Sprintf("memory limit of %d bytes reached: %s", limit, detail)
}

// Verdict says how it ended.
func (o *Outcome) Verdict() Verdict {
	v := o.judge()
	if n, ok := o.Ended.(Native); ok && o.Waited && o.Setup == nil && n.Native() != "" {
		v.Native = n.Native()
		v.Reason += ": " + v.Native
	}
	return v
}

func (o *Outcome) judge() Verdict {
	v := Verdict{Cause: o.Cause}
	switch {
	case !o.Waited:
	case o.Ended == nil:
		v.Exited = true
	case o.Ended.Exited():
		v.ExitCode, v.Exited = o.Ended.ExitStatus(), true
	default:
		v.Signal = o.Ended.Signal()
	}
	switch {
	case o.Setup != nil:
		v.Status, v.Cause, v.Reason = status.InternalError, status.CauseSetup, o.Setup.Error()
	case o.Exec != nil:
		v.Status, v.Cause, v.Reason = status.ExecFailed, status.CauseExec, o.Exec.Error()
		v.ExitCode = o.Exec.rc()
		v.NotFound = v.ExitCode == 127
	case ends[o.Cause] == status.MemLimit:
		v.Status, v.Memory = status.MemLimit, o.Detail
		v.Reason = OutOfMemory(o.Limit.Memory, o.Detail)
	case ends[o.Cause] != "":
		v.Status, v.Reason = ends[o.Cause], o.Detail
	case o.Cause == status.CauseDisk || o.Cause == status.CauseTasks:
		v.Status, v.Signal, v.Reason = status.KilledKill, syscall.SIGKILL, o.Detail
	case !o.Waited && o.Early != 0:
		o.earlyVerdict(&v)
	case !o.Waited && o.Cause != "":
		// We killed everything at once, on the caller's behalf.
		v.Status, v.Signal, v.Reason = status.KilledKill, syscall.SIGKILL, o.Detail
		if o.Cause == status.CauseCaller && o.Asked != 0 {
			v.Reason, v.After = "killed by SIGKILL after "+o.Detail, SignalName(o.Asked)
		}
	case !o.Waited:
		o.Setup = &SetupError{Step: "init", Op: "it ended without a word"}
		v.Status, v.Cause, v.Reason = status.InternalError, status.CauseSetup, o.Setup.Error()
	case v.Exited:
		o.exitVerdict(&v)
	case o.Forbidden != "":
		v.Status, v.Cause, v.Reason = status.ForbiddenSyscall, status.CauseSeccomp, o.Forbidden
	default:
		o.signalVerdict(&v)
	}
	return v
}

// earlyVerdict is of a run that a signal ended while it was set up. What is killed then is
// our own. When the child has said that all is built, by when it had not heard of the
// signal, the target may have begun.
func (o *Outcome) earlyVerdict(v *Verdict) {
	v.Status, v.Signal, v.Reason = status.KilledSignal, o.Early, o.Detail+" while the run was set up"
	v.Early = true
	if o.Early == syscall.SIGTERM {
		v.Status = status.KilledTerm
	}
	if !o.Built {
		v.Reason += ": nothing was started"
	}
}

func (o *Outcome) exitVerdict(v *Verdict) {
	v.Status, v.Reason = status.OK, "exited 0"
	if v.ExitCode != 0 {
		v.Status, v.Reason = status.Failed, fmt.Sprintf("exited %d", v.ExitCode)
	}
	if v.Cause != "" {
		return
	}
	v.Cause = status.CauseExit
	if v.ExitCode != 0 && o.Denied+o.Refused+o.Files > 0 {
		v.Status = status.SandboxDenied
		v.Reason = fmt.Sprintf("exited %d after %s", v.ExitCode, o.whatWasDenied())
	}
}

// whatWasDenied counts what the report names.
func (o *Outcome) whatWasDenied() string {
	var words []string
	for _, d := range []struct {
		n         int64
		one, many string
	}{
		{o.Denied, "a system call was denied", "system calls were denied"},
		{o.Refused, "an attempt to reach the network was refused", "attempts to reach the network were refused"},
		{o.Files, "an access to a file was refused", "accesses to files were refused"},
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

func (o *Outcome) signalVerdict(v *Verdict) {
	if v.Cause == "" {
		v.Cause = status.CauseSignal
		if o.Heard&(1<<v.Signal) != 0 {
			v.Cause = status.CauseCaller
		}
	}
	v.Reason = "killed by " + SignalName(v.Signal)
	if v.Cause == status.CauseSignal && v.Signal == syscall.SIGPIPE && o.Left {
		v.Cause = status.CauseReader
		v.Reason += ": nobody read its output any more"
	}
	if v.Cause == status.CauseCaller && o.Asked != 0 && o.Asked != v.Signal {
		v.Reason, v.After = v.Reason+" after "+o.Detail, SignalName(o.Asked)
	}
	switch v.Signal {
	case syscall.SIGTERM:
		v.Status = status.KilledTerm
	case syscall.SIGKILL:
		v.Status = status.KilledKill
	case sigXCPU:
		v.Status = status.KilledSignal
		if o.Limit.CPU > 0 && o.CPUUsed >= o.Limit.CPU {
			v.Status, v.Cause = status.CPULimit, status.CauseCPURlim
			v.Reason = "CPU time limit of one process reached"
		}
	case sigXFSZ:
		v.Status = status.KilledSignal
		if o.Limit.File > 0 {
			v.Reason = fmt.Sprintf("killed by SIGXFSZ, which answers writing beyond the limit of %d bytes in one file", o.Limit.File)
		}
	case sigSYS:
		v.Status = status.KilledSignal
		if o.SeccompKills && !o.Told {
			v.Status, v.Cause = status.ForbiddenSyscall, status.CauseSeccomp
			v.Reason = "ended by SIGSYS, which the system call filter sends"
		}
	default:
		v.Status = status.KilledSignal
	}
}

// TooMany is what the watchdog knows: that it killed the target as one of the
// newest tasks, which is no guess about a SIGKILL.
func (o *Outcome) TooMany(limit int64) {
	if o.Cause == "" && o.Waited && o.Ended != nil && o.Ended.Signaled() && o.Ended.Signal() == syscall.SIGKILL {
		o.Cause = status.CauseTasks
		o.Detail = fmt.Sprintf("limit of %d tasks reached: the command was one too many", limit)
	}
}

// StatusOf is the status of a cause that has one of its own; "" of the others.
func StatusOf(cause status.Cause) status.Status { return ends[cause] }

// CapabilityOf is whose limit a cause is, "" of those that are no limit.
func CapabilityOf(cause status.Cause) status.Capability {
	switch cause {
	case status.CauseDisk:
		return status.Disk
	case status.CauseTasks:
		return status.Tasks
	}
	switch ends[cause] {
	case status.Timeout:
		return status.WallTime
	case status.CPULimit:
		return status.CPUTime
	case status.MemLimit:
		return status.Memory
	}
	return ""
}
