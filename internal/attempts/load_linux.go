package attempts

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

var loadTries = []Try{
	{"alloc", 2, alloc},      // MIB SECONDS: touched, and kept so long
	{"allocs", 3, allocs},    // N MIB SECONDS: in N children at once
	{"reserve", 1, reserve},  // MIB: mapped, and not touched
	{"rush", 4, rush},        // HOW N MIB FILE: N children touch MIB together as fast as they can; FILE counts it
	{"stay", 4, rushAndStay}, // HOW N MIB FILE: the same, and they keep it for 20 seconds
	{"touch", 4, touchFast},  // HOW MIB FILE ALL: one of them, which keeps them until ALL MIB were touched
	{"touched", 3, touched},  // FILE LEAST MOST: so many MIB
	{"shm", 2, shm},          // N MIB: of System V shared memory, touched, and nobody has them attached
	{"aio", 0, aio},          // a context
	{"lease", 1, lease},      // FILE
	{"inotify", 1, inotify},  // N instances
	{"ptys", 1, openPtys},    // N
	{"sem", 2, sem},          // N M: arrays of M
	{"spin", 1, spin},        // MILLISECONDS of CPU time
	{"spins", 2, spins},      // N MILLISECONDS: N children one after another, each so much CPU time
	{"put", 2, putOut},       // FD BYTES: 0, 1, 2 … 255, 0 …
	{"open", 1, openMany},    // N descriptors at once
	{"pairs", 1, pairs},      // N socket pairs at once
	{"threads", 1, threads},  // N at once; the runtime gives up when there can't be another
}

func alloc(args []string) error {
	n := Numbers(args)
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
	n := Number(args[0])
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
	n := Number(args[0])
	for cpuTime() < time.Duration(n)*time.Millisecond {
	}
	return nil
}

func spins(args []string) error {
	n := Number(args[0])
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
	n := Numbers(args)
	w := bufio.NewWriterSize(os.NewFile(uintptr(n[0]), "out"), 1<<16)
	for i := range n[1] {
		if err := w.WriteByte(byte(i)); err != nil {
			return err
		}
	}
	return w.Flush()
}

// times does something as often as the first argument says.
func times(args []string, do func() error) error {
	n := Number(args[0])
	for i := range n {
		if err := do(); err != nil {
			return fmt.Errorf("after %d: %w", i, err)
		}
	}
	return nil
}

func opens(name string, flags int) func() error {
	return func() error {
		_, err := unix.Open(name, flags, 0)
		return err
	}
}

func openMany(args []string) error { return times(args, opens("/dev/null", unix.O_RDONLY)) }

func pairs(args []string) error {
	return times(args, func() error {
		_, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		return err
	})
}

func threads(args []string) error {
	n := Number(args[0])
	ready := make(chan bool)
	for range n {
		go func() {
			runtime.LockOSThread()
			ready <- true
			select {}
		}()
		<-ready
	}
	return nil
}
