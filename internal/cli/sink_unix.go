//go:build unix

package cli

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"

	"golang.org/x/sys/unix"
)

const sinkMode = 0o600 // a report tells what the command line was

// openWhole makes sure that a file can be written at the end, in one piece.
func openWhole(option, spec string) (*sink, error) {
	s, err := openSink(option, spec)
	if err != nil || s.dir < 0 {
		return s, err
	}
	// The only sure way to learn that a file can be made here is to make one.
	if fd := s.unnamed(); fd >= 0 {
		unix.Close(fd)
		return s, nil
	}
	s.named = true
	name, fd, err := s.newFile()
	if err != nil {
		s.close()
		return nil, s.refuse("openat", "the directory must be writable", err)
	}
	unix.Close(fd)
	if err := unix.Unlinkat(s.dir, name, 0); err != nil {
		s.close()
		return nil, s.refuse("unlinkat", "", err)
	}
	return s, nil
}

// openEvents opens the file that events are written to as they happen.
func openEvents(spec string) (*sink, error) {
	s, err := openSink("--events", spec)
	if err != nil || s.dir < 0 {
		return s, err
	}
	// O_NONBLOCK: should a FIFO have taken the place since it was looked at, the
	// open fails instead of waiting for a reader.
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_APPEND | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := retry(func() (int, error) { return unix.Openat(s.dir, s.base, flags, sinkMode) })
	if err != nil {
		s.close()
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
		s.close()
		return nil, err
	}
	return s, nil
}

// openSink finds the place: an inherited descriptor that can be written to, or a
// directory and what stands in it under the name.
func openSink(option, spec string) (*sink, error) {
	s := &sink{option: option, spec: spec, fd: -1, dir: -1}
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
	s.dir, err = retry(func() (int, error) {
		return unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
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
		s.close()
		return nil, err
	}
	return s, nil
}

// inherit takes over descriptor n. Everything that the caller handed over has
// no close-on-exec flag, or it would not be here; everything that the runtime has
// opened for itself, and that n could hit by chance, has it.
func (s *sink) inherit(n int) error {
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
	if m := mode & unix.O_ACCMODE; m != unix.O_WRONLY && m != unix.O_RDWR || isPathOnly(mode) {
		return s.refuse("is not open for writing", "", unix.EBADF)
	}
	if n > 2 {
		unix.CloseOnExec(n)
	}
	s.fd = n
	return nil
}

// ours refuses what stands under the name already, unless it is a file of ours.
func (s *sink) ours(st *unix.Stat_t) error {
	const hint = "name a file, or a descriptor as in fd:3"
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFLNK:
		return s.refuse("is a symbolic link, which is not followed", hint, unix.ELOOP)
	case unix.S_IFDIR:
		return s.refuse("is a directory", hint, unix.EISDIR)
	case unix.S_IFIFO:
		return s.refuse("is a FIFO", hint, nil)
	case unix.S_IFSOCK:
		return s.refuse("is a socket", hint, nil)
	default:
		return s.refuse("is a device", hint, nil)
	}
	if int(st.Uid) != unix.Geteuid() {
		return s.refuse("belongs to uid "+strconv.Itoa(int(st.Uid)), "remove it, or choose another name", unix.EPERM)
	}
	return nil
}

// newFile makes a file that nobody knows yet.
func (s *sink) newFile() (name string, fd int, err error) {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	name, err = newName(func(name string) (err error) {
		fd, err = retry(func() (int, error) { return unix.Openat(s.dir, name, flags, sinkMode) })
		return err
	})
	return name, fd, err
}

// newName gives one that make found free.
func newName(make func(name string) error) (name string, err error) {
	for range 100 {
		name = ".confine-" + strconv.FormatUint(rand.Uint64(), 36)
		if err = make(name); !errors.Is(err, unix.EEXIST) {
			break
		}
	}
	return name, err
}

// put writes the whole of b under the final name, or to the descriptor.
//
// The file has no name until it is whole, where the file system can do that: a
// confine that is killed meanwhile leaves nothing. Only where it replaces another
// there is a moment, between two system calls, in which it has a temporary one.
func (s *sink) put(b []byte) error {
	if s.dir < 0 {
		return s.write(b)
	}
	fd := -1
	if !s.named {
		fd = s.unnamed()
	}
	if fd >= 0 {
		defer unix.Close(fd)
		if err := writeAll(fd, b); err != nil {
			return s.failed("write", err)
		}
		if s.give(fd) == nil {
			return s.unchanged(fd, int64(len(b)))
		}
		// By a name from the beginning, then, or with an error that says why not.
	}
	name, fd, err := s.newFile()
	if err != nil {
		return s.failed("openat", err)
	}
	defer unix.Close(fd)
	err = writeAll(fd, b)
	if err != nil {
		unix.Unlinkat(s.dir, name, 0)
		return s.failed("write", err)
	}
	if err := unix.Renameat(s.dir, name, s.dir, s.base); err != nil {
		unix.Unlinkat(s.dir, name, 0)
		return s.failed("renameat", err)
	}
	return s.unchanged(fd, int64(len(b)))
}

// write appends to the descriptor.
func (s *sink) write(b []byte) error {
	if err := writeAll(s.fd, b); err != nil {
		return s.failed("write", err)
	}
	s.size += int64(len(b))
	return nil
}

// unchanged checks that the name leads to the file behind fd, and that it has
// the length it should have.
func (s *sink) unchanged(fd int, size int64) error {
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
func (s *sink) finish() error {
	if !s.owned {
		return nil
	}
	return s.unchanged(s.fd, s.size)
}

func (s *sink) failed(op string, err error) error {
	if op != "" {
		op += ": "
	}
	return fmt.Errorf("%s %q: %s%w", s.option, s.spec, op, err)
}

func (s *sink) close() {
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
