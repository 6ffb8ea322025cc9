package status

// Status is how a run ended. The set is closed.
type Status string

const (
	OK               Status = "OK"                // exited 0
	Failed           Status = "FAILED"            // exited non-zero by itself
	Timeout          Status = "TIMEOUT"           // our wall timer
	CPULimit         Status = "CPU_LIMIT"         // CPU limit, of one process or of the tree
	MemLimit         Status = "MEM_LIMIT"         // the memory limit killed it
	KilledTerm       Status = "KILLED_TERM"       // died by a SIGTERM that was not sent for a limit
	KilledKill       Status = "KILLED_KILL"       // died by SIGKILL, cause not a limit
	KilledSignal     Status = "KILLED_SIGNAL"     // died by any other signal
	ForbiddenSyscall Status = "FORBIDDEN_SYSCALL" // killed by the seccomp filter (SIGSYS)
	SandboxDenied    Status = "SANDBOX_DENIED"    // exited non-zero after a recorded denial
	ExecFailed       Status = "EXEC_FAILED"       // not found (127) or not executable (126)
	InternalError    Status = "INTERNAL_ERROR"    // the sandbox failed
)

// Cause is who ended the run, recorded by whoever did it.
type Cause string

const (
	CauseExit     Cause = "exit"            // the target called exit
	CauseSignal   Cause = "signal"          // a signal from inside, or from somebody else on the host
	CauseCaller   Cause = "caller_signal"   // a signal to confine that was passed on
	CauseReader   Cause = "reader_left"     // nobody reads the target's output any more, and SIGPIPE told it
	CauseContext  Cause = "context"         // the API's context was cancelled
	CauseWall     Cause = "wall_timer"      // our wall timer
	CauseCPUTree  Cause = "cpu_watchdog"    // our count of the whole tree's CPU time
	CauseCPURlim  Cause = "rlimit_cpu"      // SIGXCPU by RLIMIT_CPU
	CauseMemWatch Cause = "memory_watchdog" // our count of the whole tree's memory
	CauseCPUGroup Cause = "cpu_cgroup"      // the count of the run's cgroup
	CauseMemGroup Cause = "memory_cgroup"   // an OOM kill in the run's cgroup
	CauseMemAlloc Cause = "memory_refused"  // an allocation that the cgroup's limit refused, as it counted
	CauseModule   Cause = "module"          // the engine of WebAssembly stopped the module, or refused it memory, and it failed
	CauseTasks    Cause = "tasks_watchdog"  // killed as one task too many
	CauseDisk     Cause = "disk_watchdog"   // our count of what was written to writable trees
	CauseSeccomp  Cause = "seccomp"         // the system call filter
	CauseExec     Cause = "exec"            // execve refused
	CauseSetup    Cause = "setup"           // the sandbox could not be built, or broke
)
