// Package remains takes away what a run left where it may not be, when nothing of the run is left: at protected paths
// that were not there before or were replaced meanwhile (absent_linux.go), and behind what git's indexes and directories
// name since (git_linux.go). Programs of the caller's would run it, or write through it. What can't be removed gets a name that nobody looks for.
package remains
