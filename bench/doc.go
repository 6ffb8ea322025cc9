//go:build linux

// Command bench measures what confine costs, beside the same work without it and under
// its peers, and holds the figures against the project's aims.
//
//	make bench                         all of it, as docs/BENCHMARKS.md
//	go run ./bench -only start -n 200  one measurement, of bin/confine
//	go run ./bench -against OLD        two builds of confine, side by side
//
// Machines that build and test are noisy. So whatever is compared is measured in turns,
// A B C A B C, and a ratio is the median of the ratios within each round: what disturbs one
// disturbs its neighbours too. Times differ from host to host; ratios much less.
//
// Begin with measurements in measure_linux.go: a line for each. A peer that isn't installed is
// said to be missing, and nothing is judged against it.
package main
