package darwin

import (
	"time"

	"github.com/confine-run/confine/backend"
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
	seen map[member]time.Duration // CPU time, when it was seen last
	gone time.Duration            // of those that have ended

	now                   backend.Usage
	memoryPeak, tasksPeak int64
	started               int64 // processes that were seen
}

type member struct {
	pid   int
	start uint64
}

// add takes a look at all of them.
func (t *tree) add(all []sample) {
	if t.seen == nil {
		t.seen = map[member]time.Duration{}
	}
	here := make(map[member]bool, len(all))
	t.now = backend.Usage{Scratch: t.now.Scratch}
	for _, s := range all {
		m := member{s.pid, s.start}
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
