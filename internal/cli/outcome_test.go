package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

var policy = config.Policy{
	TimeLimit: 30 * time.Second, CPUTime: 20 * time.Second, MemoryLimit: 512 << 20, DiskLimit: 1 << 30, OutputLimit: 1 << 20, Processes: 32,
}

func report(s status.Status, c status.Cause, change func(*status.Report)) *status.Report {
	r := &status.Report{Status: s, Cause: c, RC: s.RC(status.Normalized, 1, 9), Cmd: []string{"prog"}}
	if change != nil {
		change(r)
	}
	return r
}

func TestMessagesAboutTheEndOfARun(t *testing.T) {
	for _, c := range []struct {
		name   string
		report *status.Report
		want   string
	}{
		{"ok", report(status.OK, status.CauseExit, nil), ""},
		{"failed", report(status.Failed, status.CauseExit, nil), ""},
		{"timeout", report(status.Timeout, status.CauseWall, func(r *status.Report) { r.LimitsHit = []string{"wall_time"} }),
			"TIMEOUT: 30s wall-clock limit reached\nhint: --time-limit sets another\n"},
		{"cpu", report(status.CPULimit, status.CauseCPUTree, nil), "CPU_LIMIT: 20s CPU time limit reached\nhint: --cpu-time sets another\n"},
		{"memory", report(status.MemLimit, status.CauseMemWatch, func(r *status.Report) { r.LimitsHit = []string{"memory"} }),
			"MEM_LIMIT: 512M memory limit reached\nhint: --memory-limit sets another\n"},
		{"memory that is mostly files", report(status.MemLimit, status.CauseMemGroup, func(r *status.Report) {
			r.OutOfMemory = &status.OutOfMemory{FileBytes: 400 << 20, Path: "/tmp", PathBytes: 399 << 20}
		}), "MEM_LIMIT: 512M memory limit reached; 400.0M of it were files in \"/tmp\"\nhint: --memory-limit sets another; --disk-limit bounds what of it may be files\n"},
		{"memory, files in several places", report(status.MemLimit, status.CauseMemGroup, func(r *status.Report) {
			r.OutOfMemory = &status.OutOfMemory{FileBytes: 400 << 20, Path: "/tmp", PathBytes: 100 << 20}
		}), "MEM_LIMIT: 512M memory limit reached; 400.0M of it were files\nhint: --memory-limit sets another; --disk-limit bounds what of it may be files\n"},
		{"memory, few files", report(status.MemLimit, status.CauseMemGroup, func(r *status.Report) {
			r.OutOfMemory = &status.OutOfMemory{FileBytes: 4 << 20, Path: "/tmp", PathBytes: 4 << 20}
		}), "MEM_LIMIT: 512M memory limit reached\nhint: --memory-limit sets another\n"},
		{"memory of a JVM that sees no limit", report(status.MemLimit, status.CauseMemWatch, func(r *status.Report) {
			r.OutOfMemory = &status.OutOfMemory{Process: "java"}
			r.Enforced = map[status.Capability]status.Enforcement{status.Memory: {Mechanism: "tree_watchdog"}}
		}), "MEM_LIMIT: 512M memory limit reached\nhint: --memory-limit sets another\n      --env JAVA_TOOL_OPTIONS=-XX:MaxRAM=536870912 tells Java of it, which sees no cgroup here\n"},
		{"memory of Node.js that sees no limit", report(status.MemLimit, status.CauseMemWatch, func(r *status.Report) {
			r.OutOfMemory = &status.OutOfMemory{Process: "node"}
			r.Enforced = map[status.Capability]status.Enforcement{status.Memory: {Mechanism: "tree_watchdog"}}
		}), "MEM_LIMIT: 512M memory limit reached\nhint: --memory-limit sets another\n      --env NODE_OPTIONS=--max-old-space-size=307 tells Node.js of it, which sees no cgroup here\n"},
		{"memory of a JVM that sees its limit", report(status.MemLimit, status.CauseMemGroup, func(r *status.Report) {
			r.Cmd, r.OutOfMemory = []string{"/usr/bin/java"}, &status.OutOfMemory{}
			r.Enforced = map[status.Capability]status.Enforcement{status.Memory: {Mechanism: "cgroup_v1"}}
		}), "MEM_LIMIT: 512M memory limit reached\nhint: --memory-limit sets another\n"},
		{"scratch that is smaller than the disk limit", report(status.Failed, status.CauseExit, func(r *status.Report) { r.LimitsHit = []string{"disk"} }),
			"limit of 384M disk was reached: private places and overlays are memory, and get three quarters of its limit\nhint: --memory-limit sets another, up to --disk-limit, which is 1G\n"},
		{"term", report(status.KilledTerm, status.CauseSignal, func(r *status.Report) { r.Signal = "SIGTERM" }),
			"KILLED_TERM: ended by SIGTERM, which confine did not send\n"},
		{"term that was passed on", report(status.KilledTerm, status.CauseCaller, func(r *status.Report) { r.Signal = "SIGTERM" }),
			"KILLED_TERM: ended by SIGTERM, which confine was sent and passed on\n"},
		{"kill after term", report(status.KilledKill, status.CauseCaller, func(r *status.Report) {
			r.Signal, r.Reason = "SIGKILL", "killed by SIGKILL after the caller's SIGTERM"
			r.Ending.After = "SIGTERM"
		}), "KILLED_KILL: ended by SIGKILL after SIGTERM, which confine was sent and passed on\n"},
		{"term before it began", report(status.KilledTerm, status.CauseCaller, func(r *status.Report) {
			r.Signal, r.Reason = "SIGTERM", "stopped by SIGTERM while the run was set up: nothing was started"
			r.Ending.Early = true
		}), "KILLED_TERM: stopped by SIGTERM while the run was set up: nothing was started\n"},
		{"cancelled", report(status.KilledKill, status.CauseContext, func(r *status.Report) { r.Signal = "SIGKILL" }),
			"KILLED_KILL: ended by SIGKILL, because the run was cancelled\n"},
		{"kill", report(status.KilledKill, status.CauseSignal, func(r *status.Report) { r.Signal = "SIGKILL" }),
			"KILLED_KILL: ended by SIGKILL, which confine did not send\nhint: no limit of this run was reached; the host itself may have been short of memory\n"},
		{"segv", report(status.KilledSignal, status.CauseSignal, func(r *status.Report) { r.Signal = "SIGSEGV" }),
			"KILLED_SIGNAL: ended by SIGSEGV, which confine did not send\n"},
		{"system call", report(status.ForbiddenSyscall, status.CauseSeccomp, func(r *status.Report) {
			r.Violations = []status.Violation{{Kind: "syscall", What: "ptrace", PID: 4, Comm: "gdb", Hint: "--seccomp off lets it through"}}
		}), "FORBIDDEN_SYSCALL: ptrace by pid 4 (gdb)\nhint: --seccomp off lets it through\n"},
		{"system call, nobody knows by whom", report(status.ForbiddenSyscall, status.CauseSeccomp, func(r *status.Report) {
			r.Violations = []status.Violation{{Kind: "syscall", What: "ptrace"}, {Kind: "syscall", What: "mount"}}
		}), "FORBIDDEN_SYSCALL: ptrace\n"},
		{"system call, nobody knows which", report(status.ForbiddenSyscall, status.CauseSeccomp, nil), "FORBIDDEN_SYSCALL: a system call was refused\n"},
		{"denied twice by one rule", report(status.SandboxDenied, status.CauseExit, func(r *status.Report) {
			r.RC = 1
			r.Violations = []status.Violation{{Kind: "syscall", What: "a", Hint: "x"}, {Kind: "syscall", What: "b", Hint: "x"}}
		}), "SANDBOX_DENIED: exited with 1 after something was refused: syscall b, syscall a\nhint: x\n"},
		{"denied", report(status.SandboxDenied, status.CauseExit, func(r *status.Report) {
			for i, w := range []string{"a", "b", "c", "d", "e"} {
				r.Violations = append(r.Violations, status.Violation{Kind: "file", What: "/" + w, Hint: "--allow-read /" + w, LastMS: int64(i % 3)})
			}
		}), "SANDBOX_DENIED: exited with 1 after something was refused: file /c, file /e, file /b, 2 more\nhint: --allow-read /c\n      --allow-read /e\n      --allow-read /b\n"},
		{"a pipe's reader has left", report(status.KilledSignal, status.CauseReader, func(r *status.Report) { r.Signal = "SIGPIPE" }), ""},
		{"SIGPIPE of something else, such as a pager of its own", report(status.KilledSignal, status.CauseSignal, func(r *status.Report) { r.Signal = "SIGPIPE" }), ""},
		{"a place to start that the user can't enter", report(status.InternalError, status.CauseSetup, func(r *status.Report) {
			r.Reason, r.SetupError = "", &status.SetupError{Step: "chdir", Op: "chdir", Path: "/p", Error: "permission denied"}
		}), "INTERNAL_ERROR: no reason was given: chdir: chdir \"/p\": permission denied\nhint: the command's user can't enter that directory: -C / starts elsewhere\n"},
		{"a name that would be a hint", report(status.SandboxDenied, status.CauseExit, func(r *status.Report) {
			r.RC, r.Violations = 1, []status.Violation{{Kind: "file", What: "/a\nhint: b"}}
		}), "SANDBOX_DENIED: exited with 1 after something was refused: file /a\\nhint: b\n"},
		{"not found", report(status.ExecFailed, status.CauseExec, func(r *status.Report) { r.Reason = `"prog" was not found` }),
			"EXEC_FAILED: \"prog\" was not found\n"},
		{"a subcommand's name, not found", report(status.ExecFailed, status.CauseExec, func(r *status.Report) {
			r.Reason, r.Cmd = `"doctor" was not found`, []string{"doctor"}
		}), "EXEC_FAILED: \"doctor\" was not found\nhint: \"doctor\" is a subcommand only as the first word: confine doctor [options]\n"},
		{"a subcommand misspelt", report(status.ExecFailed, status.CauseExec, func(r *status.Report) {
			r.Reason, r.Cmd = `command not found: "lern"`, []string{"lern", "--", "true"}
			r.Ending.NotFound = true
		}), "EXEC_FAILED: command not found: \"lern\"\nhint: did you mean \"confine learn\"?\n"},
		{"nothing like a subcommand", report(status.ExecFailed, status.CauseExec, func(r *status.Report) {
			r.Reason, r.Cmd = `command not found: "frobnicate"`, []string{"frobnicate"}
			r.Ending.NotFound = true
		}), "EXEC_FAILED: command not found: \"frobnicate\"\n"},
		{"throttled for a moment", report(status.OK, status.CauseExit, func(r *status.Report) {
			r.LimitsHit, r.Usage.ThrottledMS, r.DurationMS = []string{"cpu_rate"}, 99, 300
		}), ""},
		{"throttled for a small part", report(status.OK, status.CauseExit, func(r *status.Report) {
			r.LimitsHit, r.Usage.ThrottledMS, r.DurationMS = []string{"cpu_rate"}, 900, 9001
		}), ""},
		{"throttled", report(status.OK, status.CauseExit, func(r *status.Report) {
			r.LimitsHit, r.Usage.ThrottledMS, r.DurationMS = []string{"cpu_rate"}, 100, 1000
		}), fmt.Sprintf("throttled to %d %% of a core: 0.1 s\nhint: --cpu-limit sets another\n", policy.CPULimit)},
		{"a file too large", report(status.KilledSignal, status.CauseSignal, func(r *status.Report) {
			r.Signal, r.LimitsHit = "SIGXFSZ", []string{"file_size"}
		}), "KILLED_SIGNAL: ended by SIGXFSZ, which answers writing beyond the limit of a file's size\nlimit bytes in one file was reached\nhint: --max-file-size sets another\n"},
		{"set-up", report(status.InternalError, status.CauseSetup, func(r *status.Report) {
			r.Reason = "set-up failed"
			r.SetupError = &status.SetupError{Step: "root", Op: "pivot_root", Path: "/x", Errno: 1, Error: "operation not permitted", Hint: "do this"}
		}), "INTERNAL_ERROR: set-up failed: root: pivot_root \"/x\": operation not permitted\nhint: do this\n"},
		{"refused by the plan", report(status.InternalError, status.CauseSetup, func(r *status.Report) {
			r.Reason = "memory \"1G\" can't be enforced"
			r.SetupError = &status.SetupError{Step: "plan", Op: "memory", Error: r.Reason, Hint: "--allow-partial memory"}
		}), "INTERNAL_ERROR: memory \"1G\" can't be enforced\nhint: --allow-partial memory\n"},
		{"a status that isn't known", report("NEW", status.CauseExit, nil), "NEW: no reason was given\n"},
		{"output was cut", report(status.OK, status.CauseExit, func(r *status.Report) {
			r.LimitsHit, r.Truncated.Stdout, r.Bytes.Stdout = []string{"output"}, true, 5<<20+200<<10
		}), "stdout (5.2M written) cut at 1M\nhint: --output-limit sets another limit, or \"none\"\n"},
		{"tasks", report(status.OK, status.CauseExit, func(r *status.Report) { r.LimitsHit = []string{"tasks"} }),
			"limit of 32 tasks was reached\nhint: --processes sets another\n"},
		{"a mount was full", report(status.OK, status.CauseExit, func(r *status.Report) {
			r.LimitsHit, r.FullMounts = []string{"mount_size"}, []string{"/a\x1b", "/b"}
		}), "mount \"/a\\x1b\" and \"/b\" was full at the end\nhint: --mount $'tmpfs:/a\\033:SIZE' sets another\n      --mount tmpfs:/b:SIZE sets another\n"},
		{"timeout, and output was cut", report(status.Timeout, status.CauseWall, func(r *status.Report) {
			r.LimitsHit, r.Truncated.Stderr, r.Bytes.Stderr = []string{"output", "wall_time"}, true, 2<<20
		}), "TIMEOUT: 30s wall-clock limit reached\nhint: --time-limit sets another\nstderr (2.0M written) cut at 1M\nhint: --output-limit sets another limit, or \"none\"\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := said(t, &logger{level: "normal"}, c.report)
			want := ""
			for line := range strings.Lines(c.want) {
				want += prefix + line
			}
			// The second line of a hint stands under the first.
			if got != want {
				t.Errorf("got\n%swant\n%s", got, want)
			}
		})
	}
}

