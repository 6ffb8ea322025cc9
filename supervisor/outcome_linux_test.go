package supervisor

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/status"
)

func exited(code int) syscall.WaitStatus           { return syscall.WaitStatus(code << 8) }
func signaled(n syscall.Signal) syscall.WaitStatus { return syscall.WaitStatus(n) }

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		name   string
		out    outcome
		status status.Status
		cause  status.Cause
		rc     int
	}{
		{"exit 0", outcome{waited: true, waitStatus: exited(0)}, status.OK, status.CauseExit, 0},
		{"exit 3", outcome{waited: true, waitStatus: exited(3)}, status.Failed, status.CauseExit, 3},
		{"wall timer, and the target exits 1 on our SIGTERM",
			outcome{cause: status.CauseWall, waited: true, waitStatus: exited(1)}, status.Timeout, status.CauseWall, 124},
		{"wall timer, and the target exits 0 on our SIGTERM",
			outcome{cause: status.CauseWall, waited: true, waitStatus: exited(0)}, status.Timeout, status.CauseWall, 124},
		{"wall timer, and nobody was left to tell",
			outcome{cause: status.CauseWall}, status.Timeout, status.CauseWall, 124},
		{"CPU watchdog", outcome{cause: status.CauseCPUTree, waited: true, waitStatus: signaled(9)}, status.CPULimit, status.CauseCPUTree, 152},
		{"memory watchdog", outcome{cause: status.CauseMemWatch, waited: true, waitStatus: signaled(9)}, status.MemLimit, status.CauseMemWatch, 137},
		{"SIGKILL from our watchdog of tasks", outcome{cause: status.CauseTasks, waited: true, waitStatus: signaled(9)}, status.KilledKill, status.CauseTasks, 137},
		{"SIGKILL from somebody", outcome{waited: true, waitStatus: signaled(9)}, status.KilledKill, status.CauseSignal, 137},
		{"SIGTERM from somebody", outcome{waited: true, waitStatus: signaled(15)}, status.KilledTerm, status.CauseSignal, 143},
		{"the caller's SIGTERM passed on", outcome{cause: status.CauseCaller, waited: true, waitStatus: signaled(15)}, status.KilledTerm, status.CauseCaller, 143},
		{"the caller's SIGTERM, survived", outcome{cause: status.CauseCaller, waited: true, waitStatus: exited(0)}, status.OK, status.CauseCaller, 0},
		{"a signal before all was built", outcome{cause: status.CauseCaller, detail: "stopped by SIGTERM", early: syscall.SIGTERM}, status.KilledTerm, status.CauseCaller, 143},
		{"another one", outcome{cause: status.CauseCaller, detail: "stopped by SIGINT", early: syscall.SIGINT}, status.KilledSignal, status.CauseCaller, 130},
		{"a signal that asks for no end, passed on", outcome{heard: 1 << 10, waited: true, waitStatus: signaled(10)}, status.KilledSignal, status.CauseCaller, 138},
		{"another than the one that was passed on", outcome{heard: 1 << 10, waited: true, waitStatus: signaled(12)}, status.KilledSignal, status.CauseSignal, 140},
		{"an exit after one that was passed on", outcome{heard: 1 << 10, waited: true, waitStatus: exited(3)}, status.Failed, status.CauseExit, 3},
		{"the context", outcome{cause: status.CauseContext}, status.KilledKill, status.CauseContext, 137},
		{"SIGSEGV", outcome{waited: true, waitStatus: signaled(11)}, status.KilledSignal, status.CauseSignal, 139},
		{"SIGSYS under a policy that kills", outcome{seccompKills: true, waited: true, waitStatus: signaled(31)}, status.ForbiddenSyscall, status.CauseSeccomp, 159},
		{"SIGSYS under one that kills, and tells, but not of this", outcome{seccompKills: true, told: true, waited: true, waitStatus: signaled(31)}, status.KilledSignal, status.CauseSignal, 159},
		{"the filter's SIGKILL", outcome{told: true, forbidden: "ptrace", denied: 1, waited: true, waitStatus: signaled(9)}, status.ForbiddenSyscall, status.CauseSeccomp, 159},
		{"the wall timer before the filter", outcome{told: true, forbidden: "ptrace", cause: status.CauseWall, waited: true, waitStatus: signaled(9)}, status.Timeout, status.CauseWall, 124},
		{"an exit before the filter's kill", outcome{told: true, forbidden: "ptrace", denied: 1, waited: true, waitStatus: exited(0)}, status.OK, status.CauseExit, 0},
		{"exit 3 after a denial", outcome{told: true, denied: 1, waited: true, waitStatus: exited(3)}, status.SandboxDenied, status.CauseExit, 3},
		{"exit 0 after a denial", outcome{told: true, denied: 1, waited: true, waitStatus: exited(0)}, status.OK, status.CauseExit, 0},
		{"a signal after a denial", outcome{told: true, denied: 1, waited: true, waitStatus: signaled(11)}, status.KilledSignal, status.CauseSignal, 139},
		{"wall timer after a denial", outcome{denied: 1, cause: status.CauseWall, waited: true, waitStatus: exited(1)}, status.Timeout, status.CauseWall, 124},
		{"SIGSYS under one that doesn't", outcome{waited: true, waitStatus: signaled(31)}, status.KilledSignal, status.CauseSignal, 159},
		{"SIGPIPE after the reader left", outcome{left: true, waited: true, waitStatus: signaled(13)}, status.KilledSignal, status.CauseReader, 141},
		{"another signal after the reader left", outcome{left: true, waited: true, waitStatus: signaled(11)}, status.KilledSignal, status.CauseSignal, 139},
		{"SIGPIPE of something else", outcome{waited: true, waitStatus: signaled(13)}, status.KilledSignal, status.CauseSignal, 141},
		{"a limit before the reader left", outcome{left: true, cause: status.CauseWall, waited: true, waitStatus: signaled(13)}, status.Timeout, status.CauseWall, 124},
		{"a real-time signal", outcome{waited: true, waitStatus: signaled(34)}, status.KilledSignal, status.CauseSignal, 162},
		{"SIGXCPU of our RLIMIT_CPU", outcome{limit: heldTo{cpu: time.Second}, cpuUsed: 2 * time.Second, waited: true, waitStatus: signaled(24)}, status.CPULimit, status.CauseCPURlim, 152},
		{"SIGXFSZ without a limit of ours", outcome{waited: true, waitStatus: signaled(25)}, status.KilledSignal, status.CauseSignal, 153},
		{"SIGXFSZ under a limit", outcome{limit: heldTo{file: 4096}, waited: true, waitStatus: signaled(25)}, status.KilledSignal, status.CauseSignal, 153},
		{"SIGXCPU sent by itself", outcome{limit: heldTo{cpu: 9 * time.Second}, cpuUsed: time.Millisecond, waited: true, waitStatus: signaled(24)}, status.KilledSignal, status.CauseSignal, 152},
		{"not found", outcome{exec: &execError{path: "x", errno: syscall.ENOENT, step: handoff.StepLookup}}, status.ExecFailed, status.CauseExec, 127},
		{"not executable", outcome{exec: &execError{path: "x", errno: syscall.EACCES, step: handoff.StepLookup}}, status.ExecFailed, status.CauseExec, 126},
		{"a script without its interpreter", outcome{exec: &execError{path: "x", errno: syscall.ENOENT}}, status.ExecFailed, status.CauseExec, 126},
		{"another machine's", outcome{exec: &execError{path: "x", errno: syscall.ENOEXEC}}, status.ExecFailed, status.CauseExec, 126},
		{"set-up", outcome{setup: &SetupError{Step: "mounts", Errno: syscall.EPERM}}, status.InternalError, status.CauseSetup, 1},
		{"the init vanished", outcome{}, status.InternalError, status.CauseSetup, 1},
		{"set-up wins over everything", outcome{setup: &SetupError{Step: "watch"}, cause: status.CauseWall, waited: true}, status.InternalError, status.CauseSetup, 1},
	} {
		v := c.out.verdict()
		rc := v.status.RC(status.Normalized, v.exitCode, int(v.signal))
		if v.status != c.status || v.cause != c.cause || rc != c.rc || v.reason == "" && c.out.cause == "" {
			t.Errorf("%s: %s by %s, rc %d (%s); want %s by %s, rc %d", c.name, v.status, v.cause, rc, v.reason, c.status, c.cause, c.rc)
		}
	}
}

