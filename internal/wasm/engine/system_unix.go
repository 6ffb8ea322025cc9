//go:build unix

package engine

import (
	"os"
	"path"
	"strings"
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

// inodeIn is the number of a file in a directory; 0: it is gone.
func inodeIn(dir *os.File, name string) uint64 {
	var st unix.Stat_t
	if unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return 0
	}
	return uint64(st.Ino)
}

// rename is os.Root's, which refuses a directory that takes the place of an empty one.
func rename(in *os.Root, from, to string) error {
	var parents [2]*os.File
	var names [2]string
	for i, name := range [...]string{from, to} {
		bare := strings.TrimSuffix(name, "/")
		parent, err := in.OpenFile(path.Dir(bare), os.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		defer parent.Close()
		parents[i], names[i] = parent, path.Base(bare)+name[len(bare):]
	}
	return unix.Renameat(int(parents[0].Fd()), names[0], int(parents[1].Fd()), names[1])
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
