package disk

import (
	"fmt"
	"testing"
	"time"
)

func BenchmarkWalk(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		dir := b.TempDir()
		plant(b, dir, n)
		b.Run(fmt.Sprint("entries=", n), func(b *testing.B) {
			f, err := newForest([]int{opath(b, dir)})
			must(b, err)
			defer f.close()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := f.walk(order{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/entry")
		})
	}
}

func BenchmarkLevel(b *testing.B) {
	f, err := newForest([]int{opath(b, b.TempDir())})
	must(b, err)
	defer f.close()
	for b.Loop() {
		_, err := f.level()
		must(b, err)
	}
}

// BenchmarkWatchdog is the share of one core that watching a tree takes in which
// nothing happens, and one whose file system is written to all the time.
func BenchmarkWatchdog(b *testing.B) {
	for _, n := range []int{100, 10_000, 100_000} {
		dir, beside := b.TempDir(), b.TempDir()
		plant(b, dir, n)
		for _, busy := range []bool{false, true} {
			b.Run(fmt.Sprintf("entries=%d/busy=%v", n, busy), func(b *testing.B) {
				const long = 3 * time.Second
				r := watched(b, dir, Limits{Bytes: 64 * mib})
				var spent time.Duration
				began := time.Now()
				go func() {
					before := threadTime()
					err := r.dog.Run(r.stop) // keeps its thread
					spent = threadTime() - before
					r.done <- err
				}()
				for time.Since(began) < long {
					if busy {
						put(b, beside+"/file", 0)
						put(b, beside+"/file", 128*mib)
					}
					time.Sleep(50 * time.Millisecond)
				}
				r.end()
				b.ReportMetric(100*float64(spent)/float64(time.Since(began)), "%core")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
