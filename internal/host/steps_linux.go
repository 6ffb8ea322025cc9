package host

import (
	"os"
	"runtime"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/linux"
	"github.com/confine-run/confine/internal/netns"
)

// inProbe is what one step leaves for a later one, or for its answer.
type inProbe struct {
	root    int // the private tmpfs
	proc    int // the fresh proc
	version int // of what has one
}

// failed is a step that the kernel refused.
type failed struct {
	op    string
	errno unix.Errno
}

func (f *failed) Error() string { return f.op + ": " + f.errno.Error() }

func refuse(op string, err error) error {
	if err == nil {
		return nil
	}
	errno, ok := err.(unix.Errno)
	if !ok {
		errno = unix.EIO
	}
	return &failed{op, errno}
}

// unsaid stands for the errno of a refusal that is ours and not the kernel's
// (it is the largest errno that a call can give, and none is called that).
const unsaid = unix.Errno(4095)

// steps are how each probe is tried, in this order. Where, and after what, is in the table; one
// that fails doesn't end the list. Of namespaces that aren't here no more is asked than that the
// clone makes them, and uid_map is written from outside.
var steps = [...]struct {
	name string
	do   func(*inProbe) error
}{
	// In this process, in which nothing is changed.
	{"proc", (*inProbe).procSelf},
	{"seccomp_log", func(*inProbe) error { return seccompAction("SECCOMP_RET_LOG", unix.SECCOMP_RET_LOG) }},
	{"seccomp_user_notif", func(*inProbe) error { return seccompAction("SECCOMP_RET_USER_NOTIF", unix.SECCOMP_RET_USER_NOTIF) }},
	{"landlock", (*inProbe).landlock},
	{"pidfd", (*inProbe).pidfd},
	{"close_range", (*inProbe).closeRange},
	{"openat2", (*inProbe).openat2},
	{"sched_setaffinity", (*inProbe).setAffinity},
	{"unix_diag", (*inProbe).unixDiag},
	{"smaps_rollup", (*inProbe).smapsRollup},

	// In new namespaces, with every capability over them. Before any mount: what is mounted here
	// must not appear outside.
	{"mountns", (*inProbe).mountns},
	{"pidns", (*inProbe).pidns},
	{"utsns", (*inProbe).utsns},
	{"lo_up", (*inProbe).loUp},
	{"nft_tproxy", (*inProbe).tproxy},
	// The tmpfs is where the others are mounted.
	{"tmpfs", (*inProbe).tmpfs},
	{"tmpfs_xattr", (*inProbe).tmpfsXattr},
	{"open_tree", (*inProbe).openTree},
	{"mount_setattr", (*inProbe).mountSetattr},
	{"proc_mount", (*inProbe).procMount},
	{"pid_max_ns", (*inProbe).pidMax},
	{"devpts", (*inProbe).devpts},
	{"overlay", (*inProbe).overlay},
	{"rlimit_nproc_userns", (*inProbe).nproc},
	// Last of the mounts: the old root is gone after it.
	{"pivot_root", (*inProbe).pivotRoot},

	// Without any namespace. The filter comes last, as it can't be undone.
	{"no_new_privs", (*inProbe).noNewPrivs},
	{"seccomp", (*inProbe).seccomp},
}

// work tries each step of a place whose prerequisites did not fail, and tells each as it is done, so
// that a step that kills the process costs no earlier answer.
func (p *inProbe) work(where place, done answers, tell func(answer)) answers {
	for _, s := range steps {
		e, _ := find(s.name)
		if e.place != where || done.lacks(e) != "" {
			continue
		}
		a := answer{name: s.name}
		if err := s.do(p); err != nil {
			f := err.(*failed)
			a.errno, a.op = f.errno, f.op
		}
		done = append(done, a)
		tell(a)
	}
	return done
}

func (p *inProbe) mountns() error {
	return refuse("mount(MS_REC|MS_PRIVATE)", unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
}

// tproxy sends what a run with an allowlist would.
func (p *inProbe) tproxy() error {
	for _, r := range netns.Inside(netns.Config{Others: true}).Requests {
		if r.Role == handoff.RoleRedirect {
			return refuse("netlink "+r.Name, linux.Netlink(int(r.Protocol), r.Messages, int(r.Acks)))
		}
	}
	return refuse("netlink", unsaid)
}

func (p *inProbe) pidns() error {
	if pid := os.Getpid(); pid != 1 {
		return refuse("getpid gives "+strconv.Itoa(pid)+" in a new pid namespace", unsaid)
	}
	return nil
}

func (p *inProbe) utsns() error {
	return refuse("sethostname", unix.Sethostname([]byte("probe")))
}

func (p *inProbe) loUp() error {
	sock, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return refuse("socket(AF_INET)", err)
	}
	defer unix.Close(sock)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return refuse("ifreq", err)
	}
	if err := unix.IoctlIfreq(sock, unix.SIOCGIFFLAGS, lo); err != nil {
		return refuse("ioctl(SIOCGIFFLAGS)", err)
	}
	lo.SetUint16(lo.Uint16() | unix.IFF_UP)
	return refuse("ioctl(SIOCSIFFLAGS)", unix.IoctlIfreq(sock, unix.SIOCSIFFLAGS, lo))
}

