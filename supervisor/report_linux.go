package supervisor

import (
	"maps"
	"slices"
	"sort"
	"syscall"
	"time"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/internal/tree"
	"github.com/confine-run/confine/supervisor/outcome"
)

// report says what is known, once everything has ended. What only the caller
// knows (command, profile, exit code in its dialect) is left to it.
func (j *job) report() *status.Report {
	v := j.out.Verdict()
	rep := &status.Report{
		Status:  v.Status,
		Cause:   v.Cause,
		Reason:  v.Reason,
		Ending:  v.Ending,
		Backend: "linux-process",
	}
	if v.Signal != 0 {
		rep.Signal = outcome.SignalName(v.Signal)
	}
	if v.Exited {
		rep.ExitCode = &v.ExitCode
	}
	rep.RC = status.Status.RC(v.Status, status.Normalized, v.ExitCode, int(v.Signal))
	if j.out.Setup != nil {
		rep.SetupError = j.out.Setup.Report()
	}
	if !j.started.IsZero() {
		rep.DurationMS = j.ended.Sub(j.started).Milliseconds()
	}
	j.io.report(rep)
	if j.mine != nil {
		j.mine.report(j, &rep.Usage)
	} else {
		j.reportUsage(rep)
	}
	rep.Enforced = j.confirmed()
	if j.fellBack.OverlayReadOnly {
		rep.Ending.ReadOnly = j.readOnlyTrees()
	}
	rep.LimitsHit, rep.FullMounts = j.limitsHit(rep), j.watch.FullMounts()
	if rep.Status == status.MemLimit {
		rep.OutOfMemory = j.outOfMemory
	}
	rep.Violations = j.violations()
	if j.mine == nil {
		rep.Network, rep.Changes = j.network.report(), j.changes
	}
	rep.Normalize()
	return rep
}

