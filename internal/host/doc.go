// Package host says what this host can do, found by trying.
//
// There are two ways to ask, for two kinds of caller:
//
//   - [Facts] reads a handful of files, each at most once and only when asked
//     for. It is what a run can afford.
//   - [RunDoctor] and [Has] try the operations themselves: one throw-away process
//     is cloned into new namespaces and works through a list of steps there, each
//     the smallest use of one mechanism. The doctor prints the answers, and the
//     conditions of the tests are decided by the same ones.
//
// An answer is yes, no, or unknown: the attempt itself broke. The three are never
// folded into two, because a test that is skipped on "could not tell" is a test
// that nobody runs.
//
// The throw-away process is this executable, started again with [ProbeWord]. A
// program that asks for probes calls [ProbeMain] first thing in main; so does the
// TestMain of a test.
//
// What is tried leaves nothing behind: mounts are made in a mount namespace
// that ends with the process, and cgroups are only asked for permission, never
// made. The answers hold for the process that asked: its user, its limits, its
// seccomp filters.
package host
