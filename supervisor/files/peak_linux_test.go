package files

import (
	"os"
	"testing"
)

func TestPeaks(t *testing.T) {
	if d, n := parsePeaks("Name:\tx\nFDSize:\t256\nVmData:\t    1024 kB\nVmStk:\n"); d != 256 || n != 1<<20 {
		t.Errorf("%d, %d", d, n)
	}
	if d, n := parsePeaks("FDSize:\nVmData: x\n"); d != 0 || n != 0 {
		t.Errorf("%d, %d", d, n)
	}
	var w Watcher
	for range measureEvery {
		w.peaks.of(os.Getpid())
	}
	if w.Peaks() != (Peaks{}) {
		t.Errorf("nobody asked: %+v", w.Peaks())
	}
	w.Measure()
	for range measureEvery {
		w.peaks.of(os.Getpid())
	}
	if p := w.Peaks(); p.Descriptors < 64 || p.Data <= 0 {
		t.Errorf("%+v", p)
	}
	before := w.Peaks()
	for range measureEvery {
		w.peaks.of(1 << 30) // nobody
	}
	if w.Peaks() != before || (*Watcher)(nil).Peaks() != (Peaks{}) {
		t.Errorf("%+v", w.Peaks())
	}
}
