// Package child is the inside of a run: everything between "just cloned" and
// execve, and the init (PID 1) that stays until the target's end.
//
// The supervisor clones this binary, as __child, straight into new namespaces.
// The child reads its plan from descriptor 3, works through the list in
// steps_linux.go, forks the target, and then only waits: it reaps, reports how
// the target ended, and by ending takes the whole pid namespace with it. Signals
// for the target come from the supervisor itself, by pidfd.
//
// What guards it, since the target runs under the same uid next to it:
// it is not dumpable (so /proc/1 and ptrace are out of reach), every signal has its default action (which the kernel never
// lets a namespace's init suffer from inside), and its only descriptor is the
// socket to the supervisor.
//
// Below internal/ are root, which builds the file system and goes there, network, target, which is all
// between an order to start something and its execve, and fault, how a call failed.
//
// All of it but the waiting runs on one locked thread. It imports nothing that starts slowly
// (os, fmt, encoding/…): whoever embeds confine pays for every package's initialisation here.
package child
