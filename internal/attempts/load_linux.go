package attempts

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

var loadTries = []Try{
	{"alloc", 2, alloc},   // MIB SECONDS: touched, and kept so long
	{"allocs", 3, allocs}, // N MIB SECONDS: in N children at once
	{"spin", 1, spin},     // MILLISECONDS of CPU time
	{"spins", 2, spins},   // N MILLISECONDS: N children one after another, each so much CPU time
	{"put", 2, putOut},    // FD BYTES: 0, 1, 2 … 255, 0 …
	{"open", 1, openMany}, // N descriptors at once
}

func alloc(args []string) error {
	n, err := Numbers(args)
	if err != nil {
		return err
	}
	b, err := unix.Mmap(-1, 0, int(n[0])<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	fmt.Println("allocated")
	time.Sleep(time.Duration(n[1]) * time.Second)
	return nil
}

func allocs(args []string) error {
	n, err := Number(args[0])
	if err != nil {
		return err
	}
	var errs []error
	waits := make([]func() error, 0, n)
	for range n {
		cmd, err := Again(nil, "alloc", args[1], args[2])
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

func cpuTime() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func spin(args []string) error {
	n, err := Number(args[0])
	if err != nil {
		return err
	}
	for cpuTime() < time.Duration(n)*time.Millisecond {
	}
	return nil
}

func spins(args []string) error {
	n, err := Number(args[0])
	if err != nil {
		return err
	}
	for range n {
		cmd, err := Again(nil, "spin", args[1])
		if err != nil {
			return err
		}
		if err := cmd.Wait(); err != nil {
			return err
		}
	}
	return nil
}

func putOut(args []string) error {
	n, err := Numbers(args)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(os.NewFile(uintptr(n[0]), "out"), 1<<16)
	for i := range n[1] {
		if err := w.WriteByte(byte(i)); err != nil {
			return err
		}
	}
	return w.Flush()
}

func openMany(args []string) error {
	n, err := Number(args[0])
	if err != nil {
		return err
	}
	for i := range n {
		if _, err := unix.Open("/dev/null", unix.O_RDONLY, 0); err != nil {
			return fmt.Errorf("after %d: %w", i, err)
		}
	}
	return nil
}