// nproc forks under a limit that is used up already: it is held where the fork
// fails. The kernel holds it for nobody who is uid 0 outside.
func (p *inProbe) nproc() error {
	errno := forkUnderLimit()
	if errno != unix.EAGAIN {
		if errno == 0 {
			return refuse("fork over RLIMIT_NPROC is not refused", unsaid)
		}
		return refuse("fork", errno)
	}
	// Before 5.14 the count was the user's over all namespaces: no limit of one run.
	if v := ParseKernel(unameRelease()); !v.IsZero() && !v.AtLeast(Kernel{5, 14}) {
		return refuse("RLIMIT_NPROC counts all processes of the user on Linux "+v.String(), unsaid)
	}
	return nil
}

func (p *inProbe) procSelf() error {
	fd, err := unix.Open("/proc/self/exe", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return refuse("open(/proc/self/exe)", err)
	}
	return refuse("close", unix.Close(fd))
}

func seccompAction(name string, action uint32) error {
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	if errno != 0 {
		return refuse("seccomp(SECCOMP_GET_ACTION_AVAIL, "+name+")", errno)
	}
	return nil
}

func (p *inProbe) unixDiag() error {
	_, err := linux.UnixSockets()
	return refuse("sock_diag(AF_UNIX)", err)
}

// landlock asks for the version; ENOSYS is a kernel built without, EOPNOTSUPP
// one that was started without.
func (p *inProbe) landlock() error {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return refuse("landlock_create_ruleset", errno)
	}
	p.version = int(abi)
	return nil
}

func (p *inProbe) pidfd() error {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return refuse("pidfd_open", err)
	}
	defer unix.Close(fd)
	return refuse("pidfd_send_signal", unix.PidfdSendSignal(fd, 0, nil, 0))
}

// closeRange closes descriptors beyond any that can be open.
func (p *inProbe) closeRange() error {
	return refuse("close_range", unix.CloseRange(1<<31, 1<<32-1, 0))
}

func (p *inProbe) openat2() error {
	fd, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return refuse("openat2", err)
	}
	return refuse("close", unix.Close(fd))
}

// setAffinity sets what is set already.
func (p *inProbe) setAffinity() error {
	runtime.LockOSThread() // the mask is a thread's
	defer runtime.UnlockOSThread()
	set := unix.NewCPUSet(maxCPUs)
	if err := unix.SchedGetaffinityDynamic(0, set); err != nil {
		return refuse("sched_getaffinity", err)
	}
	return refuse("sched_setaffinity", unix.SchedSetaffinityDynamic(0, set))
}

func (p *inProbe) smapsRollup() error {
	fd, err := unix.Open("/proc/self/smaps_rollup", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return refuse("open(/proc/self/smaps_rollup)", err)
	}
	defer unix.Close(fd)
	var buf [64]byte
	_, err = unix.Read(fd, buf[:])
	return refuse("read(/proc/self/smaps_rollup)", err)
}

func (p *inProbe) noNewPrivs() error {
	return refuse("prctl(PR_SET_NO_NEW_PRIVS)", unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
}

// sentinel is an errno that getppid never gives by itself.
const sentinel = unix.ENOTNAM

// seccomp loads a filter for one call and makes that call.
func (p *inProbe) seccomp() error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the call's number
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_GETPPID},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(sentinel)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if _, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog))); errno != 0 {
		return refuse("seccomp(SECCOMP_SET_MODE_FILTER)", errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_GETPPID, 0, 0, 0); errno != sentinel {
		return refuse("a loaded seccomp filter is not obeyed", unsaid)
	}
	return nil
}

// forkUnderLimit forks, bounds the child's RLIMIT_NPROC to what is there
// already, and has the child fork once more. It gives the errno of that.
//
// The limit is the child's own, as this process's runtime may need a thread at
// any time. The child makes nothing but raw calls: after the fork it has one
// thread and no runtime.
func forkUnderLimit() unix.Errno {
	limit := unix.Rlimit{Cur: 1, Max: 1}
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	if pid == 0 {
		_, _, errno := unix.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NPROC, uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
		if errno == 0 {
			pid, _, errno = unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
			if errno == 0 && pid != 0 {
				unix.RawSyscall6(unix.SYS_WAIT4, pid, 0, 0, 0, 0, 0)
			}
		}
		for {
			unix.RawSyscall(unix.SYS_EXIT_GROUP, uintptr(errno), 0, 0)
		}
	}
	var ws unix.WaitStatus
	for {
		if _, err := unix.Wait4(int(pid), &ws, 0, nil); err != unix.EINTR {
			break
		}
	}
	if !ws.Exited() {
		return unix.EIO
	}
	return unix.Errno(ws.ExitStatus())
}
