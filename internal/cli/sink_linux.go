package cli

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"
)

// unnamed makes a file without a name, or gives -1 where there is none (NFS, FUSE, and
// overlayfs before Linux 6.1).
func (s *sink) unnamed() int {
	fd, err := retry(func() (int, error) {
		return unix.Openat(s.dir, ".", unix.O_WRONLY|unix.O_TMPFILE|unix.O_CLOEXEC, sinkMode)
	})
	if err != nil {
		return -1
	}
	return fd
}

// give gives it the final name. linkat(2) replaces nothing: over another file it
// goes by a temporary name. Neither follows what stands there.
func (s *sink) give(fd int) error {
	link := func(name string) error {
		return unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), s.dir, name, unix.AT_SYMLINK_FOLLOW)
	}
	err := link(s.base)
	if !errors.Is(err, unix.EEXIST) {
		return err
	}
	name, err := newName(link)
	if err != nil {
		return err
	}
	if err = unix.Renameat(s.dir, name, s.dir, s.base); err != nil {
		_ = unix.Unlinkat(s.dir, name, 0)
	}
	return err
}
