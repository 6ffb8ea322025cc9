package cgroup

import (
	"errors"
	"path"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

const (
	flagsDir   = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC
	flagsRead  = unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NOFOLLOW
	flagsWrite = unix.O_WRONLY | unix.O_CLOEXEC | unix.O_NOFOLLOW
)

// dir is a directory of a cgroup file system. Everything in it is reached by a descriptor of its own or
// of the directory that it is in; the path is for words.
type dir struct {
	fd     int // -1: reached by the parent's
	path   string
	parent *dir
	name   string // in the parent
	procs  int    // descriptor of cgroup.procs or tasks, for writing
	lock   int    // descriptor that holds its flock

	controllers []string // of its hierarchy, in v1
}

// openDir opens one that exists.
func openDir(name string) (*dir, error) {
	fd, err := openAt(unix.AT_FDCWD, name, flagsDir)
	if err != nil {
		return nil, err
	}
	return &dir{fd: fd, path: name, procs: -1, lock: -1}, nil
}

// make makes a child.
func (d *dir) make(name string) (*dir, error) {
	if err := unix.Mkdirat(d.fd, name, 0o755); err != nil {
		return nil, err
	}
	return d.child(name), nil
}

// child is one that exists.
func (d *dir) child(name string) *dir {
	return &dir{fd: -1, path: path.Join(d.path, name), parent: d, name: name, procs: -1, lock: -1}
}

// markInUse locks the directory, so that whoever sweeps leaves it alone. The lock has a descriptor
// of its own: the sandbox's init gets fd in v2, and would hold the lock with it. Without a lock the
// directory is judged by its name.
func (d *dir) markInUse() {
	var err error
	if d.lock, err = d.open(".", flagsDir); err != nil || !locks(d.lock) {
		closeFD(&d.lock)
	}
}

// locks takes the flock of a directory, unless somebody else has it.
func locks(fd int) bool { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil }

// kind is that of the file system.
func (d *dir) kind() (int64, error) {
	var s unix.Statfs_t
	err := unix.Fstatfs(d.fd, &s)
	return int64(s.Type), err
}

// close closes what belongs to the directory itself. The parent is its own.
func (d *dir) close() {
	closeFD(&d.lock)
	closeFD(&d.procs)
	closeFD(&d.fd)
}

// open opens a file in the directory.
func (d *dir) open(name string, flags int) (int, error) {
	if d.fd < 0 {
		return openAt(d.parent.fd, d.name+"/"+name, flags)
	}
	return openAt(d.fd, name, flags)
}

func closeFD(fd *int) {
	if *fd >= 0 {
		_ = unix.Close(*fd)
		*fd = -1
	}
}

func openAt(dir int, name string, flags int) (int, error) {
	return linux.Again(func() (int, error) { return unix.Openat(dir, name, flags, 0) })
}

// file is a short file in the directory: what one read into buf gives.
func (d *dir) file(name string, buf []byte) ([]byte, error) {
	fd, err := d.open(name, flagsRead)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return readStart(fd, buf)
}

// readWhole reads a file of any length. It is for regular files: unlike os.ReadFile it doesn't ask the
// runtime's poller whether it wants them.
func readWhole(name string) (string, error) {
	fd, err := openAt(unix.AT_FDCWD, name, flagsRead)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	text := make([]byte, 0, 8192)
	for {
		if cap(text)-len(text) < 4096 {
			text = append(text, make([]byte, 8192)...)[:len(text)]
		}
		n, err := linux.Again(func() (int, error) { return unix.Read(fd, text[len(text):cap(text)]) })
		if err != nil {
			return "", err
		}
		if n <= 0 {
			return string(text), nil
		}
		text = text[:len(text)+n]
	}
}

// readStart reads a descriptor from its beginning.
func readStart(fd int, buf []byte) ([]byte, error) {
	n, err := linux.Again(func() (int, error) { return unix.Pread(fd, buf, 0) })
	if err != nil {
		return nil, err
	}
	return buf[:n], nil
}

// write writes a file in the directory.
func (d *dir) write(name, text string) error {
	fd, err := d.open(name, flagsWrite)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = linux.Again(func() (int, error) { return unix.Write(fd, []byte(text)) })
	return err
}

// set sets a limit.
func (d *dir) set(name string, n int64) error {
	if err := d.write(name, strconv.FormatInt(n, 10)); err != nil {
		return d.failed(name, err)
	}
	return nil
}

// failed is err with the words for a file in this directory.
func (d *dir) failed(name string, err error) *Error {
	return failed("", "write", path.Join(d.path, name), err)
}

func failed(source Source, op, name string, err error) *Error {
	e := &Error{Source: source, Op: op, Path: name}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		e.Errno, e.Kind = errno, kindOf(errno)
		return e
	}
	e.Kind, e.Why = Failed, err.Error()
	return e
}
