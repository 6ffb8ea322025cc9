//go:build linux

// Command soak runs confine until it would show what single runs don't: thousands of
// runs, in sequence and many at once, a third of them with the supervisor killed
// at a random moment, and runs in which two limits are struck together. In the end
// nothing may be left of any of them.
//
//	make soak                              a thousand in sequence, two hundred at a time
//	go run ./integration/soak -runs 100    fewer
//	go run ./integration/soak -duration 2h again and again, for so long
//	go run ./integration/soak -add 'own=--cgroup-parent /sys/fs/cgroup/own'
//
// It prints three tables: what became of the runs under each set of options, with
// the mechanisms that the reports name; which status came of each pair of limits, and why
// this one; and what is left. It exits 1 when a run ended otherwise than it had to,
// when a status or a mechanism was not the same each time, or when anything is left.
//
// What is run bounds itself: a target that the sandbox doesn't stop stops by
// itself, within what a small machine can bear.
package main
