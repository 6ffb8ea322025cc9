//go:build unix

package outputs

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/config"
)

const sinkMode = 0o600 // a report tells what the command line was

// OpenWhole makes sure that a file can be written at the end, in one piece.
func OpenWhole(option, spec string, real RealDir) (*Sink, error) {
	s, err := openSink(option, spec, real)
	if err != nil || s.dir < 0 {
		return s, err
	}
	// The only sure way to learn that a file can be made here is to make one.
	if fd := s.unnamed(); fd >= 0 {
		unix.Close(fd)
		return s, nil
	}
	name, fd, err := s.newFile()
	if err != nil {
		s.Close()
		return nil, s.refuse("openat", "the directory must be writable", err)
	}
	unix.Close(fd)
	if err := unix.Unlinkat(s.dir, name, 0); err != nil {
		s.Close()
		return nil, s.refuse("unlinkat", "", err)
	}
	return s, nil
}

// openEvents opens the file that events are written to as they happen.
func openEvents(spec string, real RealDir) (*Sink, error) {
	s, err := openSink("--events", spec, real)
	if err != nil || s.dir < 0 {
		return s, err
	}
	// O_NONBLOCK: should a FIFO have taken the place since it was looked at, the
	// open fails instead of waiting for a reader.
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_APPEND | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := retry(func() (int, error) { return unix.Openat(s.dir, s.base, flags, sinkMode) })
	if err != nil {
		s.Close()
		return nil, s.refuse("openat", "", err)
	}
	s.fd, s.owned = fd, true
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	if err == nil {
		err = s.ours(&st)
	}
	if err == nil && st.Nlink > 1 {
		err = s.refuse("has another name too (a hard link)", "remove it, or choose another name", nil)
	}
	if err == nil {
		err = unix.Ftruncate(fd, 0)
	}
	if err == nil {
		err = unix.Fchmod(fd, sinkMode)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// openSink finds the place: an inherited descriptor that can be written to, or a
// directory and what stands in it under the name.
func openSink(option, spec string, real RealDir) (*Sink, error) {
	s := &Sink{option: option, spec: spec, fd: -1, dir: -1}
	n, isFD, err := parseFD(option, spec)
	if err != nil {
		return nil, err
	}
	if isFD {
		return s, s.inherit(n)
	}
	dir, base, err := splitPlace(option, spec)
	if err != nil {
		return nil, err
	}
	s.base = base
	if dir, err = real(dir); err != nil {
		var usage *config.UsageError
		if errors.As(err, &usage) {
			err = &config.UsageError{Msg: option + " " + strconv.Quote(spec) + ": " + usage.Msg, Hint: usage.Hint, Err: err}
		}
		return nil, err
	}
	s.dir, err = retry(func() (int, error) { return openDir(dir) })
	if err != nil {
		s.dir = -1
		return nil, s.refuse("open", "the directory must be there and readable", err)
	}
	var st unix.Stat_t
	err = unix.Fstatat(s.dir, base, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case errors.Is(err, unix.ENOENT):
		return s, nil
	case err != nil:
		err = s.refuse("fstatat", "", err)
	default:
		err = s.ours(&st)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// inherit takes over descriptor n. Everything that the caller handed over has
// no close-on-exec flag, or it would not be here; everything that the runtime has
// opened for itself, and that n could hit by chance, has it.
func (s *Sink) inherit(n int) error {
	flags, err := unix.FcntlInt(uintptr(n), unix.F_GETFD, 0)
	if err == nil && flags&unix.FD_CLOEXEC != 0 && n > 2 {
		err = unix.EBADF
	}
	mode := 0
	if err == nil {
		mode, err = unix.FcntlInt(uintptr(n), unix.F_GETFL, 0)
	}
	if err != nil {
		return s.refuse("fcntl", fmt.Sprintf("open the descriptor, as in: confine %s %s -- COMMAND %d>file", s.option, s.spec, n), err)
	}
	if m := mode & unix.O_ACCMODE; m != unix.O_WRONLY && m != unix.O_RDWR || mode&pathOnly != 0 {
		return s.refuse("is not open for writing", "", unix.EBADF)
	}
	if n > 2 {
		unix.CloseOnExec(n)
	}
	s.fd = n
	return nil
}

// ours refuses what stands under the name already, unless it is a file of ours.
func (s *Sink) ours(st *unix.Stat_t) error {
	is, err := "is a device", error(nil)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		is = ""
	case unix.S_IFLNK:
		is, err = "is a symbolic link, which is not followed", unix.ELOOP
	case unix.S_IFDIR:
		is, err = "is a directory", unix.EISDIR
	case unix.S_IFIFO:
		is = "is a FIFO"
	case unix.S_IFSOCK:
		is = "is a socket"
	}
	if is != "" {
		return s.refuse(is, "name a file, or a descriptor as in fd:3", err)
	}
	if int(st.Uid) != unix.Geteuid() {
		return s.refuse("belongs to uid "+strconv.Itoa(int(st.Uid)), "remove it, or choose another name", unix.EPERM)
	}
	return nil
}

// newFile makes a file that nobody knows yet.
func (s *Sink) newFile() (name string, fd int, err error) {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	name = newName()
	fd, err = retry(func() (int, error) { return unix.Openat(s.dir, name, flags, sinkMode) })
	return name, fd, err
}

func newName() string { return ".confine-" + rand.Text() }

// Put writes the whole of b under the final name, or to the descriptor.
//
// The file has no name until it is whole, where the file system can do that: a
// confine that is killed meanwhile leaves nothing. Only where it replaces another
// there is a moment, between two system calls, in which it has a temporary one.
func (s *Sink) Put(b []byte) error {
	if !s.IsFile() {
		return s.write(b)
	}
	fd, name := s.unnamed(), ""
	if fd < 0 {
		var err error
		if name, fd, err = s.newFile(); err != nil {
			return s.failed("openat", err)
		}
	}
	defer unix.Close(fd)
	op, err := "write", WriteAll(fd, b)
	if err == nil && name == "" { // linkat(2) replaces nothing, and follows nothing
		if link(fd, s.dir, s.base) == nil {
			return s.unchanged(fd, int64(len(b)))
		}
		name, op = newName(), "linkat"
		err = link(fd, s.dir, name)
	}
	if err == nil {
		op, err = "renameat", unix.Renameat(s.dir, name, s.dir, s.base)
	}
	if err != nil {
		if name != "" {
			_ = unix.Unlinkat(s.dir, name, 0)
		}
		return s.failed(op, err)
	}
	return s.unchanged(fd, int64(len(b)))
}

// write appends to the descriptor.
func (s *Sink) write(b []byte) error {
	if err := WriteAll(s.fd, b); err != nil {
		return s.failed("write", err)
	}
	s.size += int64(len(b))
	return nil
}

// unchanged checks that the name leads to the file behind fd, and that it has
// the length it should have.
func (s *Sink) unchanged(fd int, size int64) error {
	var byFD, byName unix.Stat_t
	if err := unix.Fstat(fd, &byFD); err != nil {
		return s.failed("fstat", err)
	}
	if err := unix.Fstatat(s.dir, s.base, &byName, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return s.failed("fstatat", err)
	}
	if byFD.Dev != byName.Dev || byFD.Ino != byName.Ino || byFD.Size != size {
		return s.failed("", errChanged)
	}
	// The directory, too, may have been moved away, with another left in its place:
	// what the caller will read is what the name leads to.
	var atPath unix.Stat_t
	if err := unix.Lstat(s.spec, &atPath); err != nil || atPath.Dev != byFD.Dev || atPath.Ino != byFD.Ino {
		return s.failed("", errChanged)
	}
	return nil
}

// finish ends the events.
func (s *Sink) finish() error {
	if !s.owned {
		return nil
	}
	return s.unchanged(s.fd, s.size)
}

func (s *Sink) failed(op string, err error) error {
	if op != "" {
		op += ": "
	}
	return fmt.Errorf("%s %q: %s%w", s.option, s.spec, op, err)
}

// Close ends it.
func (s *Sink) Close() {
	if s.owned {
		unix.Close(s.fd)
	}
	if s.dir >= 0 {
		unix.Close(s.dir)
	}
	s.fd, s.dir, s.owned = -1, -1, false
}

func retry(f func() (int, error)) (int, error) {
	for {
		n, err := f()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// WriteAll writes all of b. It goes around os.File, which ends the process when
// the reader of descriptor 1 or 2 is gone; here that is an error like any other.
func WriteAll(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := unix.Write(fd, b)
		switch err {
		case nil:
			b = b[n:]
		case unix.EINTR:
		case unix.EAGAIN:
			// Somebody made the other end non-blocking: wait until it takes more.
			if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, -1); err != nil && err != unix.EINTR {
				return err
			}
		default:
			return err
		}
	}
	return nil
}
