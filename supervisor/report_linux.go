package supervisor

import (
	"encoding/base64"
	"sort"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/tree"
)

// report says what is known, once everything has ended. What only the caller
// knows (command, profile, exit code in its dialect) is left to it.
func (r *run) report() *status.Report {
	v := r.out.verdict()
	rep := &status.Report{
		Status:  v.status,
		Cause:   v.cause,
		Reason:  v.reason,
		Backend: "linux-process",
	}
	if v.signal != 0 {
		rep.Signal = signalName(v.signal)
	}
	if v.exited {
		rep.ExitCode = &v.exitCode
	}
	rep.RC = status.Status.RC(v.status, status.Normalized, v.exitCode, int(v.signal))
	if r.out.setup != nil {
		rep.SetupError = r.out.setup.report()
	}
	if !r.started.IsZero() {
		rep.DurationMS = r.ended.Sub(r.started).Milliseconds()
	}
	r.reportStreams(rep)
	r.reportUsage(rep)
	rep.Enforced = r.ledger()
	rep.LimitsHit, rep.FullMounts = r.limitsHit(rep), r.watch.fullMounts()
	rep.Violations = r.violations()
	rep.Network = r.network.report()
	rep.Changes = r.changes
	rep.Normalize()
	return rep
}

func (r *run) reportStreams(rep *status.Report) {
	if r.io == nil {
		return
	}
	for fd, to := range []struct {
		bytes     *int64
		truncated *bool
		text      *string
		encoding  *string
	}{
		1: {&rep.Bytes.Stdout, &rep.Truncated.Stdout, &rep.Stdout, &rep.Encoding.Stdout},
		2: {&rep.Bytes.Stderr, &rep.Truncated.Stderr, &rep.Stderr, &rep.Encoding.Stderr},
	} {
		s := r.io.out[fd]
		if fd == 0 || s == nil {
			continue
		}
		*to.bytes, *to.truncated = s.Bytes(), s.Truncated()
		if r.io.err != nil {
			continue // the pump may still be at it
		}
		if text := s.Captured(); utf8.Valid(text) {
			*to.text = string(text)
		} else {
			*to.text, *to.encoding = base64.StdEncoding.EncodeToString(text), "base64"
		}
	}
}

// reportUsage: the init's own count of what it reaped, which is everything, if
// it could tell; else the last sample of the tree.
func (r *run) reportUsage(rep *status.Report) {
	seen := r.watch.usage()
	u := &rep.Usage
	u.Sources = map[string]string{}
	if r.out.waited {
		user := time.Duration(r.exited.UserUS) * time.Microsecond
		system := time.Duration(r.exited.SystemUS) * time.Microsecond
		u.UserMS, u.SystemMS = user.Milliseconds(), system.Milliseconds()
		// What was never reaped, because its parent ignores SIGCHLD, only samples saw.
		u.CPUMS = (user + system + seen.Unreaped).Milliseconds()
		u.MemoryPeakBytes = r.exited.MaxRSS
		u.ReadBytes, u.WriteBytes, u.ContextSwitches = r.exited.ReadBytes, r.exited.WriteBytes, r.exited.Switches
		u.Sources["cpu_ms"] = "rusage of everything reaped"
		u.Sources["read_bytes"] = "rusage of everything reaped"
		u.Sources["context_switches"] = "rusage of everything reaped"
		u.Sources["memory_peak_bytes"] = "rusage, largest process"
		if r.exited.RSSAtMost {
			u.Sources["memory_peak_bytes"] = "at most: rusage counts the init that the target was forked from"
		}
	}
	if seen.CPU.Milliseconds() > u.CPUMS {
		u.CPUMS, u.UserMS, u.SystemMS = seen.CPU.Milliseconds(), seen.User.Milliseconds(), seen.System.Milliseconds()
		u.Sources["cpu_ms"] = "samples of the process tree"
	}
	if seen.MemoryPeak > u.MemoryPeakBytes || r.exited.RSSAtMost && seen.MemoryPeak > 0 {
		u.MemoryPeakBytes = seen.MemoryPeak
		u.Sources["memory_peak_bytes"] = "samples of the process tree"
	}
	if u.ThrottledMS = seen.Throttled.Milliseconds(); u.ThrottledMS > 0 {
		u.Sources["throttled_ms"] = "the watchdog's clock"
	}
	r.peaks(u, &seen)
	r.groupUsage(u)
	if r.out.waited && u.TasksPeak < 1 {
		u.TasksPeak = 1 // it ran, and ended before the first sample
	}
}