func said(t *testing.T, l *logger, r *status.Report) string {
	t.Helper()
	var b strings.Builder
	l.write = func(line []byte) error { b.Write(line); return nil }
	for _, rec := range outcomes(r, &policy, false) {
		l.outcome(rec)
	}
	return b.String()
}

func TestQuietReportsOnlyInternalErrors(t *testing.T) {
	if got := said(t, &logger{level: "quiet"}, report(status.Timeout, status.CauseWall, nil)); got != "" {
		t.Error(got)
	}
	if got := said(t, &logger{level: "quiet"}, report(status.InternalError, status.CauseSetup, nil)); got == "" {
		t.Error("a failure of the sandbox is not said")
	}
}

func TestJSONLines(t *testing.T) {
	got := said(t, &logger{level: "normal", json: true}, report(status.Timeout, status.CauseWall, nil))
	var r record
	if err := json.Unmarshal([]byte(got), &r); err != nil {
		t.Fatalf("%s: %v", got, err)
	}
	if r != (record{Level: "error", Msg: "30s wall-clock limit reached", Hint: "--time-limit sets another", Status: "TIMEOUT"}) {
		t.Errorf("%+v", r)
	}
}

func TestNothingBreaksOutOfALine(t *testing.T) {
	var out string
	l := logger{level: "verbose", write: func(b []byte) error { out += string(b); return nil }}
	l.info("\x1b[2J\u202e\n[confine] \xff\r")
	if want := prefix + `\x1b[2J\u202e` + "\n" + prefix + `[confine] \xff\r` + "\n"; out != want {
		t.Errorf("%q, want %q", out, want)
	}
}

