package cgroup

import (
	"testing"

	"golang.org/x/sys/unix"
)

func BenchmarkMakeAndRemove(b *testing.B) {
	need(b, anyMemory, anyPIDs)
	for _, c := range []struct {
		name string
		o    Options
	}{
		{"limits", Options{Limits: Limits{Memory: 64 * mib, Tasks: 32}}},
		{"limits and usage", Options{Limits: Limits{Memory: 64 * mib, Tasks: 32}, Account: true}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				g, err := Make(c.o)
				must(b, err)
				must(b, g.Remove())
			}
		})
	}
	// What the kernel takes for the directories alone.
	b.Run("floor", func(b *testing.B) {
		g := mustMake(b, Options{Limits: Limits{Memory: 64 * mib, Tasks: 32}, Account: true})
		for b.Loop() {
			for _, d := range g.dirs {
				must(b, unix.Mkdirat(d.parent, "confine-floor", 0o755))
			}
			for _, d := range g.dirs {
				must(b, unix.Unlinkat(d.parent, "confine-floor", unix.AT_REMOVEDIR))
			}
		}
	})
}

func BenchmarkStat(b *testing.B) {
	need(b, anyMemory)
	g := mustMake(b, Options{Account: true})
	b.ReportAllocs()
	for b.Loop() {
		g.Stat()
	}
}
