package files

import (
	"sync"
	"sync/atomic"

	"github.com/confine-run/confine/supervisor/denials"
)

// identity is who a thread is.
type identity struct {
	pid, tid int // as seen inside
	comm     string
}

// maxKnown bounds how many threads are remembered.
const maxKnown = 4096

// identities remembers threads, by our number of them. A number that is given to
// another thread may be taken for the one before: it is for words.
type identities struct {
	mu    sync.Mutex
	known map[int]identity
}

func (s *identities) of(thread int) identity {
	s.mu.Lock()
	who, ok := s.known[thread]
	s.mu.Unlock()
	if ok {
		return who
	}
	t, err := denials.Look(thread)
	if err != nil {
		return identity{}
	}
	who = identity{t.PID, t.TID, t.Comm}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil || len(s.known) >= maxKnown {
		s.known = make(map[int]identity)
	}
	s.known[thread] = who
	return who
}

// forget is for one that becomes another by execve.
func (s *identities) forget(thread int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, thread)
}

// measureEvery is how many looks there are for one measurement.
const measureEvery = 16

// peaks measures. The zero value measures nothing.
type peaks struct {
	on          atomic.Bool
	looks       atomic.Int64
	descriptors atomic.Int64
}

// Measure begins to measure.
func (w *Watcher) Measure() { w.peaks.on.Store(true) }

// Peaks are what was measured.
func (w *Watcher) Peaks() Peaks {
	if w == nil {
		return Peaks{}
	}
	return Peaks{w.peaks.descriptors.Load()}
}

// of measures a thread's process, when it is time to.
func (p *peaks) of(thread int) {
	if !p.on.Load() || p.looks.Add(1)%measureEvery != 0 {
		return
	}
	if t, err := denials.Look(thread); err == nil {
		higher(&p.descriptors, t.Room)
	}
}

func higher(most *atomic.Int64, n int64) {
	for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
	}
}
