// Package darwin is the backend of macOS: sandboxes of the kernel's own sandbox, by /usr/bin/sandbox-exec.
//
//	Plan       policy + host facts → what is visible, the profile, the limits, the environment, and the ledger: plain data, made and
//	           tested on every system (plan.go, stage.go, tree.go, sweep.go)
//	Build      a directory of the run's own, the gateway where there are rules, a keeper; nobody runs yet (sandbox_darwin.go)
//	Start      sandbox-exec puts itself into the sandbox and executes this program again, which takes its rlimits, looks whether it is in a
//	           sandbox, says so, and executes the command (stage_darwin.go, start_darwin.go)
//	Close      everybody is killed, what came to be at protected paths and the run's directory are removed
//
// # Who is in a sandbox
//
// No process can leave the sandbox that it was started in, and the kernel tells of any process what its sandbox lets it do. So each run's
// profile allows one thing that no other does, the look-up of a service that isn't there, and whoever may do that and not
// the same under another name is of the run: whatever groups and sessions it made, and whoever its parent is now. The user's
// processes are looked through so for the sums of CPU time, memory and tasks, and at the end until nobody is left.
//
// # The keeper
//
// Is confine itself killed, nobody would look any more. So each sandbox has a process outside of it that waits for the end of a pipe from
// confine, and does the same: it kills who is left, and removes the run's directory.
//
// # What holds what
//
// The sandbox holds files, by canonical paths, sockets, services, and other processes. A limit on memory, tasks and CPU time
// is held by looking: what begins and ends between two looks isn't seen, but CPU time of a process that was seen before. Descriptors
// and the size of a file are rlimits.
//
// # What nothing holds
//
// System calls, the rate of CPU time, and which CPUs are used. Nothing can be shown in the place of something else: there are no overlays, no other
// root, no mounts, and private places are one directory that variables name.
package darwin
