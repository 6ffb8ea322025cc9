// Command bench measures what confine costs, beside the same work without it and under
// its peers, and holds the figures against what the project aims at.
//
//	make bench                         all of it, written to docs/BENCHMARKS.md
//	go run ./bench -only start -n 200  one measurement
//	go run ./bench -against OLD        two builds of confine, side by side
//
// Machines are noisy, and most of all the ones that build and test. So whatever
// is compared is measured in turns, A B C A B C, and a ratio is the median of
// the ratios within each round: what disturbs one disturbs its neighbours too.
// Times differ from host to host; ratios much less.
//
// A peer that isn't installed is said to be missing, and nothing is judged
// against it.
package main
