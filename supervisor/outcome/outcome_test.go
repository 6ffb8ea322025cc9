package outcome

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/status"
)

// end is how a target ended.
type end struct {
	code   int
	signal syscall.Signal
}

func (e end) Exited() bool           { return e.signal == 0 }
func (e end) ExitStatus() int        { return e.code }
func (e end) Signaled() bool         { return e.signal != 0 }
func (e end) Signal() syscall.Signal { return e.signal }

func exited(code int) end           { return end{code: code} }
func signaled(n syscall.Signal) end { return end{signal: n} }

// named is an end that the system has a name for.
type named struct{ end }

func (named) Native() string { return "STATUS_ACCESS_VIOLATION" }

func TestReasonHasTheNativeName(t *testing.T) {
	o := Outcome{Waited: true, Ended: named{signaled(11)}}
	if v := o.Verdict(); v.Reason != "killed by SIGSEGV: STATUS_ACCESS_VIOLATION" {
		t.Error(v.Reason)
	}
}

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		name   string
		out    Outcome
		status status.Status
		cause  status.Cause
		rc     int
	}{
		{"exit 0", Outcome{Waited: true, Ended: exited(0)}, status.OK, status.CauseExit, 0},
		{"exit 3", Outcome{Waited: true, Ended: exited(3)}, status.Failed, status.CauseExit, 3},
		{"wall timer, and the target exits 1 on our SIGTERM",
			Outcome{Cause: status.CauseWall, Waited: true, Ended: exited(1)}, status.Timeout, status.CauseWall, 124},
		{"wall timer, and the target exits 0 on our SIGTERM",
			Outcome{Cause: status.CauseWall, Waited: true, Ended: exited(0)}, status.Timeout, status.CauseWall, 124},
		{"wall timer, and nobody was left to tell",
			Outcome{Cause: status.CauseWall}, status.Timeout, status.CauseWall, 124},
		{"CPU watchdog", Outcome{Cause: status.CauseCPUTree, Waited: true, Ended: signaled(9)}, status.CPULimit, status.CauseCPUTree, 152},
		{"memory watchdog", Outcome{Cause: status.CauseMemWatch, Waited: true, Ended: signaled(9)}, status.MemLimit, status.CauseMemWatch, 137},
		{"SIGKILL from our watchdog of tasks", Outcome{Cause: status.CauseTasks, Waited: true, Ended: signaled(9)}, status.KilledKill, status.CauseTasks, 137},
		{"SIGKILL from somebody", Outcome{Waited: true, Ended: signaled(9)}, status.KilledKill, status.CauseSignal, 137},
		{"SIGTERM from somebody", Outcome{Waited: true, Ended: signaled(15)}, status.KilledTerm, status.CauseSignal, 143},
		{"the caller's SIGTERM passed on", Outcome{Cause: status.CauseCaller, Waited: true, Ended: signaled(15)}, status.KilledTerm, status.CauseCaller, 143},
		{"the caller's SIGTERM, survived", Outcome{Cause: status.CauseCaller, Waited: true, Ended: exited(0)}, status.OK, status.CauseCaller, 0},
		{"a signal before all was built", Outcome{Cause: status.CauseCaller, Detail: "stopped by SIGTERM", Early: syscall.SIGTERM}, status.KilledTerm, status.CauseCaller, 143},
		{"another one", Outcome{Cause: status.CauseCaller, Detail: "stopped by SIGINT", Early: syscall.SIGINT}, status.KilledSignal, status.CauseCaller, 130},
		{"a signal that asks for no end, passed on", Outcome{Heard: 1 << 10, Waited: true, Ended: signaled(10)}, status.KilledSignal, status.CauseCaller, 138},
		{"another than the one that was passed on", Outcome{Heard: 1 << 10, Waited: true, Ended: signaled(12)}, status.KilledSignal, status.CauseSignal, 140},
		{"an exit after one that was passed on", Outcome{Heard: 1 << 10, Waited: true, Ended: exited(3)}, status.Failed, status.CauseExit, 3},
		{"the context", Outcome{Cause: status.CauseContext}, status.KilledKill, status.CauseContext, 137},
		{"SIGSEGV", Outcome{Waited: true, Ended: signaled(11)}, status.KilledSignal, status.CauseSignal, 139},
		{"SIGSYS under a policy that kills", Outcome{SeccompKills: true, Waited: true, Ended: signaled(sigSYS)}, status.ForbiddenSyscall, status.CauseSeccomp, 159},
		{"SIGSYS under one that kills, and tells, but not of this", Outcome{SeccompKills: true, Told: true, Waited: true, Ended: signaled(sigSYS)}, status.KilledSignal, status.CauseSignal, 128 + int(sigSYS)},
		{"the filter's SIGKILL", Outcome{Told: true, Forbidden: "ptrace", Denied: 1, Waited: true, Ended: signaled(9)}, status.ForbiddenSyscall, status.CauseSeccomp, 159},
		{"the wall timer before the filter", Outcome{Told: true, Forbidden: "ptrace", Cause: status.CauseWall, Waited: true, Ended: signaled(9)}, status.Timeout, status.CauseWall, 124},
		{"an exit before the filter's kill", Outcome{Told: true, Forbidden: "ptrace", Denied: 1, Waited: true, Ended: exited(0)}, status.OK, status.CauseExit, 0},
		{"exit 3 after a denial", Outcome{Told: true, Denied: 1, Waited: true, Ended: exited(3)}, status.SandboxDenied, status.CauseExit, 3},
		{"exit 0 after a denial", Outcome{Told: true, Denied: 1, Waited: true, Ended: exited(0)}, status.OK, status.CauseExit, 0},
		{"a signal after a denial", Outcome{Told: true, Denied: 1, Waited: true, Ended: signaled(11)}, status.KilledSignal, status.CauseSignal, 139},
		{"wall timer after a denial", Outcome{Denied: 1, Cause: status.CauseWall, Waited: true, Ended: exited(1)}, status.Timeout, status.CauseWall, 124},
		{"SIGSYS under one that doesn't", Outcome{Waited: true, Ended: signaled(sigSYS)}, status.KilledSignal, status.CauseSignal, 128 + int(sigSYS)},
		{"SIGPIPE after the reader left", Outcome{Left: true, Waited: true, Ended: signaled(13)}, status.KilledSignal, status.CauseReader, 141},
		{"another signal after the reader left", Outcome{Left: true, Waited: true, Ended: signaled(11)}, status.KilledSignal, status.CauseSignal, 139},
		{"SIGPIPE of something else", Outcome{Waited: true, Ended: signaled(13)}, status.KilledSignal, status.CauseSignal, 141},
		{"a limit before the reader left", Outcome{Left: true, Cause: status.CauseWall, Waited: true, Ended: signaled(13)}, status.Timeout, status.CauseWall, 124},
		{"a real-time signal", Outcome{Waited: true, Ended: signaled(34)}, status.KilledSignal, status.CauseSignal, 162},
		{"SIGXCPU of our RLIMIT_CPU", Outcome{Limit: HeldTo{CPU: time.Second}, CPUUsed: 2 * time.Second, Waited: true, Ended: signaled(24)}, status.CPULimit, status.CauseCPURlim, 152},
		{"SIGXFSZ without a limit of ours", Outcome{Waited: true, Ended: signaled(25)}, status.KilledSignal, status.CauseSignal, 153},
		{"SIGXFSZ under a limit", Outcome{Limit: HeldTo{File: 4096}, Waited: true, Ended: signaled(25)}, status.KilledSignal, status.CauseSignal, 153},
		{"SIGXCPU sent by itself", Outcome{Limit: HeldTo{CPU: 9 * time.Second}, CPUUsed: time.Millisecond, Waited: true, Ended: signaled(24)}, status.KilledSignal, status.CauseSignal, 152},
		{"not found", Outcome{Exec: &ExecError{Path: "x", Errno: syscall.ENOENT, Step: handoff.StepLookup}}, status.ExecFailed, status.CauseExec, 127},
		{"not executable", Outcome{Exec: &ExecError{Path: "x", Errno: syscall.EACCES, Step: handoff.StepLookup}}, status.ExecFailed, status.CauseExec, 126},
		{"a script without its interpreter", Outcome{Exec: &ExecError{Path: "x", Errno: syscall.ENOENT}}, status.ExecFailed, status.CauseExec, 126},
		{"another machine's", Outcome{Exec: &ExecError{Path: "x", Errno: syscall.ENOEXEC}}, status.ExecFailed, status.CauseExec, 126},
		{"set-up", Outcome{Setup: &SetupError{Step: "mounts", Errno: syscall.EPERM}}, status.InternalError, status.CauseSetup, 1},
		{"the init vanished", Outcome{}, status.InternalError, status.CauseSetup, 1},
		{"set-up wins over everything", Outcome{Setup: &SetupError{Step: "watch"}, Cause: status.CauseWall, Waited: true}, status.InternalError, status.CauseSetup, 1},
	} {
		v := c.out.Verdict()
		rc := v.Status.RC(status.Normalized, v.ExitCode, int(v.Signal))
		if v.Status != c.status || v.Cause != c.cause || rc != c.rc || v.Reason == "" && c.out.Cause == "" {
			t.Errorf("%s: %s by %s, rc %d (%s); want %s by %s, rc %d", c.name, v.Status, v.Cause, rc, v.Reason, c.status, c.cause, c.rc)
		}
	}
}

