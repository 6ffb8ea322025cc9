package tree

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func crowd(b testing.TB, n int) *run {
	r := namespace(b, nil, "/bin/sh", "-c", `i=1; while [ $i -lt `+strconv.Itoa(n)+` ]; do sleep 50 & i=$((i+1)); done; exec sleep 50`)
	r.begin()
	r.until("all there", func(s Sample) bool {
		for i := range r.tree.cur {
			if p := &r.tree.cur[i]; !p.root && string(p.comm[:5]) != "sleep" {
				return false
			}
		}
		return s.Processes == n
	})
	return r
}

func BenchmarkSample(b *testing.B) {
	for _, n := range []int{1, 50, 500} {
		r := crowd(b, n)
		b.Run(fmt.Sprint("processes=", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r.sample(NoPSS)
			}
		})
		b.Run(fmt.Sprint("pss/processes=", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r.sample(-1)
			}
		})
	}
}

// BenchmarkWatchdog is the share of one core that watching an idle tree takes.
func BenchmarkWatchdog(b *testing.B) {
	limits := Limits{CPU: time.Hour, Memory: 2 << 30}
	for _, n := range []int{1, 50, 500} {
		r := crowd(b, n)
		b.Run(fmt.Sprint("processes=", n), func(b *testing.B) {
			w := NewWatchdog(r.tree, limits)
			stop := make(chan struct{})
			time.AfterFunc(2*time.Second, func() { close(stop) })
			began, before := time.Now(), cpu()
			if err := w.Run(stop); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(100*float64(cpu()-before)/float64(time.Since(began)), "%core")
			b.ReportMetric(float64(w.nth)/2, "samples/s")
		})
	}
}

func cpu() time.Duration {
	var u unix.Rusage
	unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func TestASampleAllocatesNothing(t *testing.T) {
	r := crowd(t, 20)
	if n := testing.AllocsPerRun(100, func() { r.sample(-1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	w := NewWatchdog(r.tree, Limits{CPU: time.Hour, Memory: 1 << 20, Tasks: 1000, CPUPercent: 1000})
	w.memHit = true
	w.start()
	if n := testing.AllocsPerRun(100, func() { _, err := w.step(); must(t, err) }); n != 0 {
		t.Errorf("%v allocations of the watchdog", n)
	}
}
