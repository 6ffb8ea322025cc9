//go:build unix

package engine

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// nonblock: a FIFO that takes a file's place is opened at once, and seen to be one.
const nonblock = syscall.O_NONBLOCK

var signalsOfLimits = []os.Signal{syscall.SIGXFSZ}

func reserve(size uint64) ([]byte, error) {
	if size == 0 {
		return nil, nil
	}
	return unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
}

func setAppend(f *os.File, on bool) error {
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err != nil {
		return err
	}
	flags &^= unix.O_APPEND
	if on {
		flags |= unix.O_APPEND
	}
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETFL, flags)
	return err
}

// writeAt is os.File's, which refuses a file that was opened to be added to.
func writeAt(f *os.File, b []byte, at int64) (n int, err error) {
	for n < len(b) && err == nil {
		var some int
		some, err = unix.Pwrite(int(f.Fd()), b[n:], at+int64(n))
		n += max(some, 0)
	}
	return n, err
}
