package image

import (
	"path"
	"syscall"

	"golang.org/x/sys/unix"
)

// removeAll removes what is at name in the directory at up, whatever that is. No
// link is followed.
func removeAll(up int, name string) error {
	err := unix.Unlinkat(up, name, 0)
	if err == nil || err == unix.ENOENT {
		return nil
	}
	if err != unix.EISDIR && err != unix.EPERM {
		return err
	}
	fd, err := openDir(up, name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	names, err := list(fd)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := removeAll(fd, n); err != nil {
			return err
		}
	}
	return unix.Unlinkat(up, name, unix.AT_REMOVEDIR)
}

func openDir(up int, name string) (int, error) {
	return unix.Openat(up, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// list gives all names in a directory.
func list(fd int) (names []string, err error) {
	var buf [16 << 10]byte
	for {
		n, err := unix.Getdents(fd, buf[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return names, err
		}
		_, _, names = syscall.ParseDirent(buf[:n], -1, names)
	}
}

// clear takes away what earlier layers left in the directory at dir.
func (x *extractor) clear(dir int, name string) error {
	fd, err := openDir(dir, ".") // an offset of its own
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	names, err := list(fd)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := x.purge(fd, n, path.Join(name, n)); err != nil {
			return err
		}
	}
	return nil
}

// purge removes one name, but for what the layer at hand has added.
func (x *extractor) purge(up int, base, name string) error {
	if !x.added[name] {
		return removeAll(up, base)
	}
	fd, err := openDir(up, base)
	if err == unix.ENOTDIR || err == unix.ELOOP || err == unix.ENOENT {
		return nil // of this layer itself
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return x.clear(fd, name)
}
