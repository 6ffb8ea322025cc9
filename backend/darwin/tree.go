package darwin

import (
	"cmp"
	"slices"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/status"
)

// sample is what one process uses at a moment.
type sample struct {
	pid     int
	start   uint64 // tells it from a later one of the same number
	cpu     time.Duration
	memory  int64
	threads int
}

// tree sums what processes use: of those that are there, and of those that were.
type tree struct {
	seen map[process]time.Duration // CPU time, when it was seen last
	gone time.Duration             // of those that have ended

	now                   backend.Usage
	memoryPeak, tasksPeak int64
	started               int64 // processes that were seen
}

type process struct {
	pid   int
	start uint64
}

// add takes a look at all of them.
func (t *tree) add(all []sample) {
	if t.seen == nil {
		t.seen = map[process]time.Duration{}
	}
	here := make(map[process]bool, len(all))
	t.now = backend.Usage{Scratch: t.now.Scratch}
	for _, s := range all {
		m := process{s.pid, s.start}
		if here[m] {
			continue
		}
		here[m] = true
		last, known := t.seen[m]
		if !known {
			t.started++
		}
		t.seen[m] = max(last, s.cpu)
		t.now.CPU += t.seen[m]
		t.now.Memory += s.memory
		t.now.Tasks += int64(s.threads)
	}
	for m, cpu := range t.seen {
		if !here[m] {
			t.gone += cpu
			delete(t.seen, m)
		}
	}
	t.now.CPU += t.gone
	t.memoryPeak, t.tasksPeak = max(t.memoryPeak, t.now.Memory), max(t.tasksPeak, t.now.Tasks)
}

// trim says which processes are too many: the newest, until no more tasks are left than the limit allows.
func trim(all []sample, limit int64) (pids []int) {
	newest := slices.Clone(all)
	slices.SortFunc(newest, func(a, b sample) int { return cmp.Or(cmp.Compare(b.start, a.start), cmp.Compare(b.pid, a.pid)) })
	count := int64(0)
	for _, s := range newest {
		count += int64(s.threads)
	}
	for _, s := range newest {
		if count <= limit {
			break
		}
		count -= int64(s.threads)
		pids = append(pids, s.pid)
	}
	return pids
}

// ended adds what the kernel says of a process that was waited for, with those that it had waited for, and was not seen: it was too short. It
// says how much more that is.
func (t *tree) ended(cpu time.Duration, memory int64) (more time.Duration) {
	more = max(0, cpu-t.now.CPU)
	t.gone, t.now.CPU = t.gone+more, t.now.CPU+more
	t.memoryPeak = max(t.memoryPeak, memory)
	t.tasksPeak, t.started = max(t.tasksPeak, 1), max(t.started, 1)
	return more
}

// used is the same in the words of a report.
func (t *tree) used() status.Usage {
	const from = "proc_pid_rusage, looked at every 20 ms"
	return status.Usage{
		CPUMS: t.now.CPU.Milliseconds(), MemoryPeakBytes: t.memoryPeak, TasksPeak: t.tasksPeak, TasksStarted: t.started,
		Sources: map[string]string{
			"cpu_ms": from, "memory_peak_bytes": from + ", physical footprint", "tasks_peak": from + ", processes and threads", "tasks_started": from + ", processes",
		},
	}
}
