package attempts

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

var callTries = []Try{
	{"call", 1, call}, // NAME: one of calls
	{"key", 1, func(a []string) error { // DESCRIPTION: is it in a keyring of ours?
		return errOf(unix.KeyctlSearch(unix.KEY_SPEC_SESSION_KEYRING, "user", a[0], 0))
	}},
	{"add", 1, func(a []string) error { return AddKey(a[0]) }},
}

type namedCall struct {
	name string
	do   func() error
}

// calls are made with arguments that work where the call is allowed, or that
// fail in a way that shows that it was.
var calls = []namedCall{
	{"io_uring_setup", func() error {
		var params [120]byte
		return Raw(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0)
	}},
	{"add_key", func() error { return AddKey("attempt") }},
	{"keyctl", func() error { return errOf(unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true)) }},
	{"unshare_user", func() error {
		return InThread(func() error { return cloned(&syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}, "sleep", "0") })
	}},
	{"unshare_net", func() error { return InThread(func() error { return unix.Unshare(unix.CLONE_NEWNET) }) }},
	{"clone_user", func() error { return cloned(&syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}, "sleep", "0") }},
	{"mount", func() error { return unix.Mount("tmpfs", "/tmp", "tmpfs", 0, "") }},
	{"umount", func() error { return unix.Unmount("/proc", unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) }},
	{"umount_tmp", func() error { return unix.Unmount("/tmp", unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) }},
	{"fsopen", func() error { return errOf(unix.Fsopen("tmpfs", 0)) }},
	{"open_tree", func() error { return errOf(unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE|unix.AT_RECURSIVE)) }},
	{"setns", setnsOwn},
	{"pivot_root", func() error { return anyBut(unix.PivotRoot("/nowhere", "/nowhere"), unix.ENOENT) }},
	{"chroot", func() error { return unix.Chroot("/") }},
	{"bpf", func() error { return anyBut(Raw(unix.SYS_BPF, 999, 0, 0), unix.EINVAL) }},
	{"perf_event_open", perfEvent},
	{"userfaultfd", func() error { return Raw(unix.SYS_USERFAULTFD, 1, 0, 0) }},
	{"init_module", func() error { return anyBut(Raw(unix.SYS_INIT_MODULE, 0, 0, 0), unix.EFAULT, unix.ENOEXEC) }},
	{"kexec_load", func() error { return anyBut(Raw(unix.SYS_KEXEC_LOAD, 0, 1<<20, 0), unix.EINVAL) }},
	{"acct", func() error { return anyBut(unix.Acct("/nowhere"), unix.ENOENT) }},
	{"sethostname", sameHostname},
	{"settimeofday", func() error {
		tv := unix.Timeval{Usec: -1}
		return anyBut(unix.Settimeofday(&tv), unix.EINVAL)
	}},
	{"mknod", func() error {
		name := fmt.Sprintf("%s/attempt-%d", os.TempDir(), os.Getpid())
		err := unix.Mknod(name, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3)))
		_ = unix.Unlink(name)
		return err
	}},
	{"setuid", func() error {
		return InThread(func() error { return Raw(unix.SYS_SETUID, uintptr(os.Getuid()^1), 0, 0) })
	}},
	{"ptrace_child", func() error { return withPID("child", unix.PtraceSeize) }}, // as a debugger does
	{"modify_ldt", modifyLDT},
	{"vmsplice", vmsplice},
	{"memfd_secret", func() error { return errOf(unix.MemfdSecret(0)) }},
	{"zerocopy", func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ZEROCOPY, 1)
	}},
	{"syslog", func() error { return errOf(unix.Klogctl(3, make([]byte, 16))) }},
	{"tiocsti", func() error { return ioctlTTY(unix.TIOCSTI, 'x') }},
	// Only a console of the kernel's knows it.
	{"tioclinux", func() error { return anyBut(ioctlTTY(unix.TIOCLINUX, 6), unix.ENOTTY) }},
	// With a bit above the low 32, which the kernel ignores and a careless filter doesn't.
	{"tiocsti_high", func() error { return ioctlTTY(unix.TIOCSTI|1<<32, 'x') }},
}

func call(args []string) error {
	for _, some := range [][]namedCall{calls, foreignCalls} {
		for _, c := range some {
			if c.name == args[0] {
				return c.do()
			}
		}
	}
	return fmt.Errorf("%w: call %q", ErrBroken, args[0])
}

// Raw makes a system call.
func Raw(number, a, b, c uintptr) error {
	if _, _, errno := syscall.Syscall6(number, a, b, c, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// anyBut: an error that comes from behind the check shows that the call is let in.
func anyBut(err error, behind ...unix.Errno) error {
	for _, e := range behind {
		if errors.Is(err, e) {
			return nil
		}
	}
	return err
}

// vmsplice puts a page of ours into a pipe, which keeps it.
func vmsplice() error {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	defer unix.Close(p[0])
	defer unix.Close(p[1])
	text := []byte("x")
	return errOf(unix.Vmsplice(p[1], []unix.Iovec{{Base: &text[0], Len: 1}}, 0))
}

// InThread is for what changes a thread for good.
func InThread(do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- do()
	}()
	return <-done
}

func perfEvent() error {
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_TASK_CLOCK, Bits: unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv}
	attr.Size = uint32(unsafe.Sizeof(attr))
	return anyBut(errOf(unix.PerfEventOpen(&attr, 0, -1, -1, 0)), unix.ENOENT, unix.ENODEV)
}

// setnsOwn enters the namespace that it is in: what the kernel asks for is the same.
func setnsOwn() error {
	fd, err := unix.Open("/proc/self/ns/uts", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBroken, err)
	}
	return InThread(func() error { return unix.Setns(fd, unix.CLONE_NEWUTS) })
}

func sameHostname() error {
	name, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("%w: %v", ErrBroken, err)
	}
	return unix.Sethostname([]byte(name))
}

// AddKey adds a key to the session.
func AddKey(description string) error {
	return errOf(unix.AddKey("user", description, []byte("secret"), unix.KEY_SPEC_SESSION_KEYRING))
}

// ioctlTTY needs a terminal, and makes one: outside its own input takes what is
// pushed; the request is refused before the terminal is looked at, so that where
// there is none anything will do.
func ioctlTTY(request uintptr, b byte) error {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		fd = 0
	}
	return Raw(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(&b)))
}