func FuzzLogger(f *testing.F) {
	f.Add("a\nb", "c\x1b[0m\n", "X")
	f.Add("a", "b", "\x7f")
	f.Fuzz(func(t *testing.T, msg, hint, stat string) {
		for _, asJSON := range []bool{false, true} {
			var out string
			l := logger{write: func(b []byte) error { out += string(b); return nil }, json: asJSON}
			l.outcome(record{Msg: msg, Hint: hint, Status: stat})
			if !strings.HasSuffix(out, "\n") {
				t.Fatalf("%q has no end", out)
			}
			for line := range strings.Lines(out) {
				if !asJSON && !strings.HasPrefix(line, prefix) || asJSON && !json.Valid([]byte(line)) {
					t.Fatalf("line %q", line)
				}
				for _, r := range strings.TrimSuffix(line, "\n") {
					if r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u202e' {
						t.Fatalf("line %q has %q in it", line, r)
					}
				}
			}
		}
	})
}

func TestUndeliveredOutputIsReported(t *testing.T) {
	failed := func(s status.Status) *status.Report {
		return &status.Report{Status: s, Cause: status.CauseExit, RC: s.RC(status.Normalized, 3, 0)}
	}
	full := syscall.ENOSPC.Error()
	for _, c := range []struct {
		name    string
		streams []string
		report  *status.Report
		rc      int
		want    string
	}{
		{"all taken", nil, failed(status.OK), 0, ""},
		{"stdout", []string{"stdout"}, failed(status.OK), 1, prefix + "stdout: write: " + full + "\n"},
		{"both", []string{"stdout", "stderr"}, failed(status.OK), 1,
			prefix + "stdout: write: " + full + "\n" + prefix + "stderr: write: " + full + "\n"},
		{"of a command that failed", []string{"stdout"}, failed(status.Failed), failed(status.Failed).RC, prefix + "stdout: write: " + full + "\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := t.TempDir() + "/r.json"
			var f call
			f.report = c.report
			f.during = func() {
				for _, s := range c.streams {
					f.io.Undelivered(s, fmt.Errorf("write: %w", syscall.ENOSPC))
				}
			}
			r := f.run(t, "--log", "quiet", "--report", path, "prog")
			if r.rc != c.rc || r.err != c.want {
				t.Errorf("rc %d, %q, want %d, %q", r.rc, r.err, c.rc, c.want)
			}
			var written status.Report
			if text, err := os.ReadFile(path); err != nil || json.Unmarshal(text, &written) != nil || written.RC != c.rc {
				t.Errorf("%s, %v", text, err)
			}
		})
	}
}