// reportUsage: the init's own count of what it reaped, which is everything, if
// it could tell; else the last sample of the tree.
func (j *job) reportUsage(rep *status.Report) {
	seen := j.watch.Usage()
	u := &rep.Usage
	u.Sources = map[string]string{}
	if j.out.Waited {
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
	if j.out.Waited && u.TasksPeak < 1 {
		u.TasksPeak = 1 // it ran, and ended before the first sample
	}
	if u.TasksStarted = tasksStarted(j); u.TasksStarted > 0 {
		u.Sources["tasks_started"] = "at least: the numbers of the pid namespace"
	}
}

// report is the usage of one process of many: what the kernel gave its parent when it was waited for, and samples that were taken
// of it and those below it because somebody asked. What the box counts of all is not its own.
func (m *mine) report(j *job, u *status.Usage) {
	u.Sources = map[string]string{}
	j.crowd.mu.Lock()
	peak := m.peak
	j.crowd.mu.Unlock()
	if j.out.Waited {
		from := "rusage of the process and of those it waited for"
		switch {
		case j.exited.Left == handoff.LeftSome:
			from += "; processes that it left behind are not in it"
		case j.exited.Left == handoff.LeftMaybe && j.watch.Asks().Orphaned(m.born, j.crowd.is):
			from += "; processes without a parent that began meanwhile, its own or another's, are not in it"
		}
		user, system := time.Duration(j.used.UserUS)*time.Microsecond, time.Duration(j.used.SystemUS)*time.Microsecond
		u.UserMS, u.SystemMS, u.CPUMS = user.Milliseconds(), system.Milliseconds(), (user + system).Milliseconds()
		u.ReadBytes, u.WriteBytes, u.ContextSwitches = j.used.ReadBytes, j.used.WriteBytes, j.used.Switches
		u.MemoryPeakBytes, u.TasksPeak = j.used.MaxRSS, 1
		u.Sources["cpu_ms"], u.Sources["read_bytes"], u.Sources["context_switches"] = from, from, from
		u.Sources["memory_peak_bytes"] = "rusage, largest process"
		if j.used.RSSAtMost {
			u.Sources["memory_peak_bytes"] = "at most: rusage counts the init that the target was forked from"
		}
		u.Sources["tasks_peak"] = "at least: the process itself, since nobody counted"
	}
	const samples = "samples of the process and of those below it"
	if peak.CPU.Milliseconds() > u.CPUMS {
		u.CPUMS, u.Sources["cpu_ms"] = peak.CPU.Milliseconds(), samples
	}
	if peak.Memory > u.MemoryPeakBytes || j.used.RSSAtMost && peak.Memory > 0 {
		u.MemoryPeakBytes, u.Sources["memory_peak_bytes"] = peak.Memory, samples
	}
	if peak.Tasks > 0 {
		u.TasksPeak, u.Sources["tasks_peak"] = max(peak.Tasks, u.TasksPeak), samples
	}
}

// peaks are the highest that was seen, where the kernel keeps no peak.
func (j *job) peaks(u *status.Usage, seen *tree.Usage) {
	u.TasksPeak = max(seen.TasksPeak, j.watch.TasksSeen())
	u.Sources["tasks_peak"] = "samples of the process tree"
	most := j.plan.Held.Tasks
	if n := j.plan.Watch.Tasks; n > 0 && !j.plan.Watch.KillTasks && !j.fellBack.NoPIDMax {
		most = n
	}
	if j.watch.Peaks(u) && j.stat.TasksHits.N > 0 {
		u.TasksPeak = most // a fork was refused there
	}
	if most > 0 && j.tasksCounted(u.TasksPeak) >= most {
		u.TasksPeak = most // the kernel holds it; a sample is not taken in one moment
	}
}

// tasksStarted is how many tasks of the target's there ever were, at least: their numbers may have begun anew. 0: nobody knows.
func tasksStarted(j *job) int64 {
	if j.exited.LastPID == 0 || j.number <= 0 {
		return 0
	}
	return max(0, int64(min(j.exited.LastPID, 1<<32))-int64(j.number)+1-int64(j.exited.InitTasks))
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
	if j.out.Limit.File > 0 && j.out.Waited && j.out.Ended != nil && j.out.Ended.Signaled() && j.out.Ended.Signal() == syscall.SIGXFSZ {
		hit[status.FileSize] = true
	}
	for _, c := range j.mine.limitsOf(j) {
		hit[c] = true
	}
	names := make([]string, 0, len(hit))
	for c := range hit {
		names = append(names, string(c))
	}
	sort.Strings(names)
	return names
}

// limitsOf are those of the box that were reached: of one process of many, while it ran.
func (m *mine) limitsOf(j *job) (hit []status.Capability) {
	if m != nil {
		j.crowd.mu.Lock()
		defer j.crowd.mu.Unlock()
		return slices.Collect(maps.Keys(m.limits))
	}
	if n := j.network.summary; n != nil && n.Exhausted {
		hit = append(hit, status.Network)
	}
	return slices.Concat(hit, j.groupLimits(), j.watch.Limits(j.tasksCounted(max(j.watch.Usage().TasksPeak, j.watch.TasksSeen()))))
}

// violations are the attempts that this side can name.
func (j *job) violations() (list []status.Violation) {
	if j.mine != nil {
		j.crowd.mu.Lock()
		list = slices.Concat(j.mine.denied, j.refused.refusedFiles())
		j.crowd.mu.Unlock()
		return append(j.refused.deniedCalls(), list...)
	}
	list = j.network.violations()
	if j.stays != "" {
		list = append(list, status.Violation{Kind: "file", What: j.stays, Count: 1, Rule: status.RuleLeft,
			Hint: "the run's own directory could NOT be removed"})
	}
	list = append(list, j.remains.Violations()...)
	list = append(list, j.refused.refusedFiles()...)
	return append(j.refused.deniedCalls(), list...) // the one that killed is the first
}
