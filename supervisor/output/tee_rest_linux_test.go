package output

import (
	"os"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// filter is a seccomp filter for all threads of this process.
func filter(program []unix.SockFilter) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	f := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&f)))
	runtime.KeepAlive(program)
	if errno != 0 {
		return errno
	}
	return nil
}

// rest drives a Tee by hand until it has nothing to do, and says in how many steps.
func rest(t *testing.T, tee *Tee) (steps int) {
	t.Helper()
	for ; steps < 100; steps++ {
		set, _ := tee.enter(nil)
		if len(set) == 0 {
			return steps
		}
		if n, err := unix.Poll(set, 0); n == 0 && err == nil {
			return steps
		}
		tee.leave(set)
	}
	t.Fatal("never at rest")
	return steps
}

// TestTeeRests: whatever is in the pipe, whatever the target does and then stops
// doing, the pump comes to wait, without a clock.
func TestTeeRests(t *testing.T) {
	writers := map[string]func(t *testing.T, w *os.File){
		"nothing":      func(*testing.T, *os.File) {},
		"a byte":       func(t *testing.T, w *os.File) { fill(t, w, noise(1)) },
		"three pages":  func(t *testing.T, w *os.File) { fill(t, w, noise(3*4096)) },
		"a lot":        func(t *testing.T, w *os.File) { fill(t, w, noise(700_001)) },
		"a lot, ended": func(t *testing.T, w *os.File) { fill(t, w, noise(700_001)); w.Close() },
		"from a file":  fromFile,
		"from a socket": func(t *testing.T, w *os.File) {
			fromSocket(t, w)
		},
	}
	read := func(n int) func(*testing.T, int) {
		return func(t *testing.T, target int) { unix.Read(target, make([]byte, n)) }
	}
	acts := map[string]func(t *testing.T, target int){
		"reads nothing": read(0),
		"reads a byte":  read(1),
		"reads a page":  read(4096),
		"reads 5000":    read(5000),
		"reads all":     read(1 << 20),
		"enlarges":      func(t *testing.T, target int) { unix.FcntlInt(uintptr(target), unix.F_SETPIPE_SZ, pipeSize) },
		"writes":        func(t *testing.T, target int) { write(t, target, 100) },
		"writes a lot":  func(t *testing.T, target int) { write(t, target, 300_000) },
		"reads, enlarges": func(t *testing.T, target int) {
			read(1<<20)(t, target)
			unix.FcntlInt(uintptr(target), unix.F_SETPIPE_SZ, pipeSize)
		},
	}
	for name, put := range writers {
		for act, do := range acts {
			t.Run(name+", "+act, func(t *testing.T) {
				r, w := osPipe(t)
				tr, tw, err := Pipe()
				if err != nil {
					t.Fatal(err)
				}
				unix.SetNonblock(tr, true)
				defer unix.Close(tr)
				tee, err := newTee(int(r.Fd()), tr, tw)
				if err != nil {
					t.Fatal(err)
				}
				defer tee.end()
				put(t, w)
				for range 12 { // long enough for the largest pipe
					if n := rest(t, tee); n > 10 {
						t.Errorf("%d steps", n)
					}
					do(t, tr)
				}
				if n := rest(t, tee); n > 10 {
					t.Errorf("%d steps", n)
				}
			})
		}
	}
}

func write(t *testing.T, target, n int) {
	w, err := reopen(target, unix.O_WRONLY|unix.O_NONBLOCK)
	if err == unix.ENXIO {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(w)
	unix.Write(w, make([]byte, n))
}

// fromFile fills a pipe with pages of the page cache.
func fromFile(t *testing.T, w *os.File) {
	fill(t, w, nil)
	f, err := os.Open(tempFile(t, noise(300_000)))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n, err := splice(int(f.Fd()), int(w.Fd()), 300_000); n < 200_000 {
		t.Fatal(n, err)
	}
}

// fromSocket fills a pipe with buffers that are longer than a page.
func fromSocket(t *testing.T, w *os.File) {
	fill(t, w, nil)
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	unix.SetNonblock(fds[1], true)
	unix.Write(fds[1], noise(150_000))
	if n, err := splice(fds[0], int(w.Fd()), 150_000); n < 32<<10 {
		t.Fatal(n, err)
	}
}
