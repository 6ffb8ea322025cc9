package files

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

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
	status, err := os.ReadFile("/proc/" + strconv.Itoa(thread) + "/status")
	if err != nil {
		return
	}
	higher(&p.descriptors, parseFDSize(string(status)))
}

func higher(most *atomic.Int64, n int64) {
	for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
	}
}

// parseFDSize reads the status of a process.
func parseFDSize(status string) (n int64) {
	for line := range strings.Lines(status) {
		if value, ok := strings.CutPrefix(line, "FDSize:"); ok {
			n, _ = strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
	}
	return n
}
