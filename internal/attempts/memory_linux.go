package attempts

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func reserve(args []string) error {
	n := Number(args[0])
	_, err := unix.Mmap(-1, 0, int(n)<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	return err
}

// rush counts in a file that everybody maps: what was touched is known, whoever is killed.
func rush(args []string) error { return rushed(args, false) }

// rushAndStay keeps the memory, so that who is to end it has its time.
func rushAndStay(args []string) error { return rushed(args, true) }

func rushed(args []string, stay bool) error {
	n := Numbers(args[1:3])
	if err := os.WriteFile(args[3], make([]byte, 8), 0o600); err != nil {
		return err
	}
	var errs []error
	waits := make([]func() error, 0, n[0])
	until := n[1] / n[0] * n[0]
	if stay {
		until++
	}
	for range n[0] {
		cmd, err := Again(nil, "touch", args[0], strconv.FormatInt(n[1]/n[0], 10), args[3], strconv.FormatInt(until, 10))
		if err != nil {
			return err
		}
		waits = append(waits, cmd.Wait)
	}
	for _, wait := range waits {
		errs = append(errs, wait())
	}
	return errors.Join(errs...)
}

// counter maps the file.
func counter(name string) (*atomic.Int64, error) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := unix.Mmap(int(f.Fd()), 0, 8, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return (*atomic.Int64)(unsafe.Pointer(&b[0])), nil
}

func touchFast(args []string) error {
	n := Number(args[1])
	count, err := counter(args[2])
	if err != nil {
		return err
	}
	all := Number(args[3])
	keep := func() error {
		for range 20000 { // who ends gives its memory back, and its count stays
			if count.Load() >= all {
				return nil
			}
			time.Sleep(time.Millisecond)
		}
		return errors.New("the others don't get on")
	}
	const mib = 1 << 20
	if args[0] == "memfd" {
		fd, err := unix.MemfdCreate("", unix.MFD_CLOEXEC)
		if err != nil {
			return err
		}
		for b := make([]byte, mib); n > 0; n-- {
			if _, err := unix.Write(fd, b); err != nil {
				return err
			}
			count.Add(1)
		}
		return keep()
	}
	b, err := unix.Mmap(-1, 0, int(n)*mib, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err == nil && args[0] == "huge" {
		err = unix.Madvise(b, unix.MADV_HUGEPAGE)
	}
	if err != nil {
		return err
	}
	for i := 0; i < len(b); i += mib {
		for at := i; at < i+mib; at += 4096 {
			b[at] = 1
		}
		count.Add(1)
	}
	return keep()
}

func touched(args []string) error {
	n := Numbers(args[1:])
	count, err := counter(args[0])
	if err != nil {
		return err
	}
	if got := count.Load(); got < n[0] || got > n[1] {
		return fmt.Errorf("%d MiB were touched, not %d to %d", got, n[0], n[1])
	}
	return nil
}

func shm(args []string) error {
	n := Numbers(args)
	var made []int
	defer func() {
		for _, id := range made {
			_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
		}
	}()
	for range n[0] {
		id, err := unix.SysvShmGet(unix.IPC_PRIVATE, int(n[1])<<20, 0o600)
		if err != nil {
			return fmt.Errorf("after %d: %w", len(made), err)
		}
		made = append(made, id)
		b, err := unix.SysvShmAttach(id, 0, 0)
		if err != nil {
			return err
		}
		for at := 0; at < len(b); at += 4096 {
			b[at] = 1
		}
		if err := unix.SysvShmDetach(b); err != nil {
			return err
		}
	}
	time.Sleep(2 * time.Second)
	return nil
}

func sem(args []string) error {
	n := Numbers(args)
	var made []uintptr
	defer func() {
		for _, id := range made {
			_, _, _ = unix.Syscall6(unix.SYS_SEMCTL, id, 0, unix.IPC_RMID, 0, 0, 0)
		}
	}()
	for range n[0] {
		id, _, errno := unix.Syscall(unix.SYS_SEMGET, unix.IPC_PRIVATE, uintptr(n[1]), 0o600)
		if errno != 0 {
			return fmt.Errorf("after %d: %w", len(made), errno)
		}
		made = append(made, id)
	}
	return nil
}

func aio([]string) error {
	var context uintptr
	if _, _, errno := unix.Syscall(unix.SYS_IO_SETUP, 1, uintptr(unsafe.Pointer(&context)), 0); errno != 0 {
		return errno
	}
	_, _, _ = unix.Syscall(unix.SYS_IO_DESTROY, context, 0, 0)
	return nil
}

func lease(args []string) error {
	fd, err := unix.Open(args[0], unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK)
	return err
}

// openPtys keeps n pseudo-terminals at once.
func openPtys(args []string) error {
	return times(args, opens("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC))
}

func inotify(args []string) error {
	return times(args, func() error {
		_, err := unix.InotifyInit1(unix.IN_CLOEXEC)
		return err
	})
}
