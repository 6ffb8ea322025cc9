// Package target starts processes in a sandbox that is built: from what the supervisor asks for to execve.
//
// calls in target_linux.go is the list of all that happens between fork and a target's first instruction,
// with the system call filter last but one (filter_linux.go). What counts as the target's although it is
// a thread of this init is in tasks_linux.go.
package target
