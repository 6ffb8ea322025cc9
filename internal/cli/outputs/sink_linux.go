package outputs

import (
	"path"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

// pathOnly is of a descriptor that only names a file.
const pathOnly = unix.O_PATH

// openDir opens a directory and follows no link.
func openDir(dir string) (int, error) {
	at, err := linux.OpenPath(path.Clean(dir), unix.O_DIRECTORY)
	if err != nil {
		return -1, err
	}
	defer unix.Close(at)
	return unix.Openat(at, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// unnamed makes a file without a name, or gives -1 where there is none (NFS, FUSE, and
// overlayfs before Linux 6.1).
func (s *Sink) unnamed() int {
	fd, err := retry(func() (int, error) {
		return unix.Openat(s.dir, ".", unix.O_WRONLY|unix.O_TMPFILE|unix.O_CLOEXEC, sinkMode)
	})
	if err != nil {
		return -1
	}
	return fd
}

// link gives such a file a name.
func link(fd, dir int, name string) error {
	return unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), dir, name, unix.AT_SYMLINK_FOLLOW)
}
