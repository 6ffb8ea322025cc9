package supervisor

import (
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

// removeAbsent removes what came to be at protected paths that did not exist
// when the run was planned: a git hook or an editor's settings left there would
// be run by the caller's own programs. Nothing is followed on the way: the
// target may have left links. It gives what it removed, and what it could not.
//
// clear are directories that were missing on the way to them. A link there, or a
// file that says where to look instead, as git's do, is removed first.
//
// Nearly all of them are in one directory, which is opened once for those that follow each other.
func removeAbsent(paths, clear []string) (removed, left []string) {
	at, dir := "", -1
	defer func() { _ = unix.Close(dir) }()
	for i, path := range append(slices.Clone(clear), paths...) {
		if in := filepath.Dir(path); in != at {
			fd, err := linux.OpenPath(in, unix.O_DIRECTORY)
			if err == unix.EACCES {
				left = append(left, path) // a directory on the way was closed: what is behind it can't be told
				continue
			}
			if err != nil {
				continue // its directory isn't there, or is a link now: not the protected place
			}
			_ = unix.Close(dir)
			at, dir = in, fd
		}
		if i < len(clear) && isDir(dir, filepath.Base(path)) {
			continue
		}
		switch removeAt(dir, filepath.Base(path)) {
		case nil:
			removed = append(removed, path)
		case unix.ENOENT:
		default:
			left = append(left, path)
		}
	}
	return removed, left
}

func isThere(dir int, name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != unix.ENOENT
}

func isDir(dir int, name string) bool {
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
}

// removeAt removes name in dir, with everything below it. The target, whose uid is
// the caller's, may have taken permissions away; they are given back to remove it.
func removeAt(dir int, name string) error {
	err := unix.Unlinkat(dir, name, 0)
	if err == unix.EROFS && !isThere(dir, name) {
		return unix.ENOENT // a read-only mount is refused first
	}
	if err == unix.EACCES {
		restore, chmodErr := openUp(dir)
		if chmodErr != nil {
			return err
		}
		defer restore()
		err = unix.Unlinkat(dir, name, 0)
	}
	if err != unix.EISDIR && err != unix.EPERM {
		return err
	}
	return removeTree(dir, name)
}

// openUp makes a directory writable for its owner for as long as that is needed.
func openUp(dir int) (restore func(), err error) {
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil {
		return nil, err
	}
	self := "/proc/self/fd/" + strconv.Itoa(dir) // fchmod takes no O_PATH
	if err := unix.Chmod(self, st.Mode&0o7777|0o700); err != nil {
		return nil, err
	}
	return func() { _ = unix.Chmod(self, st.Mode&0o7777) }, nil
}

// removeTree removes a directory however deep it is, with two descriptors: what
// stands in a directory below is first moved up beside it.
func removeTree(top int, name string) error {
	queue := []string{name}
	for n := 0; len(queue) > 0; {
		current := queue[len(queue)-1]
		more, err := emptyInto(top, current, &n)
		if err != nil {
			return err
		}
		if len(more) > 0 {
			queue = append(queue, more...)
			continue
		}
		if err := unix.Unlinkat(top, current, unix.AT_REMOVEDIR); err != nil {
			return err
		}
		queue = queue[:len(queue)-1]
	}
	return nil
}

// emptyInto removes the files of a directory, and moves its directories to top.
func emptyInto(top int, name string, n *int) (moved []string, err error) {
	path, err := unix.Openat(top, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(path)
	if _, err := openUp(path); err != nil {
		return nil, err
	}
	dir, err := unix.Openat(path, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	names, err := listNames(dir)
	if err != nil {
		return nil, err
	}
	for _, entry := range names {
		err := unix.Unlinkat(dir, entry, 0)
		if err != unix.EISDIR && err != unix.EPERM {
			if err != nil {
				return moved, err
			}
			continue
		}
		// Moving a directory writes to it: its ".." changes.
		sub, err := unix.Openat(dir, entry, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return moved, err
		}
		_, err = openUp(sub)
		_ = unix.Close(sub)
		if err != nil {
			return moved, err
		}
		*n++
		beside := ".confine-removing-" + strconv.Itoa(unix.Getpid()) + "-" + strconv.Itoa(*n)
		if err := unix.Renameat(dir, entry, top, beside); err != nil {
			return moved, err
		}
		moved = append(moved, beside)
	}
	return moved, nil
}

func listNames(fd int) (names []string, err error) {
	buf := make([]byte, 8<<10)
	for {
		n, err := unix.Getdents(fd, buf)
		if err != nil || n == 0 {
			return names, err
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
}
