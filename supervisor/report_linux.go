package supervisor

import (
	"encoding/base64"
	"path"
	"sort"
	"strconv"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/internal/tree"
)

// report says what is known, once everything has ended. What only the caller
// knows (command, profile, exit code in its dialect) is left to it.
func (j *job) report() *status.Report {
	v := j.out.verdict()
	rep := &status.Report{
		Status:  v.status,
		Cause:   v.cause,
		Reason:  v.reason,
		Ending:  v.Ending,
		Backend: "linux-process",
	}
	if v.signal != 0 {
		rep.Signal = signalName(v.signal)
	}
	if v.exited {
		rep.ExitCode = &v.exitCode
	}
	rep.RC = status.Status.RC(v.status, status.Normalized, v.exitCode, int(v.signal))
	if j.out.setup != nil {
		rep.SetupError = j.out.setup.report()
	}
	if !j.started.IsZero() {
		rep.DurationMS = j.ended.Sub(j.started).Milliseconds()
	}
	j.reportStreams(rep)
	j.reportUsage(rep)
	rep.Enforced = j.confirmed()
	if j.fellBack.OverlayReadOnly {
		rep.Ending.ReadOnly = j.readOnlyTrees()
	}
	rep.LimitsHit, rep.FullMounts = j.limitsHit(rep), j.watch.fullMounts()
	if rep.Status == status.MemLimit {
		rep.OutOfMemory = j.outOfMemory
	}
	rep.Violations = j.violations()
	rep.Network = j.network.report()
	rep.Changes = j.changes
	rep.Normalize()
	return rep
}

