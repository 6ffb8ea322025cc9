//go:build !linux

package host

import "runtime"

func unameRelease() string { return "" }

func allowedCPUs() []int {
	cpus := make([]int, runtime.NumCPU())
	for i := range cpus {
		cpus[i] = i
	}
	return cpus
}

// Rlimit is known on Linux only.
func (f *Facts) Rlimit(resource int) (soft, hard uint64, err error) {
	return 0, 0, ErrUnsupported
}
