// Package pool keeps sandboxes parked: built ahead, seen ready, used by one claim, and thrown away.
//
// A [Pool] is of one Spec. What is its sandboxes' own is built ahead; argv, environment, streams and limits of a process
// come at its start, so nothing of one claim is in the sandbox of another. A claim that finds none builds its own at
// once, and never waits for the builder. What there is at a time is bounded by places: those that are built, that run, that are ended, and the
// parked ones, which take half of them at most. A claim that finds no place waits in turn, and is refused when it has waited for too long.
//
// One builder works for all pools of the process. It gives way to claims, and so does the teardown of what was used.
// What the sandboxes are is planned anew every few seconds, and when a claim finds the plan older than that: parked ones that
// would be built otherwise now are thrown away, whether the policy or the host has changed.
//
// Begin with pool.go, what a claim does; keep.go is what goes on in the background, stats.go what is counted.
package pool
