package watch

import (
	"fmt"
	"time"

	"github.com/confine-run/confine/status"
)

// How often the cgroup's CPU time is looked at: when the rest can be used up, but
// no more often than is cheap.
const (
	meterFastest = 2 * time.Millisecond
	meterSlowest = 500 * time.Millisecond
)

// meter holds the run to its CPU time, and keeps the peaks of what the kernel has
// none of.
func (w *Watch) meter() {
	defer close(w.metered)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-timer.C:
		}
		w.scratchUsed()
		wait := w.peaks()
		if limit := w.plan.CPU; limit > 0 && w.held.CPU {
			used, ok := w.group.CPUTime()
			if ok && used >= limit {
				w.found <- Hit{Cause: status.CauseCPUGroup, Detail: fmt.Sprintf("CPU time limit of %s reached", limit)}
				return
			}
			wait = min(wait, max((limit-used)/time.Duration(w.cores), meterFastest))
		}
		timer.Reset(wait)
	}
}

// peaks keeps what is highest, and says when to look again.
func (w *Watch) peaks() time.Duration {
	s := w.group.Stat()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.memoryNow = s.Memory.N
	w.tasksPeak = max(w.tasksPeak, s.Tasks.N)
	w.memoryPeak = max(w.memoryPeak, s.Memory.N)
	if s.TasksPeak.Known && s.MemoryPeak.Known {
		return meterSlowest
	}
	return meterSlowest / 10
}

// Peaks lays over what was used the highest that was seen of the cgroup, where the kernel keeps no peak. It is false where there is no cgroup.
func (w *Watch) Peaks(u *status.Usage) bool {
	if w == nil || w.group == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	u.TasksPeak = max(u.TasksPeak, w.tasksPeak)
	u.Sources["tasks_peak"] = "samples of the cgroup"
	if w.memoryPeak > u.MemoryPeakBytes {
		u.MemoryPeakBytes, u.Sources["memory_peak_bytes"] = w.memoryPeak, "samples of the cgroup"
	}
	return true
}