// peaks are the highest that was seen, where the kernel keeps no peak.
func (r *run) peaks(u *status.Usage, seen *tree.Usage) {
	u.TasksPeak = seen.TasksPeak
	u.Sources["tasks_peak"] = "samples of the process tree"
	most := r.plan.Held.Tasks
	if n := r.plan.Watch.Tasks; n > 0 && !r.plan.Watch.KillTasks && !r.fellBack.NoPIDMax {
		most = n
	}
	if w := r.watch; w != nil && w.group != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		u.TasksPeak = max(u.TasksPeak, w.tasksPeak)
		u.Sources["tasks_peak"] = "samples of the cgroup"
		if r.stat.TasksHits.N > 0 {
			u.TasksPeak = most // a fork was refused there
		}
		if w.memoryPeak > u.MemoryPeakBytes {
			u.MemoryPeakBytes, u.Sources["memory_peak_bytes"] = w.memoryPeak, "samples of the cgroup"
		}
	}
	if most > 0 && r.tasksCounted(u.TasksPeak) >= most {
		u.TasksPeak = most // the kernel holds it; a sample is not taken in one moment
	}
}

// tasksCounted is so many of the target's as RLIMIT_NPROC counts them: a thread that
// the init made after the fork takes the place of one.
func (r *run) tasksCounted(tasks int64) int64 { return tasks + int64(r.exited.InitTasks) }

// limitsHit are the limits that were reached, whether they ended the run or not.
func (r *run) limitsHit(rep *status.Report) []string {
	hit := map[status.Capability]bool{}
	switch rep.Status {
	case status.Timeout:
		hit[status.WallTime] = true
	case status.CPULimit:
		hit[status.CPUTime] = true
	case status.MemLimit:
		hit[status.Memory] = true
	}
	if rep.Truncated.Stdout || rep.Truncated.Stderr {
		hit[status.Output] = true
	}
	if r.out.fileLimit > 0 && r.out.waited && r.out.waitStatus.Signaled() && r.out.waitStatus.Signal() == syscall.SIGXFSZ {
		hit[status.FileSize] = true
	}
	if n := r.network.summary; n != nil && n.Exhausted {
		hit[status.Network] = true
	}
	for _, c := range append(r.groupLimits(), r.watch.limits(r.tasksCounted(r.watch.usage().TasksPeak))...) {
		hit[c] = true
	}
	names := make([]string, 0, len(hit))
	for c := range hit {
		names = append(names, string(c))
	}
	sort.Strings(names)
	return names
}

// violations are the attempts that this side can name.
func (r *run) violations() (list []status.Violation) {
	list = r.network.violations()
	for _, path := range r.removed {
		list = append(list, status.Violation{
			Kind: "file", What: path, Count: 1, Rule: status.RuleProtected,
			Hint: "it did not exist before and was removed again; protect = [] in [sandbox.filesystem] allows it",
		})
	}
	for _, path := range r.left {
		list = append(list, status.Violation{
			Kind: "file", What: path, Count: 1, Rule: status.RuleLeft,
			Hint: "it did not exist before and could NOT be removed: look at it before any program of yours does",
		})
	}
	list = append(list, r.refusedFiles()...)
	return append(r.deniedCalls(), list...) // the one that killed is the first
}
