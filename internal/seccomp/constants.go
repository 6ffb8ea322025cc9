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

// arguments of calls that are refused, as far as they say anything, a kind each; total is how
// many the call takes.
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

type constant struct {
	kind  byte
	value uint64
	name  string
}

// constants are the kernel's names for values of arguments, the same on both architectures.
var constants = [...]constant{
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
	{argProtocol, 1, "IPPROTO_ICMP"}, {argProtocol, 6, "IPPROTO_TCP"}, {argProtocol, 17, "IPPROTO_UDP"}, {argProtocol, 33, "IPPROTO_DCCP"},
	{argProtocol, 58, "IPPROTO_ICMPV6"}, {argProtocol, 132, "IPPROTO_SCTP"}, {argProtocol, 136, "IPPROTO_UDPLITE"}, {argProtocol, 256, "IPPROTO_SMC"},
	{argProtocol, 262, "IPPROTO_MPTCP"},
	{argPersonality, 0, "PER_LINUX"}, {argPersonality, 8, "PER_LINUX32"}, {argPersonality, 0x20000, "UNAME26"}, {argPersonality, 0x40000, "ADDR_NO_RANDOMIZE"}, {argPersonality, 0xffffffff, "PER_QUERY"},
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

// errnos are the numbers that a rule can answer with, the same on both
// architectures: all that Linux has. With 0 the call is left out and seems to have succeeded.
var errnos = [...]struct {
	name string
	n    uint16
}{
	{"0", 0}, {"EPERM", eperm}, {"ENOENT", 2}, {"ESRCH", 3}, {"EINTR", 4}, {"EIO", 5}, {"ENXIO", 6}, {"E2BIG", 7},
	{"ENOEXEC", 8}, {"EBADF", 9}, {"ECHILD", 10}, {"EAGAIN", 11}, {"ENOMEM", 12}, {"EACCES", 13}, {"EFAULT", 14},
	{"ENOTBLK", 15}, {"EBUSY", 16}, {"EEXIST", 17}, {"EXDEV", 18}, {"ENODEV", 19}, {"ENOTDIR", 20},
	{"EISDIR", 21}, {"EINVAL", 22}, {"ENFILE", 23}, {"EMFILE", 24}, {"ENOTTY", 25}, {"ETXTBSY", 26},
	{"EFBIG", 27}, {"ENOSPC", 28}, {"ESPIPE", 29}, {"EROFS", 30}, {"EMLINK", 31}, {"EPIPE", 32}, {"EDOM", 33},
	{"ERANGE", 34}, {"EDEADLK", 35}, {"ENAMETOOLONG", 36}, {"ENOLCK", 37}, {"ENOSYS", enosys}, {"ENOTEMPTY", 39},
	{"ELOOP", 40}, {"ENOMSG", 42}, {"EIDRM", 43}, {"ECHRNG", 44}, {"EL2NSYNC", 45}, {"EL3HLT", 46},
	{"EL3RST", 47}, {"ELNRNG", 48}, {"EUNATCH", 49}, {"ENOCSI", 50}, {"EL2HLT", 51}, {"EBADE", 52}, {"EBADR", 53},
	{"EXFULL", 54}, {"ENOANO", 55}, {"EBADRQC", 56}, {"EBADSLT", 57}, {"EBFONT", 59}, {"ENOSTR", 60},
	{"ENODATA", 61}, {"ETIME", 62}, {"ENOSR", 63}, {"ENONET", 64}, {"ENOPKG", 65}, {"EREMOTE", 66},
	{"ENOLINK", 67}, {"EADV", 68}, {"ESRMNT", 69}, {"ECOMM", 70}, {"EPROTO", 71}, {"EMULTIHOP", 72},
	{"EDOTDOT", 73}, {"EBADMSG", 74}, {"EOVERFLOW", 75}, {"ENOTUNIQ", 76}, {"EBADFD", 77}, {"EREMCHG", 78},
	{"ELIBACC", 79}, {"ELIBBAD", 80}, {"ELIBSCN", 81}, {"ELIBMAX", 82}, {"ELIBEXEC", 83}, {"EILSEQ", 84},
	{"ERESTART", 85}, {"ESTRPIPE", 86}, {"EUSERS", 87}, {"ENOTSOCK", 88}, {"EDESTADDRREQ", 89}, {"EMSGSIZE", 90},
	{"EPROTOTYPE", 91}, {"ENOPROTOOPT", 92}, {"EPROTONOSUPPORT", 93}, {"ESOCKTNOSUPPORT", 94}, {"EOPNOTSUPP", 95},
	{"EPFNOSUPPORT", 96}, {"EAFNOSUPPORT", 97}, {"EADDRINUSE", 98}, {"EADDRNOTAVAIL", 99}, {"ENETDOWN", 100},
	{"ENETUNREACH", 101}, {"ENETRESET", 102}, {"ECONNABORTED", 103}, {"ECONNRESET", 104}, {"ENOBUFS", 105},
	{"EISCONN", 106}, {"ENOTCONN", 107}, {"ESHUTDOWN", 108}, {"ETOOMANYREFS", 109}, {"ETIMEDOUT", 110},
	{"ECONNREFUSED", 111}, {"EHOSTDOWN", 112}, {"EHOSTUNREACH", 113}, {"EALREADY", 114}, {"EINPROGRESS", 115},
	{"ESTALE", 116}, {"EUCLEAN", 117}, {"ENOTNAM", 118}, {"ENAVAIL", 119}, {"EISNAM", 120}, {"EREMOTEIO", 121},
	{"EDQUOT", 122}, {"ENOMEDIUM", 123}, {"EMEDIUMTYPE", 124}, {"ECANCELED", 125}, {"ENOKEY", 126},
	{"EKEYEXPIRED", 127}, {"EKEYREVOKED", 128}, {"EKEYREJECTED", 129}, {"EOWNERDEAD", 130},
	{"ENOTRECOVERABLE", 131}, {"ERFKILL", 132}, {"EHWPOISON", 133},
}

const (
	eperm  = 1
	enosys = 38
)
