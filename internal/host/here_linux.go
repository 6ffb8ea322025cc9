package host

import (
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

// hereProbes are tried in this process and change nothing in it.
var hereProbes = []struct {
	name string
	do   func() (version int, err error)
}{
	{"proc", procSelf},
	{"seccomp_log", func() (int, error) { return 0, seccompAction("SECCOMP_RET_LOG", unix.SECCOMP_RET_LOG) }},
	{"seccomp_user_notif", func() (int, error) {
		return 0, seccompAction("SECCOMP_RET_USER_NOTIF", unix.SECCOMP_RET_USER_NOTIF)
	}},
	{"landlock", landlockABI},
	{"pidfd", pidfd},
	{"close_range", closeRange},
	{"openat2", openat2},
	{"sched_setaffinity", setAffinity},
	{"unix_diag", unixDiag},
	{"smaps_rollup", smapsRollup},
}

func tryHere() (rs []Result) {
	for _, p := range hereProbes {
		e, _ := find(p.name)
		version, err := p.do()
		r := e.result(Yes, "")
		if err != nil {
			f := err.(*failed)
			r = e.result(No, f.Error())
			r.Errno = f.errno
			r.Detail = f.op + ": " + errnoText(f.errno)
		}
		r.Version = version
		rs = append(rs, r)
	}
	return rs
}

func procSelf() (int, error) {
	fd, err := unix.Open("/proc/self/exe", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, refuse("open(/proc/self/exe)", err)
	}
	return 0, refuse("close", unix.Close(fd))
}

func seccompAction(name string, action uint32) error {
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	if errno != 0 {
		return refuse("seccomp(SECCOMP_GET_ACTION_AVAIL, "+name+")", errno)
	}
	return nil
}

func unixDiag() (int, error) {
	_, err := linux.UnixSockets()
	return 0, refuse("sock_diag(AF_UNIX)", err)
}

// landlockABI asks for the version; ENOSYS is a kernel built without, EOPNOTSUPP
// one that was started without.
func landlockABI() (int, error) {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, refuse("landlock_create_ruleset", errno)
	}
	return int(abi), nil
}

func pidfd() (int, error) {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return 0, refuse("pidfd_open", err)
	}
	defer unix.Close(fd)
	return 0, refuse("pidfd_send_signal", unix.PidfdSendSignal(fd, 0, nil, 0))
}

// closeRange closes descriptors beyond any that can be open.
func closeRange() (int, error) {
	return 0, refuse("close_range", unix.CloseRange(1<<31, 1<<32-1, 0))
}

func openat2() (int, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return 0, refuse("openat2", err)
	}
	return 0, refuse("close", unix.Close(fd))
}

// setAffinity sets what is set already.
func setAffinity() (int, error) {
	runtime.LockOSThread() // the mask is a thread's
	defer runtime.UnlockOSThread()
	set := unix.NewCPUSet(maxCPUs)
	if err := unix.SchedGetaffinityDynamic(0, set); err != nil {
		return 0, refuse("sched_getaffinity", err)
	}
	return 0, refuse("sched_setaffinity", unix.SchedSetaffinityDynamic(0, set))
}

func smapsRollup() (int, error) {
	fd, err := unix.Open("/proc/self/smaps_rollup", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, refuse("open(/proc/self/smaps_rollup)", err)
	}
	defer unix.Close(fd)
	var buf [64]byte
	_, err = unix.Read(fd, buf[:])
	return 0, refuse("read(/proc/self/smaps_rollup)", err)
}
