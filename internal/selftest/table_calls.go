package selftest

import "github.com/confine-run/confine/status"

// privileges: there are none, and none are to be had.
func privileges() []attempt {
	both := walls(status.Privileges, status.Syscalls)
	one := func(name, tries, inside string) attempt {
		return attempt{name: name, invariant: 5, walls: both, tries: tries, inside: inside, rooted: ownView}
	}
	return []attempt{
		{name: "capabilities", invariant: 5, walls: walls(status.Privileges), tries: "has a capability", inside: "capable", rooted: ownView},
		{name: "no_new_privs", invariant: 5, walls: walls(status.Privileges), tries: "could gain privileges by execve", inside: "gains"},
		{name: "set_uid", invariant: 5, walls: walls(status.Privileges), tries: "executes a set-uid program", inside: "suid {suid}", policy: readOnly},
		one("mount", "mounts something", "call mount"),
		one("fsopen", "makes a file system (fsopen)", "call fsopen"),
		{name: "umount", invariant: 5, walls: both, tries: "unmounts what hides something", rooted: ownView,
			inside: "any call umount , call umount_tmp", outside: "each call mount , call umount_tmp"},
		one("remount", "makes a read-only mount writable", "remount /"),
		one("open_tree", "clones a mount (open_tree)", "call open_tree"),
		one("pivot_root", "changes the root mount", "call pivot_root"),
		one("chroot", "changes its root", "call chroot"),
		one("setns", "enters a namespace", "call setns"),
		one("sethostname", "sets the host name", "call sethostname"),
		{name: "unshare_user", invariant: 5, walls: both, tries: "makes a user namespace (unshare)", inside: "call unshare_user"},
		{name: "clone_user", invariant: 5, walls: both, tries: "makes a user namespace (clone)", inside: "call clone_user"},
		one("unshare_net", "makes a network namespace", "call unshare_net"),
		{name: "setuid", invariant: 5, walls: walls(status.Privileges), tries: "becomes another user (setuid)", inside: "call setuid"},
		{name: "kernel_module", invariant: 5, walls: both, tries: "loads a kernel module", inside: "call init_module"},
		{name: "kexec", invariant: 5, walls: both, tries: "loads another kernel", inside: "call kexec_load"},
	}
}

// calls: those that no policy lets in, and those that no built-in one does.
func calls() []attempt {
	filter := walls(status.Syscalls)
	one := func(name, tries, inside string) attempt {
		return attempt{name: name, invariant: 6, walls: filter, tries: tries, inside: inside}
	}
	root := func(name, tries, inside string) attempt {
		a := one(name, tries, inside)
		a.rooted, a.walls = ownNet, walls(status.Syscalls, status.Privileges)
		return a
	}
	return []attempt{
		one("int80", "makes a 32-bit system call (int 0x80)", "call int80"),
		one("x32", "makes a system call of x32", "call x32"),
		one("io_uring", "makes a ring whose requests no filter sees", "call io_uring_setup"),
		one("bpf", "loads a program into the kernel", "call bpf"),
		one("perf_event", "counts events of the kernel's (perf_event_open)", "call perf_event_open"),
		one("userfaultfd", "stops the kernel at its own page faults", "call userfaultfd"),
		one("add_key", "puts a key into a keyring", "call add_key"),
		one("keyctl", "uses a keyring", "call keyctl"),
		one("vsock", "opens a socket to the hypervisor", "socket vsock"),
		one("alg", "opens a socket of the kernel's cryptography", "socket alg"),
		one("vmsplice", "keeps pages in a pipe, which no process has mapped any more", "call vmsplice"),
		one("zerocopy", "keeps pages in a socket (SO_ZEROCOPY)", "call zerocopy"),
		one("memfd_secret", "makes memory that nobody else can read", "call memfd_secret"),
		one("settimeofday", "sets the clock", "call settimeofday"),
		one("modify_ldt", "changes its table of segments", "call modify_ldt"),
		one("syslog", "reads what the kernel has logged", "call syslog"),
		{name: "acct", invariant: 6, walls: walls(status.Syscalls, status.Privileges), tries: "writes an account of all processes (acct)", inside: "call acct"},
		root("packet", "opens a packet socket", "socket packet"),
		root("raw", "opens a raw socket", "socket raw"),
	}
}

// reports: what confine says can't be forged.
func reports() []attempt {
	return []attempt{
		{name: "report", invariant: 8, walls: walls(status.Filesystem), tries: "writes to the report, by its descriptor and by its path",
			inside:  "any writefd {fd} , writefd 3 , writefd 4 , write {dir}/report.json",
			outside: "each writefd {fd} , write {dir}/report.json", policy: readOnly, traces: true},
		{name: "escape_lines", invariant: 8, tries: "has confine print control characters to the caller's terminal",
			inside: "say {escape}", special: (*driver).escaped},
	}
}
