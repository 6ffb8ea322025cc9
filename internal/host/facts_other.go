//go:build !linux

package host

import (
	"errors"
	"runtime"
)

func allowedCPUs() []int {
	cpus := make([]int, runtime.NumCPU())
	for i := range cpus {
		cpus[i] = i
	}
	return cpus
}

// Rlimit is known on Linux only.
func (f *Facts) Rlimit(resource int) (soft, hard uint64, err error) {
	return 0, 0, errors.ErrUnsupported
}

// ProbeWord is the first argument of the throw-away process, of which there is
// none here.
const ProbeWord = "__probe"

// IsProbe is false: nothing is tried here.
func IsProbe() bool { return false }

// ProbeMain returns at once.
func ProbeMain() {}

// tryAll answers no to everything: not one of the mechanisms is there.
func tryAll(*Facts) (rs Results) {
	for _, e := range table {
		rs = append(rs, e.result(No, "not on "+runtime.GOOS))
	}
	return rs
}