func (j *job) reportStreams(rep *status.Report) {
	if j.io == nil {
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
		s := j.io.out[fd]
		if fd == 0 || s == nil {
			continue
		}
		*to.bytes, *to.truncated = s.Bytes(), s.Truncated()
		if j.io.err != nil {
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
func (j *job) reportUsage(rep *status.Report) {
	seen := j.watch.usage()
	u := &rep.Usage
	u.Sources = map[string]string{}
	if j.out.waited {
		user := time.Duration(j.used.UserUS) * time.Microsecond
		system := time.Duration(j.used.SystemUS) * time.Microsecond
		u.UserMS, u.SystemMS = user.Milliseconds(), system.Milliseconds()
		// What was never reaped, because its parent ignores SIGCHLD, only samples saw.
		u.CPUMS = (user + system + seen.Unreaped).Milliseconds()
		u.MemoryPeakBytes = j.used.MaxRSS
		u.ReadBytes, u.WriteBytes, u.ContextSwitches = j.used.ReadBytes, j.used.WriteBytes, j.used.Switches
		u.Sources["cpu_ms"] = "rusage of everything reaped"
		u.Sources["read_bytes"] = "rusage of everything reaped"
		u.Sources["context_switches"] = "rusage of everything reaped"
		u.Sources["memory_peak_bytes"] = "rusage, largest process"
		if j.used.RSSAtMost {
			u.Sources["memory_peak_bytes"] = "at most: rusage counts the init that the target was forked from"
		}
	}
	if seen.CPU.Milliseconds() > u.CPUMS {
		u.CPUMS, u.UserMS, u.SystemMS = seen.CPU.Milliseconds(), seen.User.Milliseconds(), seen.System.Milliseconds()
		u.Sources["cpu_ms"] = "samples of the process tree"
	}
	if seen.MemoryPeak > u.MemoryPeakBytes || j.used.RSSAtMost && seen.MemoryPeak > 0 {
		u.MemoryPeakBytes = seen.MemoryPeak
		u.Sources["memory_peak_bytes"] = "samples of the process tree"
	}
	if u.ThrottledMS = seen.Throttled.Milliseconds(); u.ThrottledMS > 0 {
		u.Sources["throttled_ms"] = "the watchdog's clock"
	}
	j.peaks(u, &seen)
	j.groupUsage(u)
	if j.out.waited && u.TasksPeak < 1 {
		u.TasksPeak = 1 // it ran, and ended before the first sample
	}
}

// peaks are the highest that was seen, where the kernel keeps no peak.
func (j *job) peaks(u *status.Usage, seen *tree.Usage) {
	u.TasksPeak = max(seen.TasksPeak, j.watch.tasksSeen())
	u.Sources["tasks_peak"] = "samples of the process tree"
	most := j.plan.Held.Tasks
	if n := j.plan.Watch.Tasks; n > 0 && !j.plan.Watch.KillTasks && !j.fellBack.NoPIDMax {
		most = n
	}
	if w := j.watch; w != nil && w.group != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		u.TasksPeak = max(u.TasksPeak, w.tasksPeak)
		u.Sources["tasks_peak"] = "samples of the cgroup"
		if j.stat.TasksHits.N > 0 {
			u.TasksPeak = most // a fork was refused there
		}
		if w.memoryPeak > u.MemoryPeakBytes {
			u.MemoryPeakBytes, u.Sources["memory_peak_bytes"] = w.memoryPeak, "samples of the cgroup"
		}
	}
	if most > 0 && j.tasksCounted(u.TasksPeak) >= most {
		u.TasksPeak = most // the kernel holds it; a sample is not taken in one moment
	}
}

// tasksCounted is so many of the target's as RLIMIT_NPROC counts them: a thread that
// the init made after the fork takes the place of one.
func (j *job) tasksCounted(tasks int64) int64 { return tasks + int64(j.exited.InitTasks) }

// limitsHit are the limits that were reached, whether they ended the run or not.
func (j *job) limitsHit(rep *status.Report) []string {
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
	if j.out.fileLimit > 0 && j.out.waited && j.out.waitStatus.Signaled() && j.out.waitStatus.Signal() == syscall.SIGXFSZ {
		hit[status.FileSize] = true
	}
	if n := j.network.summary; n != nil && n.Exhausted {
		hit[status.Network] = true
	}
	for _, c := range append(j.groupLimits(), j.watch.limits(j.tasksCounted(max(j.watch.usage().TasksPeak, j.watch.tasksSeen())))...) {
		hit[c] = true
	}
	names := make([]string, 0, len(hit))
	for c := range hit {
		names = append(names, string(c))
	}
	sort.Strings(names)
	return names
}

// maxGitlinks is how many of those that have to do with gitlinks are told one by one.
const maxGitlinks = 50

const unprotect = "; --workdir overlay takes it, and protect = [] under [sandbox.filesystem] in a --config FILE outside of the tree allows it"

// violation tells of something that was taken away.
func (t *taken) violation(gitlink bool) status.Violation {
	v := status.Violation{Kind: "file", What: t.path, Count: 1, Rule: status.RuleProtected}
	why := "it did not exist before"
	switch {
	case t.other:
		why = "what was protected there was replaced or moved away from outside during the run, and whether the run wrote this can't be told"
	case t.link:
		why = "git would have written through it, or removed what it leads to"
	case gitlink && path.Base(t.path) == "index":
		why = "git's index can't be read any more (git reset makes a new one)"
	case gitlink:
		why = "git's index names it since the run: git status would have run what its configuration says"
	}
	switch {
	case t.left:
		v.Rule = status.RuleLeft
		v.Hint = why + ", and it could NOT be removed: look at it before any program of yours does"
	case t.aside != "":
		v.Rule = status.RuleAside
		v.Hint = why + "; it has the name " + strconv.Quote(t.aside) + " now: look at what is in it before you change that"
	case gitlink:
		v.Hint = why + "; it was removed again" + unprotect
	default:
		v.Hint = why + " and was removed again" + unprotect
	}
	return v
}

// violations are the attempts that this side can name.
func (j *job) violations() (list []status.Violation) {
	list = j.network.violations()
	if j.stays != "" {
		list = append(list, status.Violation{Kind: "file", What: j.stays, Count: 1, Rule: status.RuleLeft,
			Hint: "the run's own directory could NOT be removed"})
	}
	for i := range j.remover.taken {
		t := &j.remover.taken[i]
		if i >= j.protected+maxGitlinks && !t.left { // as many as the run has wanted
			list[len(list)-1].Count++
			continue
		}
		list = append(list, t.violation(i >= j.protected))
	}
	list = append(list, j.refusedFiles()...)
	return append(j.deniedCalls(), list...) // the one that killed is the first
}