func TestHintsNameTheRunOutsideItsTrees(t *testing.T) {
	dir := inTemp(t)
	for _, c := range []struct {
		name  string
		trees []string
		named bool
	}{
		{"of the current directory", []string{dir}, false},
		{"above", []string{filepath.Dir(dir)}, false},
		{"below", []string{dir + "/sub"}, false},
		{"one of two", []string{"/elsewhere", dir}, false},
		{"elsewhere", []string{"/elsewhere"}, true},
		{"beside, with a name that begins the same", []string{dir + "2"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var all call
			all.report = &status.Report{Changes: &status.Changes{RunID: "ID", Kept: true, Trees: c.trees, Counts: status.ChangeCounts{Added: 1}}}
			got := all.run(t, "true").err
			for _, word := range []string{"diff", "apply", "discard"} {
				if strings.Contains(got, "confine "+word+" --run ID ") != c.named || strings.Contains(got, "confine "+word+" ") == false {
					t.Errorf("%s: %s", word, got)
				}
			}
		})
	}
}

func TestChangesNotKeptAndFilesLeftBehindAreFailures(t *testing.T) {
	var policy config.Policy
	policy.Filesystem.Keep = true
	kept, unkept := &status.Changes{Kept: true, Error: "some"}, &status.Changes{Error: "all"}
	for _, tt := range []struct {
		name       string
		report     status.Report
		lost, left bool
	}{
		{"nothing", status.Report{}, false, false},
		{"removed", status.Report{Violations: []status.Violation{{Rule: status.RuleProtected}}}, false, false},
		{"left", status.Report{Violations: []status.Violation{{Rule: status.RuleProtected}, {Rule: status.RuleLeft}}}, false, true},
		{"kept in part", status.Report{Changes: kept}, false, false},
		{"not kept", status.Report{Changes: unkept}, true, false},
	} {
		if lost, left := notKept(&tt.report, &policy), leftBehind(&tt.report); lost != tt.lost || left != tt.left {
			t.Errorf("%s: lost %v, left %v", tt.name, lost, left)
		}
	}
}

