package inspect

// attempt is a call with arguments, and why it is looked at.
type attempt struct {
	call string
	args [6]uint64
	why  string
}

const (
	cloneThread = 0x3d0f00  // what pthread_create of glibc and musl asks for
	cloneChild  = 0x1200011 // fork
	upper       = 1 << 32   // a bit of the half that the kernel ignores in an int
)

// needed are calls that ordinary programs can't do without, or get along without
// only badly. One that is answered with ENOSYS counts as there: C libraries fall
// back on an older call, which is in the list, too.
var needed = [...]attempt{
	{"execve", [6]uint64{}, "no program starts"},
	{"exit_group", [6]uint64{}, "no program ends by itself"},
	{"exit", [6]uint64{}, "no thread ends by itself"},
	{"brk", [6]uint64{}, "loaders and malloc get memory with it"},
	{"mmap", [6]uint64{}, "loaders and malloc get memory with it"},
	{"munmap", [6]uint64{}, "memory is given back with it"},
	{"mprotect", [6]uint64{}, "loaders protect what they have relocated"},
	{"mremap", [6]uint64{}, "realloc grows large blocks with it"},
	{"madvise", [6]uint64{}, "allocators and the run-times of Go, Java and JavaScript use it"},
	{"read", [6]uint64{}, "nothing can be read"},
	{"write", [6]uint64{}, "nothing can be written"},
	{"readv", [6]uint64{}, "musl's stdio reads with it"},
	{"writev", [6]uint64{}, "musl's stdio writes with it"},
	{"pread64", [6]uint64{}, "loaders and databases read with it"},
	{"openat", [6]uint64{}, "no file can be opened, shared libraries neither"},
	{"close", [6]uint64{}, "nothing can be closed"},
	{"lseek", [6]uint64{}, "stdio seeks with it"},
	{"fstat", [6]uint64{}, "loaders and stdio ask for a file's size"},
	{"newfstatat", [6]uint64{}, "stat of glibc and musl"},
	{"getdents64", [6]uint64{}, "no directory can be listed"},
	{"getcwd", [6]uint64{}, "the current directory is not known"},
	{"readlinkat", [6]uint64{}, "links can't be read"},
	{"faccessat", [6]uint64{}, "whether a file is there can't be asked"},
	{"unlinkat", [6]uint64{}, "no file can be removed"},
	{"mkdirat", [6]uint64{}, "no directory can be made"},
	{"renameat", [6]uint64{}, "no file can be replaced at one stroke"},
	{"fcntl", [6]uint64{}, "descriptors can't be marked"},
	{"dup", [6]uint64{}, "shells redirect with it"},
	{"dup3", [6]uint64{}, "shells redirect with it"},
	{"pipe2", [6]uint64{}, "there are no pipes"},
	{"ioctl", [6]uint64{1, 0x5401}, "whether a descriptor is a terminal can't be asked (TCGETS)"},
	{"rt_sigaction", [6]uint64{}, "no signal can be handled"},
	{"rt_sigprocmask", [6]uint64{}, "no signal can be held back"},
	{"rt_sigreturn", [6]uint64{}, "no signal handler returns"},
	{"sigaltstack", [6]uint64{}, "the run-times of Go, Java and Rust need it at their start"},
	{"kill", [6]uint64{}, "no child can be stopped"},
	{"tgkill", [6]uint64{}, "abort and Go's scheduler signal threads"},
	{"clone", [6]uint64{cloneChild}, "no child can be started"},
	{"clone", [6]uint64{cloneThread}, "no thread can be started"},
	{"wait4", [6]uint64{}, "no child can be waited for"},
	{"getpid", [6]uint64{}, "a program doesn't know its number"},
	{"getppid", [6]uint64{}, "shells ask for it when they start"},
	{"gettid", [6]uint64{}, "threads don't know their number"},
	{"getuid", [6]uint64{}, "shells ask for it when they start"},
	{"geteuid", [6]uint64{}, "shells ask for it when they start"},
	{"getgid", [6]uint64{}, "shells ask for it when they start"},
	{"futex", [6]uint64{}, "threads can't wait for each other"},
	{"set_tid_address", [6]uint64{}, "C libraries call it when a program starts"},
	{"set_robust_list", [6]uint64{}, "glibc calls it when a thread starts"},
	{"rseq", [6]uint64{}, "glibc calls it when a thread starts"},
	{"arch_prctl", [6]uint64{0x1002}, "C libraries set thread-local storage with it (ARCH_SET_FS)"},
	{"prctl", [6]uint64{15}, "threads are named with it (PR_SET_NAME)"},
	{"prlimit64", [6]uint64{}, "the size of stacks is asked for with it"},
	{"sched_yield", [6]uint64{}, "spinning threads give way with it"},
	{"sched_getaffinity", [6]uint64{}, "run-times count the cores with it"},
	{"getrandom", [6]uint64{}, "hash tables are seeded with it"},
	{"clock_gettime", [6]uint64{}, "the time, where the vDSO has none"},
	{"clock_nanosleep", [6]uint64{}, "sleep"},
	{"nanosleep", [6]uint64{}, "sleep of older programs and of Go"},
	{"uname", [6]uint64{}, "loaders look at the kernel's version"},
	{"ppoll", [6]uint64{}, "event loops wait with it"},
	{"pselect6", [6]uint64{}, "event loops wait with it"},
	{"epoll_create1", [6]uint64{}, "event loops of Go, Node.js and Python"},
	{"epoll_ctl", [6]uint64{}, "event loops of Go, Node.js and Python"},
	{"epoll_pwait", [6]uint64{}, "event loops of Go, Node.js and Python"},
	{"eventfd2", [6]uint64{}, "event loops of Go, Node.js and Python"},
	{"socket", [6]uint64{1, 1}, "programs on one host talk over AF_UNIX"},
	{"socketpair", [6]uint64{1, 1}, "Node.js and Python start children with it"},
}

