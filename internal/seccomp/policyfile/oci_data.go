package policyfile

import "github.com/confine-run/confine/internal/seccomp"

type ociAction struct {
	name string
	does seccomp.Do
	// whole: it ends the process as libseccomp does. SCMP_ACT_KILL ends a thread there.
	whole bool
	cant  string
}

// ociActions are the actions of Docker's and OCI's profiles, and what is said about
// those that there is nothing for.
var ociActions = [...]ociAction{
	{name: "SCMP_ACT_ALLOW", does: seccomp.Allow, whole: true},
	{name: "SCMP_ACT_ERRNO", does: seccomp.Errno, whole: true},
	{name: "SCMP_ACT_KILL", does: seccomp.Kill},
	{name: "SCMP_ACT_KILL_THREAD", does: seccomp.Kill},
	{name: "SCMP_ACT_KILL_PROCESS", does: seccomp.Kill, whole: true},
	{name: "SCMP_ACT_LOG", does: seccomp.Log, whole: true},
	{name: "SCMP_ACT_TRAP", cant: "it hands the call to a signal handler of the program's; SCMP_ACT_ERRNO refuses it, SCMP_ACT_KILL_PROCESS ends the program"},
	{name: "SCMP_ACT_TRACE", cant: "it needs a tracer, and confine is none; SCMP_ACT_ERRNO refuses the call"},
	{name: "SCMP_ACT_NOTIFY", cant: "it needs an agent that decides, and confine asks none; SCMP_ACT_ERRNO refuses the call, and the report names it"},
}

type ociOp struct {
	name string
	op   seccomp.Op
}

// ociOps are the comparisons. MASKED_EQ is none of ours by itself.
var ociOps = [...]ociOp{
	{"SCMP_CMP_NE", seccomp.Ne}, {"SCMP_CMP_LT", seccomp.Lt}, {"SCMP_CMP_LE", seccomp.Le}, {"SCMP_CMP_EQ", seccomp.Eq}, {"SCMP_CMP_GE", seccomp.Ge},
	{"SCMP_CMP_GT", seccomp.Gt}, {maskedEq, seccomp.Eq},
}

const maskedEq = "SCMP_CMP_MASKED_EQ"

type ociArch struct{ name, goarch string }

// ociArches are libseccomp's architectures.
var ociArches = [...]ociArch{
	{"SCMP_ARCH_X86_64", "amd64"}, {"SCMP_ARCH_AARCH64", "arm64"}, {"SCMP_ARCH_X86", ""}, {"SCMP_ARCH_X32", ""},
	{"SCMP_ARCH_ARM", ""}, {"SCMP_ARCH_MIPS", ""}, {"SCMP_ARCH_MIPS64", ""}, {"SCMP_ARCH_MIPS64N32", ""},
	{"SCMP_ARCH_MIPSEL", ""}, {"SCMP_ARCH_MIPSEL64", ""}, {"SCMP_ARCH_MIPSEL64N32", ""}, {"SCMP_ARCH_PPC", ""},
	{"SCMP_ARCH_PPC64", ""}, {"SCMP_ARCH_PPC64LE", ""}, {"SCMP_ARCH_RISCV64", ""}, {"SCMP_ARCH_S390", ""},
	{"SCMP_ARCH_S390X", ""}, {"SCMP_ARCH_PARISC", ""}, {"SCMP_ARCH_PARISC64", ""}, {"SCMP_ARCH_LOONGARCH64", ""},
	{"SCMP_ARCH_M68K", ""}, {"SCMP_ARCH_SH", ""}, {"SCMP_ARCH_SHEB", ""},
}

// filterArches are the words of includes.arches and excludes.arches.
var filterArches = [...]string{
	"amd64", "arm64", "x86", "x32", "arm", "loongarch64", "loong64", "mips", "mips64", "mips64n32", "mipsel", "mipsel64",
	"mips3l64n32", "ppc", "ppc64", "ppc64le", "riscv64", "s390", "s390x",
}

type ociFlag struct{ name, cant string }

// ociFlags are those of seccomp(2).
var ociFlags = [...]ociFlag{
	{"SECCOMP_FILTER_FLAG_TSYNC", ""}, // there is one thread when the filter is loaded
	{"SECCOMP_FILTER_FLAG_LOG", "refused calls are named in the report and not in the kernel's log"},
	{"SECCOMP_FILTER_FLAG_SPEC_ALLOW", "it would switch the mitigation of speculative store bypass off"},
	{"SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV", "it says something about SCMP_ACT_NOTIFY, which there is not"},
}

// foreignCalls are calls that exist on other architectures only. Profiles for all
// architectures name them, and they mean nothing here.
const foreignCalls = " _llseek _newselect arm_fadvise64_64 arm_sync_file_range atomic_barrier atomic_cmpxchg_32 bdflush break" +
	" breakpoint cachectl cacheflush chown32 clock_adjtime64 clock_getres_time64 clock_gettime64 clock_nanosleep_time64" +
	" clock_settime64 fadvise64_64 fchown32 fcntl64 fstat64 fstatat64 fstatfs64 ftime ftruncate64 futex_time64 get_tls" +
	" getegid32 geteuid32 getgid32 getgroups32 getpagesize getresgid32 getresuid32 getuid32 gtty idle io_pgetevents_time64" +
	" ipc lchown32 lock lstat64 mmap2 mpx mq_timedreceive_time64 mq_timedsend_time64 multiplexer nice oldfstat" +
	" oldlstat oldolduname oldstat olduname pciconfig_iobase pciconfig_read pciconfig_write ppoll_time64 prof profil" +
	" pselect6_time64 readdir recv recvmmsg_time64 riscv_flush_icache riscv_hwprobe rt_sigtimedwait_time64 rtas" +
	" s390_guarded_storage s390_pci_mmio_read s390_pci_mmio_write s390_runtime_instr s390_sthyi sched_rr_get_interval_time64" +
	" semtimedop_time64 send sendfile64 set_tls setfsgid32 setfsuid32 setgid32 setgroups32 setregid32 setresgid32" +
	" setresuid32 setreuid32 setuid32 sgetmask sigaction signal sigpending sigprocmask sigreturn sigsuspend socketcall" +
	" spu_create spu_run ssetmask stat64 statfs64 stime stty subpage_prot swapcontext switch_endian sync_file_range2" +
	" sys_debug_setcontext sysmips timer_gettime64 timer_settime64 timerfd timerfd_gettime64" +
	" timerfd_settime64 truncate64 ugetrlimit ulimit umount usr26 usr32 utimensat_time64 vm86 vm86old waitpid "
