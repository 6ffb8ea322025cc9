// Package cgroup is the control group of one run: made, limited, joined, read,
// killed, removed.
//
// Only the target and what descends from it live in it. The sandbox's init and
// the supervisor stay outside, so that neither is throttled or killed for what
// the target does.
//
// # Where it comes from
//
// Make tries these in turn, and its error says why each gives none:
//
//	cgroup_parent          the directory that the user named, and nothing else then
//	systemd_user_scope     a scope of the user's own manager, asked for over D-Bus,
//	systemd_system_scope   or as root one of the system's, with Delegate=yes
//	writable_parent        the directory that this process is in, in v2
//	cgroup_v1              the same in each hierarchy of v1
//
// In v2 a directory has one writer. Where systemd runs, that is systemd, but for
// what it has delegated. A directory of v2 that hands down controllers can also
// have no processes: a run's cgroup is made in the own directory only when nobody
// is in there but this process and its children, which are moved to a leaf beside
// it and moved back in the end. Nobody else's process is ever moved.
//
//	own directory                          scope of systemd's
//	├── confine-PID-…-self  supervisor     ├── init   the sandbox's init
//	└── confine-PID-…       target         └── run    target
//
// # What it holds
//
// A limit holds when the kernel took it; Holds says so, or why not. Memory is limited together with swap.
// Some limits are weaker in v1: an OOM kill ends one process there and not the group, nothing tells that a
// group is empty, and the kill is a loop while forks are refused (pids.max). v1 also knows nothing of input
// and output, or of pressure, in the hierarchies that are used.
//
// # What it leaves
//
// Nothing: Remove kills, waits, removes. After SIGKILL to the supervisor nobody
// does, and the directories stay, with whatever did not die by itself. Their names
// say who made them, and in which namespaces, and a flock that goes with its process says
// that they are in use; a later Make in the same place, the next one where no more than
// 16 directories are, removes those whose owner is certainly dead. In v1 the flock is in the first hierarchy,
// that of memory. A scope goes by itself.
//
// # What it needs
//
// Linux 5.10. Known by what is there, not by the version: cgroup.kill (5.14; before,
// cgroup.freeze and signals), memory.peak (5.19), pids.peak (6.1).
//
// # Reading order
//
// cgroup.go has the words: options, counts, errors. site.go chooses where to try, make_linux.go
// tries, by v2_linux.go or systemd_linux.go. controllers_linux.go has the files of each
// controller, group_linux.go what is done with a cgroup, oom_linux.go who is told of an OOM kill, kill_linux.go
// and remove_linux.go its end.
package cgroup
