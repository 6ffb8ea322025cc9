package tree

import (
	"errors"
	"fmt"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

// reader reads files below one proc without allocating.
type reader struct {
	dir  int
	path []byte
	buf  []byte
	tids []int32
}

const bufSize = 8 << 10

const (
	flagsFile = unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NOCTTY
	flagsDir  = unix.O_RDONLY | unix.O_CLOEXEC | unix.O_DIRECTORY
)

// open opens PID/name, or PID itself when name is empty.
func (r *reader) open(pid int32, name string, flags int) (int, error) {
	r.path = strconv.AppendInt(r.path[:0], int64(pid), 10)
	if name != "" {
		r.path = append(append(r.path, '/'), name...)
	}
	r.path = append(r.path, 0)
	return openat(r.dir, r.path, flags)
}

// openat is unix.Openat for a path that ends in a zero and isn't copied.
func openat(dir int, path []byte, flags int) (int, error) {
	for {
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT, uintptr(dir),
			uintptr(unsafe.Pointer(&path[0])), uintptr(flags), 0, 0, 0)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return -1, errno
		}
		return int(fd), nil
	}
}

// file is PID/name, whole; valid until the next read.
func (r *reader) file(pid int32, name string) ([]byte, error) {
	fd, err := r.open(pid, name, flagsFile)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return r.all(fd)
}

// readOnce reads what there is room for, and closes the file.
func readOnce(fd int, b []byte) (int, error) {
	defer unix.Close(fd)
	return linux.Again(func() (int, error) { return unix.Read(fd, b) })
}

func (r *reader) all(fd int) ([]byte, error) {
	for n := 0; ; {
		if n == len(r.buf) {
			r.buf = append(r.buf, make([]byte, len(r.buf)+bufSize)...)
		}
		got, err := linux.Again(func() (int, error) { return unix.Read(fd, r.buf[n:]) })
		if err != nil {
			return nil, err
		}
		// What is far from filling the page that seq files are made in has been
		// given whole, and the read that would say so can be left out.
		if n += got; got == 0 || n < 2048 {
			return r.buf[:n], nil
		}
	}
}

// stat reads PID/stat.
func (r *reader) stat(pid int32, s *stat) error {
	text, err := r.file(pid, "stat")
	if err != nil {
		return err
	}
	if len(text) == 0 {
		return unix.ESRCH
	}
	if !parseStat(text, s) {
		return fmt.Errorf("%d/stat in proc can't be read: %q", pid, text)
	}
	return nil
}

// statAt reads the stat of the process whose directory was opened.
func (r *reader) statAt(fd int, s *stat) error {
	r.path = append(r.path[:0], "stat\x00"...)
	file, err := openat(fd, r.path, flagsFile)
	if err != nil {
		return err
	}
	defer unix.Close(file)
	text, err := r.all(file)
	if err == nil && !parseStat(text, s) {
		err = unix.ESRCH
	}
	return err
}

// list appends the numbers among the names in a directory.
func (r *reader) list(fd int, pids []int32) ([]int32, error) {
	for e, err := range linux.Dirents(fd, r.room()) {
		if err != nil {
			return pids, err
		}
		pids = appendPID(pids, e.Name)
	}
	return pids, nil
}

// room is a buffer for names.
func (r *reader) room() []byte {
	if len(r.buf) == 0 {
		r.buf = make([]byte, bufSize)
	}
	return r.buf
}

// threads appends the thread ids of a process.
func (r *reader) threads(pid int32, tids []int32) ([]int32, error) {
	fd, err := r.open(pid, "task", flagsDir)
	if err != nil {
		return tids, err
	}
	defer unix.Close(fd)
	return r.list(fd, tids)
}

// gone: the process ended while it was looked at.
func gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH)
}