// Who was sent what, and whether anything was started, is said as it was.
func TestReasonsOfTheCallersSignals(t *testing.T) {
	for want, o := range map[string]outcome{
		"stopped by SIGTERM while the run was set up: nothing was started": {detail: "stopped by SIGTERM", early: syscall.SIGTERM},
		"stopped by SIGTERM while the run was set up":                      {detail: "stopped by SIGTERM", early: syscall.SIGTERM, built: true},
		"killed by SIGTERM":                            {detail: "the caller's SIGTERM", asked: syscall.SIGTERM, waited: true, waitStatus: signaled(15)},
		"killed by SIGKILL after the caller's SIGTERM": {detail: "the caller's SIGTERM", asked: syscall.SIGTERM, waited: true, waitStatus: signaled(9)},
		"killed by SIGABRT after the caller's SIGINT":  {detail: "the caller's SIGINT", asked: syscall.SIGINT, waited: true, waitStatus: signaled(6)},
		"killed by SIGKILL after the caller's SIGHUP":  {detail: "the caller's SIGHUP", asked: syscall.SIGHUP},
	} {
		o.cause = status.CauseCaller
		if got := o.verdict().reason; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestWhatWasDenied: what was tried four times is one way tried four times.
func TestWhatWasDenied(t *testing.T) {
	for want, o := range map[string]outcome{
		"an attempt to reach the network was refused":                                                                 {refused: 1},
		"4 attempts to reach the network were refused":                                                                {refused: 4},
		"a system call was denied and 2 accesses to files were refused":                                               {denied: 1, files: 2},
		"2 system calls were denied, an attempt to reach the network was refused and an access to a file was refused": {denied: 2, refused: 1, files: 1},
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
	if r := e.report(); r.Errno != int(syscall.EPERM) || r.Step != "maps" {
		t.Errorf("%+v", r)
	}
	if errors.Unwrap(&SetupError{Step: "x"}) != nil {
		t.Error("no errno became one")
	}
}

func TestSignalNames(t *testing.T) {
	for n, want := range map[syscall.Signal]string{9: "SIGKILL", 31: "SIGSYS", 32: "SIG32", 64: "SIG64"} {
		if got := signalName(n); got != want {
			t.Errorf("%d: %s", int(n), got)
		}
	}
}
