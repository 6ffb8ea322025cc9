package supervisor

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

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
	at, dir, shut := "", -1, func() {}
	defer func() { shut() }()
	for i, path := range append(slices.Clone(clear), paths...) {
		if in := filepath.Dir(path); in != at {
			fd, close, err := openThrough(in)
			if err == unix.EACCES {
				left = append(left, path) // a directory on the way is closed, and not ours: what is behind it can't be told
				continue
			}
			if err != nil {
				continue // its directory isn't there, or is a link now: not the protected place
			}
			shut()
			at, dir, shut = in, fd, close
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

// openThrough opens a directory by its canonical path. Where the target has closed what is on the
// way, that is open until shut closes it all.
func openThrough(dir string) (fd int, shut func(), err error) {
	if fd, err = linux.OpenPath(dir, unix.O_DIRECTORY); err != unix.EACCES {
		return fd, func() { _ = unix.Close(fd) }, err
	}
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	var undo []func()
	shut = func() {
		for _, f := range slices.Backward(undo) {
			f()
		}
	}
	fd, err = unix.Open("/", flags, 0)
	for name := range strings.SplitSeq(strings.Trim(dir, "/"), "/") {
		if err != nil {
			break
		}
		at := fd
		undo = append(undo, func() { _ = unix.Close(at) })
		if fd, err = unix.Openat(at, name, flags, 0); err == unix.EACCES {
			if restore, failed := openUp(at); failed == nil {
				undo = append(undo, restore)
				fd, err = unix.Openat(at, name, flags, 0)
			}
		}
	}
	if err != nil {
		shut()
		return -1, nil, err
	}
	last := fd
	undo = append(undo, func() { _ = unix.Close(last) })
	return fd, shut, nil
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

// level is a directory on the way down a tree that is removed.
type level struct {
	name string
	ino  uint64
	subs []string // directories in it that are still to be removed
}

// removeTree removes a directory however deep it is, with two descriptors, and needs no space
// and no name for that. What can't be removed keeps nothing else: the first reason comes back.
func removeTree(top int, name string) (first error) {
	failed := func(err error) {
		if first == nil {
			first = err
		}
	}
	var st unix.Stat_t
	if err := unix.Fstat(top, &st); err != nil {
		return err
	}
	at, dir, err := enter(top, name, st.Dev)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(dir) }()
	way := []level{at}
	way[0].subs = emptied(dir, failed)
	for {
		here := &way[len(way)-1]
		if last := len(here.subs) - 1; last >= 0 {
			sub := here.subs[last]
			here.subs = here.subs[:last]
			at, below, err := enter(dir, sub, st.Dev)
			if err != nil {
				failed(err)
				continue
			}
			_ = unix.Close(dir)
			dir = below
			at.subs = emptied(dir, failed)
			way = append(way, at)
			continue
		}
		if len(way) == 1 {
			if err := unix.Unlinkat(top, name, unix.AT_REMOVEDIR); err != nil {
				failed(err)
			}
			return first
		}
		above, err := leave(dir, way[len(way)-2].ino)
		if err != nil {
			failed(err)
			return first
		}
		_ = unix.Close(dir)
		dir = above
		if err := unix.Unlinkat(dir, here.name, unix.AT_REMOVEDIR); err != nil {
			failed(err)
		}
		way = way[:len(way)-1]
	}
}

// enter opens a directory that is to be emptied, as its owner may: on the file system dev, for what somebody
// has mounted is not the target's.
func enter(dir int, name string, dev uint64) (at level, fd int, err error) {
	path, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return at, -1, err
	}
	defer unix.Close(path)
	var st unix.Stat_t
	if err := unix.Fstat(path, &st); err != nil {
		return at, -1, err
	}
	if st.Dev != dev {
		return at, -1, unix.EXDEV
	}
	if _, err := openUp(path); err != nil {
		return at, -1, err
	}
	fd, err = unix.Openat(path, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	return level{name: name, ino: st.Ino}, fd, err
}

// leave opens the directory above, which has to be the one that it was.
func leave(dir int, ino uint64) (above int, err error) {
	above, err = unix.Openat(dir, "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(above, &st); err == nil && st.Ino != ino {
		err = unix.ESTALE
	}
	if err != nil {
		_ = unix.Close(above)
		return -1, err
	}
	return above, nil
}

// emptied removes the files of a directory, and gives its directories.
func emptied(dir int, failed func(error)) (subs []string) {
	names, err := listNames(dir)
	if err != nil {
		failed(err)
	}
	for _, name := range names {
		switch err := unix.Unlinkat(dir, name, 0); err {
		case nil, unix.ENOENT:
		case unix.EISDIR, unix.EPERM:
			subs = append(subs, name)
		default:
			failed(err)
		}
	}
	return subs
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
