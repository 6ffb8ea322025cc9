package cgroup

import (
	"errors"
	"path"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	flagsDir   = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC
	flagsRead  = unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NOFOLLOW
	flagsWrite = unix.O_WRONLY | unix.O_CLOEXEC | unix.O_NOFOLLOW
	flagsBoth  = unix.O_RDWR | unix.O_CLOEXEC | unix.O_NOFOLLOW
)

// dir is a directory of a cgroup file system. Everything in it is reached by the
// descriptor; the path is for words.
type dir struct {
	fd   int
	path string
	// Of one that Make made:
	parent int // descriptor of the directory that it is in
	name   string
	procs  int // descriptor of cgroup.procs, for writing
	lock   int // descriptor that holds its flock: see held

	controllers []string // of its hierarchy, in v1
}

// openDir opens one that exists.
func openDir(name string) (*dir, error) {
	fd, err := openAt(unix.AT_FDCWD, name, flagsDir)
	if err != nil {
		return nil, err
	}
	return &dir{fd: fd, path: name, parent: -1, procs: -1, lock: -1}, nil
}

// make makes a child and locks it, so that whoever sweeps sees that it is in use. The lock
// has a descriptor of its own: the sandbox's init gets fd, and would hold the lock with it.
// Without a lock the child is judged by its name.
func (d *dir) make(name string) (*dir, error) {
	if err := unix.Mkdirat(d.fd, name, 0o755); err != nil {
		return nil, err
	}
	c, err := d.child(name)
	if err != nil {
		return nil, err
	}
	if c.lock, err = openAt(d.fd, name, flagsDir); err != nil || !locks(c.lock) {
		closeFD(&c.lock)
	}
	return c, nil
}

// locks takes the flock of a directory, unless somebody else has it.
func locks(fd int) bool { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil }

// child opens a child that was made just now, or removes it again.
func (d *dir) child(name string) (*dir, error) {
	fd, err := openAt(d.fd, name, flagsDir)
	if err != nil {
		_ = unix.Unlinkat(d.fd, name, unix.AT_REMOVEDIR)
		return nil, err
	}
	return &dir{fd: fd, path: path.Join(d.path, name), parent: d.fd, name: name, procs: -1, lock: -1}, nil
}

// close closes what belongs to the directory itself. The parent is its own.
func (d *dir) close() {
	closeFD(&d.lock)
	closeFD(&d.procs)
	closeFD(&d.fd)
}

func closeFD(fd *int) {
	if *fd >= 0 {
		_ = unix.Close(*fd)
		*fd = -1
	}
}

func openAt(dir int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// file is a file in the directory, whole, in buf or a longer one.
func (d *dir) file(name string, buf []byte) ([]byte, error) {
	return readFile(d.fd, name, buf)
}

func readFile(dir int, name string, buf []byte) ([]byte, error) {
	fd, err := openAt(dir, name, flagsRead)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return readAll(fd, buf)
}

// readAll reads from the descriptor's place on. The kernel gives what it has at
// once, up to a page; the read that says there is no more is needed only near that.
func readAll(fd int, buf []byte) ([]byte, error) {
	for n := 0; ; {
		if n == len(buf) {
			buf = append(buf, make([]byte, max(len(buf), 4096))...)
		}
		got, err := unix.Read(fd, buf[n:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		if n += got; got == 0 || n < 1024 {
			return buf[:n], nil
		}
	}
}

// readAgain reads a descriptor from its beginning.
func readAgain(fd int, buf []byte) ([]byte, error) {
	for {
		n, err := unix.Pread(fd, buf, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		return buf[:n], nil
	}
}

// write writes a file in the directory.
func (d *dir) write(name, text string) error {
	fd, err := openAt(d.fd, name, flagsWrite)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return writeFD(fd, text)
}

func writeFD(fd int, text string) error {
	for {
		_, err := unix.Write(fd, []byte(text))
		if err != unix.EINTR {
			return err
		}
	}
}

// set writes a file, and says what it holds then.
func (d *dir) set(name, text string) (back string, err error) {
	fd, err := openAt(d.fd, name, flagsBoth)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	if err := writeFD(fd, text); err != nil {
		return "", err
	}
	var buf [64]byte
	b, err := readAgain(fd, buf[:])
	return string(b), err
}

// setNumber sets a file to a number, and to want reads it back.
func (d *dir) setNumber(name string, n, want int64) error {
	back, err := d.set(name, strconv.FormatInt(n, 10))
	if err != nil {
		return d.failed(name, err)
	}
	if got, ok := number([]byte(back)); !ok || got != want {
		return d.failed(name, unwritten(back))
	}
	return nil
}

// unwritten is what a file held after something else was written to it.
type unwritten string

func (u unwritten) Error() string { return "reads back as " + strconv.Quote(string(u)) }

// failed is err with the words for a file in this directory.
func (d *dir) failed(name string, err error) *Error {
	return failed("", "write", path.Join(d.path, name), err)
}

func failed(source Source, op, name string, err error) *Error {
	e := &Error{Source: source, Op: op, Path: name}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		e.Errno, e.Kind = errno, kindOf(errno)
		return e
	}
	e.Kind, e.Why = Failed, err.Error()
	return e
}
