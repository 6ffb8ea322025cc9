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
	on                atomic.Bool
	looks             atomic.Int64
	descriptors, data atomic.Int64
}

// Measure begins to measure.
func (w *Watcher) Measure() { w.peaks.on.Store(true) }

// Peaks are what was measured.
func (w *Watcher) Peaks() Peaks {
	if w == nil {
		return Peaks{}
	}
	return Peaks{w.peaks.descriptors.Load(), w.peaks.data.Load()}
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
	descriptors, data := parsePeaks(string(status))
	higher(&p.descriptors, descriptors)
	higher(&p.data, data)
}

func higher(most *atomic.Int64, n int64) {
	for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
	}
}

// parsePeaks reads the status of a process.
func parsePeaks(status string) (descriptors, data int64) {
	for line := range strings.Lines(status) {
		key, value, _ := strings.Cut(line, ":")
		fields := strings.Fields(value)
		if len(fields) == 0 {
			continue
		}
		switch key {
		case "FDSize":
			descriptors, _ = strconv.ParseInt(fields[0], 10, 64)
		case "VmData": // "1234 kB"
			data, _ = strconv.ParseInt(fields[0], 10, 64)
			data <<= 10
		}
	}
	return descriptors, data
}