func TestTheProjectAboveIsNamed(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	must.Do(t, err)
	sub := filepath.Join(top, "a", "b")
	must.Do(t, os.MkdirAll(sub, 0o755))
	t.Setenv("HOME", top)
	t.Chdir(sub)
	var refused []status.Violation
	say := func(change func(*config.Filesystem)) string {
		p := config.Policy{Filesystem: config.Filesystem{Workdir: "ro"}}
		if change != nil {
			change(&p.Filesystem)
		}
		return projectAbove(&status.Report{Violations: refused}, &p).String()
	}
	mark := func(name string) {
		must.Do(t, os.WriteFile(name, nil, 0o644))
	}
	mark(filepath.Join(top, "package.json")) // the home directory is no project
	if got := say(nil); got != "" {
		t.Errorf("without a project: %q", got)
	}
	mark(filepath.Join(top, "a", "go.mod"))
	if got := say(nil); !strings.Contains(got, filepath.Join(top, "a")+`"`) || !strings.Contains(got, "--allow-read ") {
		t.Errorf("in a project: %q", got)
	}
	refused = []status.Violation{{Kind: "network", What: "evil.example"}}
	if got := say(nil); got != "" {
		t.Errorf("of a run that was refused a host: %q", got)
	}
	refused[0].Kind = "syscall"
	if got := say(nil); got == "" {
		t.Error("a system call hides the project")
	}
	for name, change := range map[string]func(*config.Filesystem){
		"not shown":       func(f *config.Filesystem) { f.Workdir = "none" },
		"virtual":         func(f *config.Filesystem) { f.Virtual = true },
		"shown by a name": func(f *config.Filesystem) { f.AllowRead = []string{".."} },
		"elsewhere":       func(f *config.Filesystem) { f.Chdir = "/tmp" },
	} {
		if got := say(change); got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
	mark("go.mod")
	if got := say(nil); got != "" {
		t.Errorf("where the project begins: %q", got)
	}
}

func TestDescriptorsOfTheCallerInArguments(t *testing.T) {
	for arg, want := range map[string]bool{"/dev/fd/63": true, "/proc/self/fd/3": true, "/dev/fd/2": false, "/dev/fd/x": false, "a/dev/fd/63": false} {
		if got := substituted([]string{"cat", arg}); (got.Text != "") != want {
			t.Errorf("%s: %q", arg, got)
		}
	}
}
