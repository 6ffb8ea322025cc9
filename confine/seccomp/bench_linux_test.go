//go:build amd64 || arm64

package seccomp

import (
	"runtime"
	"testing"
	"time"

	library "github.com/elastic/go-seccomp-bpf"
	"golang.org/x/net/bpf"
)

func BenchmarkBuild(b *testing.B) {
	for b.Loop() {
		if _, err := Build("default", ActionErrno, runtime.GOARCH); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBuildWithAdditions(b *testing.B) {
	for b.Loop() {
		if _, err := Build("default", ActionErrno, runtime.GOARCH, SharedPIDs, NoNetwork); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLoad is what seccomp(2) takes, for the tree and for the same policy
// as the list that go-seccomp-bpf makes of it.
func BenchmarkLoad(b *testing.B) {
	f, err := Build("default", ActionErrno, runtime.GOARCH)
	if err != nil {
		b.Fatal(err)
	}
	tab, _ := tableOf(runtime.GOARCH)
	insns, err := express(builtinDefault.policy.Rules, library.ActionErrno, tab, ActionErrno).Assemble()
	if err != nil {
		b.Fatal(err)
	}
	raw, err := bpf.Assemble(insns)
	if err != nil {
		b.Fatal(err)
	}
	var list []uint64
	for _, i := range raw {
		list = append(list, uint64(i.Op)<<48|uint64(i.Jt)<<40|uint64(i.Jf)<<32|uint64(i.K))
	}
	for _, c := range []struct {
		name    string
		program []uint64
	}{{"tree", f.Program}, {"list", list}} {
		b.Run(c.name, func(b *testing.B) {
			var spent time.Duration
			for range b.N {
				done := make(chan time.Duration)
				go func() {
					runtime.LockOSThread() // never unlocked: the thread ends with its filter
					start := time.Now()
					loadFilter(c.program, 0)
					done <- time.Since(start)
				}()
				spent += <-done
			}
			b.ReportMetric(float64(spent.Microseconds())/float64(b.N), "µs/load")
			b.ReportMetric(float64(len(c.program)), "instructions")
		})
	}
}
