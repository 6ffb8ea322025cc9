//go:build !linux

package host

import (
	"runtime"
)

func allowedCPUs() []int {
	cpus := make([]int, runtime.NumCPU())
	for i := range cpus {
		cpus[i] = i
	}
	return cpus
}

// ProbeMain returns at once: nothing is tried in a throw-away process here.
func ProbeMain() {}

// tryAll answers no to everything: not one of the mechanisms is there.
func tryAll(*Facts) (rs Results) {
	for _, e := range table {
		rs = append(rs, e.result(No, "not on "+runtime.GOOS))
	}
	return rs
}
