package files

import (
	"os"
	"testing"
)

func TestPeaks(t *testing.T) {
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
	if p := w.Peaks(); p.Descriptors < 64 {
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