// dangerous are calls that no policy that ships lets through, whatever else is
// allowed.
var dangerous = [...]attempt{
	{"io_uring_setup", [6]uint64{}, "its operations go past the filter"},
	{"io_uring_enter", [6]uint64{}, "its operations go past the filter"},
	{"io_uring_register", [6]uint64{}, "its operations go past the filter"},
	{"socket", [6]uint64{40, 1}, "AF_VSOCK reaches the hypervisor from any network namespace"},
	{"socket", [6]uint64{40 | upper, 1}, "AF_VSOCK, written with a bit that the kernel ignores and the filter compares"},
	{"socket", [6]uint64{38, 5}, "AF_ALG is a large part of the kernel that hardly anybody needs"},
	{"socket", [6]uint64{38 | upper, 5}, "AF_ALG, written with a bit that the kernel ignores and the filter compares"},
	{"socket", [6]uint64{17, 3}, "AF_PACKET sees all packets, with CAP_NET_RAW"},
	{"socket", [6]uint64{17 | upper, 3}, "AF_PACKET, written with a bit that the kernel ignores and the filter compares"},
	{"bpf", [6]uint64{}, "programs in the kernel"},
	{"perf_event_open", [6]uint64{}, "a large part of the kernel, and measures other processes"},
	{"userfaultfd", [6]uint64{}, "stops the kernel in the middle of a copy, and makes races easy to win"},
	{"add_key", [6]uint64{}, "keyrings are shared by all containers of a user"},
	{"request_key", [6]uint64{}, "keyrings are shared by all containers of a user"},
	{"keyctl", [6]uint64{}, "keyrings are shared by all containers of a user"},
	{"ioctl", [6]uint64{0, 0x5412}, "TIOCSTI types into the caller's terminal"},
	{"ioctl", [6]uint64{0, 0x5412 | upper}, "TIOCSTI, written with a bit that the kernel ignores and the filter compares"},
	{"ioctl", [6]uint64{0, 0x541c}, "TIOCLINUX pastes into the caller's console"},
	{"ioctl", [6]uint64{0, 0x541c | upper}, "TIOCLINUX, written with a bit that the kernel ignores and the filter compares"},
}

// worthKnowing are calls that a policy that ships does let through, for a reason, and
// whoever writes one should have thought of.
var worthKnowing = [...]attempt{
	{"ptrace", [6]uint64{16}, "debuggers; it reaches the processes of the own pid namespace"},
	{"process_vm_writev", [6]uint64{}, "debuggers; it writes to processes of the own pid namespace"},
	{"process_vm_readv", [6]uint64{}, "debuggers; it reads processes of the own pid namespace"},
}

// namespaces are let through by no policy that ships either. Inside, the user namespace
// is what gives an attacker the rest of the kernel.
var namespaces = [...]attempt{
	{"clone", [6]uint64{0x10000011}, "a user namespace has all capabilities over itself, and the kernel behind them"},
	{"unshare", [6]uint64{0x10000000}, "a user namespace has all capabilities over itself, and the kernel behind them"},
	{"clone3", [6]uint64{}, "its flags are in memory, where no filter sees CLONE_NEWUSER; ENOSYS makes programs use clone"},
}
