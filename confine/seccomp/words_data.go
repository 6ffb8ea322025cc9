package seccomp

// What an argument is, for words.
const (
	argNone        = '.'
	argText        = 's' // a string
	argOctal       = 'o' // a mode
	argFamily      = 'f'
	argType        = 't' // of a socket
	argProtocol    = 'p'
	argClone       = 'c' // flags, and a signal
	argUnshare     = 'u' // flags
	argIoctl       = 'i'
	argPtrace      = 'q'
	argPrctl       = 'r'
	argPersonality = 'n'
	argBPF         = 'b'
	argKeyctl      = 'k'
	argResource    = 'l'
)

// arguments of calls that are refused, as far as they say anything; total is how many
// the call takes.
var arguments = [...]struct {
	call, kinds string
	total       int
}{
	{"acct", "s", 1}, {"add_key", "s", 5}, {"bpf", "b", 3},
	{"chmod", "so", 2}, {"chroot", "s", 1}, {"clone", "c", 5}, {"creat", "so", 2},
	{"fchmod", ".o", 2}, {"fchmodat", ".so", 3}, {"fchmodat2", ".so", 4}, {"fsopen", "s", 2},
	{"ioctl", ".i", 3}, {"keyctl", "k", 5}, {"mknod", "so", 3}, {"mknodat", ".so", 4},
	{"mount", "sss", 5}, {"move_mount", ".s.s", 5}, {"open", "s.o", 3}, {"openat", ".s.o", 4}, {"open_tree", ".s", 3},
	{"personality", "n", 1}, {"pivot_root", "ss", 2}, {"prctl", "r", 5}, {"prlimit64", ".l", 4},
	{"ptrace", "q", 4}, {"request_key", "s", 4}, {"setns", ".u", 2}, {"socket", "ftp", 3}, {"socketpair", "ftp", 4},
	{"swapoff", "s", 1}, {"swapon", "s", 2}, {"umount2", "s", 2}, {"unshare", "u", 1},
}

// argumentsOf gives the kinds of a call's arguments, one letter each.
func argumentsOf(name string) string {
	for i := range arguments {
		if arguments[i].call == name {
			return arguments[i].kinds
		}
	}
	return ""
}

// taken is how many arguments a call of the table takes.
func taken(name string) int {
	for i := range arguments {
		if arguments[i].call == name {
			return arguments[i].total
		}
	}
	return 0
}

// argumentWords are the kernel's names, the same on both architectures.
var argumentWords = [...]struct {
	kind  byte
	value uint64
	name  string
}{
	{argFamily, 0, "AF_UNSPEC"}, {argFamily, 1, "AF_UNIX"}, {argFamily, 2, "AF_INET"}, {argFamily, 3, "AF_AX25"},
	{argFamily, 4, "AF_IPX"}, {argFamily, 5, "AF_APPLETALK"}, {argFamily, 9, "AF_X25"}, {argFamily, 10, "AF_INET6"},
	{argFamily, 15, "AF_KEY"}, {argFamily, 16, "AF_NETLINK"}, {argFamily, 17, "AF_PACKET"}, {argFamily, 21, "AF_RDS"},
	{argFamily, 24, "AF_PPPOX"}, {argFamily, 26, "AF_LLC"}, {argFamily, 27, "AF_IB"}, {argFamily, 29, "AF_CAN"},
	{argFamily, 30, "AF_TIPC"}, {argFamily, 31, "AF_BLUETOOTH"}, {argFamily, 33, "AF_RXRPC"}, {argFamily, 35, "AF_PHONET"},
	{argFamily, 36, "AF_IEEE802154"}, {argFamily, 37, "AF_CAIF"}, {argFamily, 38, "AF_ALG"}, {argFamily, 39, "AF_NFC"},
	{argFamily, 40, "AF_VSOCK"}, {argFamily, 41, "AF_KCM"}, {argFamily, 42, "AF_QIPCRTR"}, {argFamily, 43, "AF_SMC"},
	{argFamily, 44, "AF_XDP"}, {argFamily, 45, "AF_MCTP"},
	{argType, 1, "SOCK_STREAM"}, {argType, 2, "SOCK_DGRAM"}, {argType, 3, "SOCK_RAW"}, {argType, 4, "SOCK_RDM"},
	{argType, 5, "SOCK_SEQPACKET"}, {argType, 6, "SOCK_DCCP"}, {argType, 10, "SOCK_PACKET"},
	{argUnshare, 0x20000, "CLONE_NEWNS"}, {argUnshare, 0x2000000, "CLONE_NEWCGROUP"}, {argUnshare, 0x4000000, "CLONE_NEWUTS"},
	{argUnshare, 0x8000000, "CLONE_NEWIPC"}, {argUnshare, 0x10000000, "CLONE_NEWUSER"}, {argUnshare, 0x20000000, "CLONE_NEWPID"},
	{argUnshare, 0x40000000, "CLONE_NEWNET"}, {argUnshare, 0x80, "CLONE_NEWTIME"},
	{argIoctl, 0x5412, "TIOCSTI"}, {argIoctl, 0x541c, "TIOCLINUX"}, {argIoctl, 0x5423, "TIOCSETD"},
	{argPtrace, 0, "PTRACE_TRACEME"}, {argPtrace, 1, "PTRACE_PEEKTEXT"}, {argPtrace, 2, "PTRACE_PEEKDATA"},
	{argPtrace, 4, "PTRACE_POKETEXT"}, {argPtrace, 5, "PTRACE_POKEDATA"}, {argPtrace, 7, "PTRACE_CONT"},
	{argPtrace, 16, "PTRACE_ATTACH"}, {argPtrace, 17, "PTRACE_DETACH"}, {argPtrace, 0x4206, "PTRACE_SEIZE"},
	{argPrctl, 1, "PR_SET_PDEATHSIG"}, {argPrctl, 4, "PR_SET_DUMPABLE"}, {argPrctl, 15, "PR_SET_NAME"}, {argPrctl, 22, "PR_SET_SECCOMP"},
	{argPrctl, 35, "PR_SET_MM"}, {argPrctl, 38, "PR_SET_NO_NEW_PRIVS"}, {argPrctl, 0x59616d61, "PR_SET_PTRACER"},
	{argBPF, 0, "BPF_MAP_CREATE"}, {argBPF, 5, "BPF_PROG_LOAD"}, {argBPF, 8, "BPF_PROG_ATTACH"}, {argBPF, 18, "BPF_BTF_LOAD"},
	{argKeyctl, 0, "KEYCTL_GET_KEYRING_ID"}, {argKeyctl, 1, "KEYCTL_JOIN_SESSION_KEYRING"}, {argKeyctl, 6, "KEYCTL_DESCRIBE"},
	{argKeyctl, 8, "KEYCTL_LINK"}, {argKeyctl, 10, "KEYCTL_SEARCH"}, {argKeyctl, 11, "KEYCTL_READ"},
	{argResource, 0, "RLIMIT_CPU"}, {argResource, 1, "RLIMIT_FSIZE"}, {argResource, 2, "RLIMIT_DATA"}, {argResource, 3, "RLIMIT_STACK"},
	{argResource, 4, "RLIMIT_CORE"}, {argResource, 6, "RLIMIT_NPROC"}, {argResource, 7, "RLIMIT_NOFILE"},
	{argResource, 8, "RLIMIT_MEMLOCK"}, {argResource, 9, "RLIMIT_AS"},
}
