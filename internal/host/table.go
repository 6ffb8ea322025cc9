package host

// where a probe is tried.
type place uint8

const (
	inside place = iota // in the throw-away process, in new namespaces
	plain               // in a throw-away process, whatever became of the namespaces
	here                // in this process: nothing is changed by trying
)

// entry is one probe: what it is called in the doctor's list and in the
// conditions of tests, and what has to work before it can be tried at all.
type entry struct {
	name      string
	means     string
	place     place
	needed    bool   // by the profile "default", in full
	needs     string // the probes that come first, between blanks
	minKernel Kernel // for the message only: the kernel itself is asked
}

// table is all probes that have a fixed name, in the order in which they are
// printed. Controllers of cgroups come on top.
var table = []entry{
	{name: "proc", place: here, needed: true,
		means: "/proc is mounted and shows this process: confine starts itself again through it"},

	// The namespaces, in the order in which one leads to the next.
	{name: "userns", place: inside, needed: true, needs: "proc",
		means: "a user namespace: everything else is done with its capabilities"},
	{name: "uid_map", place: inside, needed: true, needs: "userns",
		means: "users and groups exist inside"},
	{name: "mountns", place: inside, needed: true, needs: "uid_map",
		means: "an own view of the file system"},
	{name: "pidns", place: inside, needed: true, needs: "uid_map",
		means: "nothing that was started outlives the run"},
	{name: "netns", place: inside, needed: true, needs: "uid_map",
		means: "no network but an own loopback"},
	{name: "ipcns", place: inside, needed: true, needs: "uid_map",
		means: "no shared memory or queues with others"},
	{name: "utsns", place: inside, needed: true, needs: "uid_map",
		means: "an own host name"},
	{name: "cgroupns", place: inside, needs: "uid_map",
		means: "the caller's place among the cgroups is not shown"},

	// What the root file system is built with.
	{name: "tmpfs", place: inside, needed: true, needs: "mountns",
		means: "private writable places, of a limited size", minKernel: Kernel{5, 2}},
	{name: "tmpfs_xattr", place: inside, needs: "tmpfs",
		means: "directories can be removed in an overlay", minKernel: Kernel{6, 6}},
	{name: "open_tree", place: inside, needed: true, needs: "tmpfs",
		means: "trees are shown by descriptor, so that nothing can be swapped in", minKernel: Kernel{5, 2}},
	{name: "mount_setattr", place: inside, needs: "open_tree",
		means: "read-only holds for a whole tree at once; otherwise mount by mount", minKernel: Kernel{5, 12}},
	{name: "proc_mount", place: inside, needs: "pidns tmpfs",
		means: "an own /proc; otherwise the caller's is shown, read-only"},
	{name: "devpts", place: inside, needed: true, needs: "tmpfs",
		means: "own terminals"},
	{name: "overlay", place: inside, needs: "tmpfs",
		means: "writes to a tree are kept apart; otherwise the tree is read-only", minKernel: Kernel{5, 11}},
	{name: "pivot_root", place: inside, needed: true, needs: "tmpfs",
		means: "the caller's file system is out of reach"},

	// What else is held inside.
	{name: "lo_up", place: inside, needed: true, needs: "netns",
		means: "servers and clients inside reach each other"},
	{name: "nft_tproxy", place: inside, needs: "lo_up", minKernel: Kernel{4, 19},
		means: "every flow to a name or address that is allowed goes through the gateway; otherwise those to named ports"},
	{name: "pid_max_ns", place: inside, needs: "proc_mount",
		means: "the kernel bounds process ids per namespace", minKernel: Kernel{6, 14}},
	{name: "rlimit_nproc_userns", place: inside, needs: "uid_map",
		means: "the kernel holds the task limit; otherwise a watchdog does", minKernel: Kernel{5, 14}},

	{name: "no_new_privs", place: plain, needed: true, needs: "proc",
		means: "set-uid programs give nothing"},
	{name: "seccomp", place: plain, needed: true, needs: "no_new_privs",
		means: "system calls are filtered"},
	{name: "seccomp_log", place: here, minKernel: Kernel{4, 14},
		means: "--seccomp-action log"},
	{name: "seccomp_user_notif", place: here, minKernel: Kernel{5, 0},
		means: "denied calls can be reported as they happen"},
	{name: "landlock", place: here, minKernel: Kernel{5, 13},
		means: "file access can be bounded without a namespace"},

	{name: "pidfd", place: here, minKernel: Kernel{5, 3},
		means: "processes are signalled without a race"},
	{name: "close_range", place: here, minKernel: Kernel{5, 9},
		means: "inherited descriptors are closed in one call; otherwise one by one"},
	{name: "openat2", place: here, needed: true, minKernel: Kernel{5, 6},
		means: "paths are resolved without following links"},
	{name: "sched_setaffinity", place: here,
		means: "--cpus"},
	{name: "unix_diag", place: here, minKernel: Kernel{3, 3},
		means: "unix sockets in trees that are shown are found by whatever name; otherwise by the one that they were bound to"},
	{name: "smaps_rollup", place: here, minKernel: Kernel{4, 14},
		means: "the memory watchdog counts shared pages once"},
}

func find(name string) (entry, bool) {
	for _, e := range table {
		if e.name == name {
			return e, true
		}
	}
	return entry{}, false
}

func (e entry) result(a Answer, detail string) Result {
	return Result{Name: e.name, Means: e.means, Needed: e.needed, Answer: a, Detail: detail, minKernel: e.minKernel}
}
