package seccomp

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

func errnoName(n uint16) string {
	for _, e := range errnos {
		if e.n == n {
			return e.name
		}
	}
	return "?"
}

func errnoNumber(name string) (uint16, bool) {
	for _, e := range errnos {
		if e.name == name {
			return e.n, true
		}
	}
	return 0, false
}

// constants are the words for arguments. Of a Mask set the words can be joined with "|".
var constants = [...]struct {
	call  string // the first of the calls that take it, for printing
	index uint8
	name  string
	value uint64
}{
	{"socket", 0, "AF_UNIX", 1}, {"socket", 0, "AF_INET", 2}, {"socket", 0, "AF_INET6", 10},
	{"socket", 0, "AF_NETLINK", 16}, {"socket", 0, "AF_PACKET", 17}, {"socket", 0, "AF_ALG", 38},
	{"socket", 0, "AF_VSOCK", 40},
	{"socket", 1, "SOCK_STREAM", 1}, {"socket", 1, "SOCK_DGRAM", 2}, {"socket", 1, "SOCK_RAW", 3},
	{"socket", 1, "SOCK_PACKET", 10},
	{"socket", 2, "IPPROTO_ICMP", 1}, {"socket", 2, "IPPROTO_TCP", 6}, {"socket", 2, "IPPROTO_UDP", 17},
	{"socket", 2, "IPPROTO_DCCP", 33}, {"socket", 2, "IPPROTO_ICMPV6", 58}, {"socket", 2, "IPPROTO_SCTP", 132},
	{"socket", 2, "IPPROTO_UDPLITE", 136}, {"socket", 2, "IPPROTO_SMC", 256}, {"socket", 2, "IPPROTO_MPTCP", 262},
	{"socketpair", 0, "AF_UNIX", 1},
	{"ioctl", 1, "TIOCSTI", 0x5412}, {"ioctl", 1, "TIOCLINUX", 0x541c}, {"ioctl", 1, "TIOCSETD", 0x5423},
	{"clone", 0, "CLONE_NEWNS", 0x20000}, {"clone", 0, "CLONE_NEWCGROUP", 0x2000000},
	{"clone", 0, "CLONE_NEWUTS", 0x4000000}, {"clone", 0, "CLONE_NEWIPC", 0x8000000},
	{"clone", 0, "CLONE_NEWUSER", 0x10000000}, {"clone", 0, "CLONE_NEWPID", 0x20000000},
	{"clone", 0, "CLONE_NEWNET", 0x40000000},
	{"unshare", 0, "CLONE_NEWTIME", 0x80}, {"unshare", 0, "CLONE_NEWNS", 0x20000},
	{"unshare", 0, "CLONE_NEWCGROUP", 0x2000000}, {"unshare", 0, "CLONE_NEWUTS", 0x4000000},
	{"unshare", 0, "CLONE_NEWIPC", 0x8000000}, {"unshare", 0, "CLONE_NEWUSER", 0x10000000},
	{"unshare", 0, "CLONE_NEWPID", 0x20000000}, {"unshare", 0, "CLONE_NEWNET", 0x40000000},
	{"personality", 0, "PER_LINUX", 0}, {"personality", 0, "PER_LINUX32", 8},
	{"personality", 0, "UNAME26", 0x20000}, {"personality", 0, "PER_QUERY", 0xffffffff},
	{"prctl", 0, "PR_SET_SECCOMP", 22},
}

// constant gives the value of "NAME" or "NAME|NAME".
func constant(name string) (uint64, bool) {
	for _, c := range constants {
		if c.name == name {
			return c.value, true
		}
	}
	return 0, false
}
