package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/attempts"
)

var denialTries = []attempts.Try{
	{Name: "often", Args: 1, Do: often},         // N: a refused call, so often; 0 is forever
	{Name: "various", Args: 1, Do: various},     // N: sockets of so many kinds that there are none of
	{Name: "listener", Args: 0, Do: listener},   // a listener of its own, to answer for the kernel
	{Name: "outlive", Args: 0, Do: outlive},     // a refused call by one thread, while others go on
	{Name: "undaunted", Args: 0, Do: undaunted}, // one with SIGSYS blocked
	{Name: "listened", Args: 1, Do: listened},   // COMMAND…: with a listener above
	{Name: "unflagged", Args: 2, Do: unflagged}, // FLAGS COMMAND…: where seccomp(2) doesn't know one of the flags
}

// often prints "began" after the first.
func often(args []string) error {
	n, err := attempts.Number(args[0])
	if err != nil {
		return err
	}
	if n == 0 {
		n = math.MaxInt64
	}
	for i := range n {
		_, _, errno := syscall.RawSyscall6(unix.SYS_ADD_KEY, 0, 0, 0, 0, 0, 0)
		if err = errno; errno != unix.EPERM {
			return fmt.Errorf("%w: number %d: %w", attempts.ErrBroken, i, errno)
		}
		if i == 0 {
			fmt.Println("began")
		}
	}
	return err
}

func various(args []string) error {
	n, err := attempts.Number(args[0])
	if err != nil {
		return err
	}
	for i := range int(n) {
		_, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 1000+i)
		if !errors.Is(err, unix.EPERM) {
			return fmt.Errorf("%w: number %d: %w", attempts.ErrBroken, i, err)
		}
	}
	return err
}

// listener asks for one on a thread that nothing else runs on any more.
func listener([]string) error {
	allow := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}
	program := unix.SockFprog{Len: 1, Filter: &allow}
	return attempts.InThread(func() error {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("%w: %w", attempts.ErrBroken, err)
		}
		return attempts.Raw(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&program)))
	})
}

func outlive([]string) error {
	for range runtime.NumCPU() {
		go func() {
			for {
				runtime.Gosched()
			}
		}()
	}
	err := attempts.InThread(func() error { return attempts.AddKey("attempt") })
	fmt.Println("alive")
	return err
}

func undaunted([]string) error {
	runtime.LockOSThread()
	mask := unix.Sigset_t{Val: [16]uint64{1 << (unix.SIGSYS - 1)}}
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &mask, nil); err != nil {
		return fmt.Errorf("%w: %w", attempts.ErrBroken, err)
	}
	err := attempts.AddKey("attempt")
	fmt.Println("alive")
	return err
}

// unflagged runs a command on a kernel before a flag of filters.
func unflagged(args []string) error {
	flags, err := attempts.Number(args[0])
	if err != nil {
		return err
	}
	var filter program
	filter.add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 0, 0, 0) // seccomp_data.nr
	filter.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, unix.SYS_SECCOMP, 0, 3)
	filter.add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 24, 0, 0) // seccomp_data.args[1]
	filter.add(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, uint32(flags), 0, 1)
	filter.add(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ERRNO|uint32(unix.EINVAL), 0, 0)
	filter.add(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW, 0, 0)
	return filtered(filter, args[1:])
}

// listened runs a command below a listener, as another sandbox has it; nothing is
// told there.
func listened(args []string) error {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return fmt.Errorf("%w: %w", attempts.ErrBroken, err)
	}
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("%w: %w", attempts.ErrBroken, err)
	}
	allow := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}
	program := unix.SockFprog{Len: 1, Filter: &allow}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER,
		uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return fmt.Errorf("%w: seccomp: %w", attempts.ErrBroken, errno)
	}
	// There is one as long as somebody holds it.
	cmd := exec.Command(path, args[1:]...)
	cmd.Args[0] = args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	_ = unix.Close(int(fd))
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		os.Exit(exit.ExitCode())
	}
	return err
}
