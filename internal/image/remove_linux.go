package image

import (
	"path"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

func openDir(up int, name string) (int, error) {
	return unix.Openat(up, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// clear takes away what earlier layers left in the directory at dir.
func (x *extractor) clear(dir int, name string) error {
	fd, err := openDir(dir, ".") // an offset of its own
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	names, err := linux.Names(fd)
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
		return linux.RemoveAll(up, base, 0)
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