// Who was sent what, and whether anything was started, is said as it was.
func TestReasonsOfTheCallersSignals(t *testing.T) {
	for want, o := range map[string]Outcome{
		"stopped by SIGTERM while the run was set up: nothing was started": {Detail: "stopped by SIGTERM", Early: syscall.SIGTERM},
		"stopped by SIGTERM while the run was set up":                      {Detail: "stopped by SIGTERM", Early: syscall.SIGTERM, Built: true},
		"killed by SIGTERM":                            {Detail: "the caller's SIGTERM", Asked: syscall.SIGTERM, Waited: true, Ended: signaled(15)},
		"killed by SIGKILL after the caller's SIGTERM": {Detail: "the caller's SIGTERM", Asked: syscall.SIGTERM, Waited: true, Ended: signaled(9)},
		"killed by SIGABRT after the caller's SIGINT":  {Detail: "the caller's SIGINT", Asked: syscall.SIGINT, Waited: true, Ended: signaled(6)},
		"killed by SIGKILL after the caller's SIGHUP":  {Detail: "the caller's SIGHUP", Asked: syscall.SIGHUP},
	} {
		o.Cause = status.CauseCaller
		if got := o.Verdict().Reason; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestWhatWasDenied: what was tried four times is one way tried four times.
func TestWhatWasDenied(t *testing.T) {
	for want, o := range map[string]Outcome{
		"an attempt to reach the network was refused":                                                                 {Refused: 1},
		"4 attempts to reach the network were refused":                                                                {Refused: 4},
		"a system call was denied and 2 accesses to files were refused":                                               {Denied: 1, Files: 2},
		"2 system calls were denied, an attempt to reach the network was refused and an access to a file was refused": {Denied: 2, Refused: 1, Files: 1},
	} {
		if got := o.whatWasDenied(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestSetupErrorKeepsTheErrno(t *testing.T) {
	e := &SetupError{Step: "maps", Op: "write", Path: "uid_map", Errno: syscall.EPERM}
	if !errors.Is(e, syscall.EPERM) {
		t.Error("errors.Is doesn't find EPERM")
	}
	if s := e.Error(); !strings.Contains(s, "maps: write \"uid_map\": ") {
		t.Error(s)
	}
	if r := e.Report(); r.Errno != int(syscall.EPERM) || r.Step != "maps" {
		t.Errorf("%+v", r)
	}
	if errors.Unwrap(&SetupError{Step: "x"}) != nil {
		t.Error("no errno became one")
	}
}

func TestSignalNames(t *testing.T) {
	for n, want := range map[syscall.Signal]string{9: "SIGKILL", sigSYS: "SIGSYS", 32: "SIG32", 64: "SIG64"} {
		if got := SignalName(n); got != want {
			t.Errorf("%d: %s", int(n), got)
		}
	}
}
