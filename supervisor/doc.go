// Package supervisor is the outside of a run: it starts the child, keeps the
// clocks, moves the output, counts what is used, stops what has to be stopped,
// and says how it ended.
//
// # Theory of operation
//
// Three processes matter, and two descriptors between them:
//
//	caller ─── supervisor ══ socket ══ child, PID 1 inside ─── target ─── …
//	             │    ▲                                          │
//	             │    └────── pipes of ours, or a pty ───────────┘ 1, 2
//	             └─────────── pipe of ours (or the caller's own) ─▶ 0
//
// The supervisor has the caller's privileges and none more. It clones the child
// straight into new namespaces, where the child has the capabilities that it
// needs to build the sandbox, over nothing but these namespaces. The child
// drops them before the target starts; see package child.
//
// A box is what the child builds: namespaces, tree, network, cgroup, and what watches them. A job is a process in it, with
// streams, clocks and a report of its own. A run is a box with one job, which goes when that does; a Sandbox is one for
// many. One goroutine, the box's loop, owns the box and its jobs: timers, signals and callers have it call what they want done.
//
// Read box_linux.go for what stands, job_linux.go and stop_linux.go for a process in it, package internal/watch for what holds
// it to its limits, denials_linux.go for what is denied to it, and package outcome for how it ended. start_linux.go and
// listen_linux.go are the other end of the socket.
//
// # Order of death
//
//   - The only target of a run ends: the child, its init, tells, kills and reaps whatever is left,
//     reports, ends; the kernel would kill the namespace anyway. In a sandbox for many the others go on.
//   - A limit or the caller ends the run: SIGTERM to the target's group, after
//     the grace period SIGKILL, both by pidfd; the child then kills the rest, and
//     can still tell what all of it used. When the child doesn't answer either,
//     SIGKILL to the child by pidfd, and with it goes the namespace.
//   - The supervisor dies, by SIGKILL even: PDEATHSIG kills the child, and with
//     it the namespace. The signal is armed by the fork itself and again by the
//     child after every change of ids that clears it; in between, and for a
//     parent that died before, the end of the socket says the same.
//   - PDEATHSIG fires when the thread that forked ends, so one thread forks all children, and lives as long as the process:
//     one that does nothing else and has no goroutine (linux.BeginForkExec). The child that the first instruction of the process
//     has begun (linux.First) is the first thread's, which a Go program never ends either.
//
// # Causes
//
// Whoever ends a run writes down why before doing it, and the first cause wins:
// a target that exits 1 because of our SIGTERM at the time limit is a TIMEOUT.
// What the system call filter kills for, package denials has written down before.
// Only two causes have no other witness than the signal that the target died of:
// SIGXCPU, which counts as the CPU limit only when that much CPU was used, and,
// where denials can't be told, SIGSYS, which counts as the filter's only under a
// policy that kills; a target that sends itself SIGSYS there looks the same.
package supervisor
