package supervisor

import (
	"time"

	"github.com/confine-run/confine/status"
)

// beatEvery is how often it is told what the run uses.
const beatEvery = time.Second

// beats tell when; never when nobody wants to know.
func (r *run) beats() <-chan time.Time {
	if r.beat == nil {
		return nil
	}
	return r.beat.C
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

// tell says whom to tell about limits, those included that were reached already.
func (w *watch) tell(limit func(status.Capability)) {
	if w == nil || limit == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.onLimit = limit
	for c := range w.hitSet {
		limit(c)
	}
}

// load is what the tree uses now: as the cgroup counts, and else by the last sample.
func (w *watch) load() status.Load {
	seen := w.usage()
	l := status.Load{CPUMS: seen.CPU.Milliseconds(), MemoryBytes: seen.Memory, Tasks: seen.Tasks}
	if w == nil || w.group == nil {
		return l
	}
	s := w.group.Stat()
	if s.CPU.Known {
		l.CPUMS = s.CPU.D.Milliseconds()
	}
	if s.Memory.Known {
		l.MemoryBytes = s.Memory.N
	}
	if s.Tasks.Known {
		l.Tasks = s.Tasks.N
	}
	return l
}
