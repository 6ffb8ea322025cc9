package attempts

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

var loadTries = []Try{
	{"alloc", 2, alloc},      // MIB SECONDS: touched, and kept so long
	{"allocs", 3, allocs},    // N MIB SECONDS: in N children at once
	{"reserve", 1, reserve},  // MIB: mapped, and not touched
	{"rush", 4, rush},        // HOW N MIB FILE: N children touch MIB together as fast as they can; FILE counts it
	{"stay", 4, rushAndStay}, // HOW N MIB FILE: the same, and they keep it for 20 seconds
	{"touch", 4, touch},      // HOW MIB FILE ALL: one of them, which keeps them until ALL MIB were touched
	{"touched", 3, touched},  // FILE LEAST MOST: so many MIB
	{"shm", 2, shm},          // N MIB: of System V shared memory, touched, and nobody has them attached
	{"sem", 2, sem},          // N M: arrays of M
	{"aio", 0, aio},          // a context
	{"lease", 1, lease},      // FILE
	{"spin", 1, spin},        // MILLISECONDS of CPU time
	{"spins", 2, spins},      // N MILLISECONDS: N children one after another, each so much CPU time
	{"put", 2, putOut},       // FD BYTES: 0, 1, 2 … 255, 0 …
	{"threads", 1, threads},  // N at once; the runtime gives up when there can't be another

	// N of them, kept open.
	{"open", 1, func(a []string) error { return times(a[0], opening("/dev/null", unix.O_RDONLY)) }},
	{"ptys", 1, func(a []string) error { return times(a[0], opening("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY)) }},
	{"inotify", 1, func(a []string) error { return times(a[0], func() error { return errOf(unix.InotifyInit()) }) }},
	{"pairs", 1, func(a []string) error {
		return times(a[0], func() error { return errOf(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)) })
	}},
}

const (
	mib  = 1 << 20
	page = 4096
)

// mapped is memory that nothing was written to yet.
func mapped(n int64) ([]byte, error) {
	return unix.Mmap(-1, 0, int(n)*mib, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
}

// touchPages touches every page.
func touchPages(b []byte) {
	for i := 0; i < len(b); i += page {
		b[i] = 1
	}
}

func alloc(args []string) error {
	n := Numbers(args)
	b, err := mapped(n[0])
	if err != nil {
		return err
	}
	touchPages(b)
	fmt.Println("allocated")
	time.Sleep(time.Duration(n[1]) * time.Second)
	return nil
}

func reserve(args []string) error { return errOf(mapped(Number(args[0]))) }

func allocs(args []string) error {
	return wait(several(Number(args[0]), "alloc", args[1], args[2]))
}

// several starts as many children as it may, all of the same words.
func several(n int64, words ...string) (children []*exec.Cmd, err error) {
	for range n {
		cmd, err := Again(nil, words...)
		if err != nil {
			return children, err
		}
		children = append(children, cmd)
	}
	return children, nil
}

// wait waits for them. It is an error that not all could be started.
func wait(children []*exec.Cmd, err error) error {
	for _, cmd := range children {
		err = errors.Join(err, cmd.Wait())
	}
	return err
}

// rush counts in a file that everybody maps: what was touched is known, whoever is killed.
func rush(args []string) error { return rushed(args, 0) }

// rushAndStay keeps the memory, so that who is to end it has its time.
func rushAndStay(args []string) error { return rushed(args, 1) }

func rushed(args []string, more int64) error {
	n := Numbers(args[1:3])
	if err := os.WriteFile(args[3], make([]byte, 8), 0o600); err != nil {
		return err
	}
	each, all := n[1]/n[0], n[1]/n[0]*n[0]+more
	return wait(several(n[0], "touch", args[0], strconv.FormatInt(each, 10), args[3], strconv.FormatInt(all, 10)))
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

func touch(args []string) error {
	n, all := Number(args[1]), Number(args[3])
	count, err := counter(args[2])
	if err != nil {
		return err
	}
	var one func() error // MiB
	if args[0] == "memfd" {
		fd, err := unix.MemfdCreate("", unix.MFD_CLOEXEC)
		if err != nil {
			return err
		}
		b := make([]byte, mib)
		one = func() error { return errOf(unix.Write(fd, b)) }
	} else {
		b, err := mapped(n)
		if err == nil && args[0] == "huge" {
			err = unix.Madvise(b, unix.MADV_HUGEPAGE)
		}
		if err != nil {
			return err
		}
		one = func() error {
			touchPages(b[:mib])
			b = b[mib:]
			return nil
		}
	}
	for range n {
		if err := one(); err != nil {
			return err
		}
		count.Add(1)
	}
	for range 20000 { // who ends gives its memory back, and its count stays
		if count.Load() >= all {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return errors.New("the others don't get on")
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
	size := int(Number(args[1])) * mib
	var made []int
	defer func() {
		for _, id := range made {
			_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
		}
	}()
	err := times(args[0], func() error {
		id, err := unix.SysvShmGet(unix.IPC_PRIVATE, size, 0o600)
		if err != nil {
			return err
		}
		made = append(made, id)
		b, err := unix.SysvShmAttach(id, 0, 0)
		if err != nil {
			return err
		}
		touchPages(b)
		return unix.SysvShmDetach(b)
	})
	if err == nil {
		time.Sleep(2 * time.Second)
	}
	return err
}

func sem(args []string) error {
	size := uintptr(Number(args[1]))
	var made []uintptr
	defer func() {
		for _, id := range made {
			_ = Raw(unix.SYS_SEMCTL, id, 0, unix.IPC_RMID)
		}
	}()
	return times(args[0], func() error {
		id, _, errno := unix.Syscall(unix.SYS_SEMGET, unix.IPC_PRIVATE, size, 0o600)
		if errno != 0 {
			return errno
		}
		made = append(made, id)
		return nil
	})
}

func aio([]string) error {
	var context uintptr
	err := Raw(unix.SYS_IO_SETUP, 1, uintptr(unsafe.Pointer(&context)), 0)
	if err == nil {
		_ = Raw(unix.SYS_IO_DESTROY, context, 0, 0)
	}
	return err
}

func lease(args []string) error {
	fd, err := unix.Open(args[0], unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return errOf(unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK))
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
	for range Number(args[0]) {
		if err := wait(several(1, "spin", args[1])); err != nil {
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

// times does something as often as the number says.
func times(n string, do func() error) error {
	for i := range Number(n) {
		if err := do(); err != nil {
			return fmt.Errorf("after %d: %w", i, err)
		}
	}
	return nil
}

// opening opens a file for good.
func opening(name string, flags int) func() error {
	return func() error { return errOf(unix.Open(name, flags|unix.O_CLOEXEC, 0)) }
}

func threads(args []string) error {
	ready := make(chan bool)
	for range Number(args[0]) {
		go func() {
			runtime.LockOSThread()
			ready <- true
			select {}
		}()
		<-ready
	}
	return nil
}
