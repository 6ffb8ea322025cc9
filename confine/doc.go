// Package confine runs commands under a policy, in the manner of package os/exec, and says honestly what was enforced.
//
//	func main() {
//		confine.Init() // first thing: the inside of a run is this same program, started again
//		cmd := confine.Command("python3", "-m", "pytest")
//		cmd.Policy, _ = confine.Profile("testing")
//		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
//		report, err := cmd.Run()
//		…
//	}
//
// A [Cmd] is one run. [Open] gives a [Sandbox] that holds any number of processes, one after another or at once. How
// something ended is in its [Report]: status and cause, what was used, what was refused, and for each capability of the
// policy by what it was held.
//
// Any number of runs and sandboxes may overlap in one program. Nothing of the program is changed for them: no signal is
// handled, no thread of the caller's is locked, and nothing of the environment or the current directory is remembered.
// A program that changes its user or its groups does so before its first run: what starts runs is a thread of its own, which
// keeps those that the program had then. Where a system has no backend yet, everything is refused, and nothing is run unconfined.
package confine
