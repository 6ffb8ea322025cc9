package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"syscall"

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
	n := attempts.Number(args[0])
	n = cmp.Or(n, math.MaxInt64)
	for i := range n {
		_, _, errno := syscall.RawSyscall6(unix.SYS_ADD_KEY, 0, 0, 0, 0, 0, 0)
		if errno != unix.EPERM {
			return fmt.Errorf("%w: number %d: %w", attempts.ErrBroken, i, errno)
		}
		if i == 0 {
			fmt.Println("began")
		}
	}
	return unix.EPERM
}

func various(args []string) error {
	n := attempts.Number(args[0])
	for i := range int(n) {
		_, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 1000+i)
		if !errors.Is(err, unix.EPERM) {
			return fmt.Errorf("%w: number %d: %w", attempts.ErrBroken, i, err)
		}
	}
	return unix.EPERM
}

// listener asks for one on a thread that nothing else runs on any more.
func listener([]string) error {
	return attempts.InThread(func() error { _, err := listen(nil); return err })
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
	var filter program
	filter.refuse(unix.SYS_SECCOMP, 1, uint32(attempts.Number(args[0])), unix.EINVAL)
	return filtered(filter, args[1:])
}

// listened runs a command below a listener, as another sandbox has it; nothing is
// told there.
func listened(args []string) error {
	fd, err := listen(nil)
	if err != nil {
		return fmt.Errorf("%w: seccomp: %w", attempts.ErrBroken, err)
	}
	// There is one as long as somebody holds it.
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	_ = unix.Close(fd)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		os.Exit(exit.ExitCode())
	}
	return err
}
