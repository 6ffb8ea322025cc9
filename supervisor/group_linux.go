package supervisor

import (
	"fmt"

	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/cgroup"
	"github.com/confine-run/confine/supervisor/outcome"
)

// counters are those of the box's cgroup.
type counters struct {
	group     *cgroup.Group // or nil
	stat      cgroup.Stat   // at the end
	oomKilled bool          // the OOM killer came for the group's own limit
	counted   bool          // both are known
	oom       <-chan struct{}
}

// count reads the counters, once: of a systemd scope before the init ends. Then
// systemd takes it down bit by bit, and some counters are gone before others.
func (c *counters) count() {
	c.stat, c.counted = c.group.Stat(), true
	c.oomKilled = c.group.KilledForMemory(&c.stat)
}

// memoryKilled says who was killed, as far as the kernel tells.
func (c *counters) memoryKilled() string {
	who := "the kernel killed one process, and confine the others"
	if c.group.Version() == 2 {
		who = "the kernel killed the whole tree"
	}
	return who
}

// reachedMemory says whether the run ended at its memory limit, as far as that is
// known before everything is: what only the counters know is the settlement's.
func (j *job) reachedMemory() bool {
	if outcome.StatusOf(j.out.Cause) == status.MemLimit {
		return true
	}
	if j.group == nil || j.plan.Held.Memory == 0 || j.out.Cause != "" {
		return false
	}
	if !j.counted {
		j.count()
	}
	return j.oomKilled || j.stat.OOMs.Known && j.stat.OOMs.N > 0
}

// counted is what only the counters of the cgroup know: an OOM kill that nobody
// heard of in time (oom), or an allocation that was refused and that the target
// failed over. killed says who was.
func counted(o *outcome.Outcome, s *cgroup.Stat, oom bool, killed string) {
	if o.Cause != "" {
		return
	}
	failed := o.Waited && o.Ended != nil && (!o.Ended.Exited() || o.Ended.ExitStatus() != 0)
	switch {
	case oom:
		o.Cause, o.Detail = status.CauseMemGroup, killed
	case s.OOMs.Known && s.OOMs.N > 0 && failed:
		o.Cause, o.Detail = status.CauseMemAlloc, "an allocation was refused"
	}
}

// groupUsage is what the cgroup counted, laid over what others did.
func (b *box) groupUsage(u *status.Usage) {
	if b.group == nil {
		return
	}
	s := &b.stat
	from := fmt.Sprintf("cgroup v%d", b.group.Version())
	put := func(name string, to *int64, n int64, known bool) {
		if known {
			*to, u.Sources[name] = n, from
		}
	}
	span := func(name string, to *int64, d cgroup.Span) { put(name, to, d.D.Milliseconds(), d.Known) }
	span("cpu_ms", &u.CPUMS, s.CPU)
	span("user_ms", &u.UserMS, s.User)
	span("system_ms", &u.SystemMS, s.System)
	if b.plan.Held.CPUPercent > 0 {
		span("throttled_ms", &u.ThrottledMS, s.Throttled)
	}
	put("read_bytes", &u.ReadBytes, s.Read.N, s.Read.Known)
	put("write_bytes", &u.WriteBytes, s.Written.N, s.Written.Known)
	put("memory_peak_bytes", &u.MemoryPeakBytes, s.MemoryPeak.N, s.MemoryPeak.Known)
	put("tasks_peak", &u.TasksPeak, s.TasksPeak.N, s.TasksPeak.Known)
	for name, d := range map[string]cgroup.Span{
		"cpu_some": s.Pressure.CPUSome, "memory_some": s.Pressure.MemorySome, "memory_full": s.Pressure.MemoryFull,
		"io_some": s.Pressure.IOSome, "io_full": s.Pressure.IOFull,
	} {
		if !d.Known {
			continue
		}
		if u.PressureMS == nil {
			u.PressureMS = map[string]int64{}
		}
		u.PressureMS[name] = d.D.Milliseconds()
	}
}

// groupLimits are those that the cgroup held without ending the run.
func (b *box) groupLimits() (hit []status.Capability) {
	if b.stat.TasksHits.N > 0 && b.plan.Held.Tasks > 0 {
		hit = append(hit, status.Tasks)
	}
	if b.stat.Throttled.D > 0 && b.plan.Held.CPUPercent > 0 {
		hit = append(hit, status.CPURate)
	}
	return hit
}
