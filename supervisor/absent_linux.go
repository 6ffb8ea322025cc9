package supervisor

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

// removeAbsent removes what came to be at protected paths that did not exist
// when the run was planned: a git hook or an editor's settings left there would
// be run by the caller's own programs. Nothing is followed on the way: the
// target may have left links. It gives the paths that it removed.
func removeAbsent(paths []string) (removed []string) {
	for _, path := range paths {
		dir, err := unix.Openat2(unix.AT_FDCWD, filepath.Dir(path), &unix.OpenHow{
			Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_NO_SYMLINKS,
		})
		if err != nil {
			continue // its directory isn't there, or is a link now: not the protected place
		}
		if removeAt(dir, filepath.Base(path)) == nil {
			removed = append(removed, path)
		}
		_ = unix.Close(dir)
	}
	return removed
}

// removeAt removes name in dir, with everything below it.
func removeAt(dir int, name string) error {
	err := unix.Unlinkat(dir, name, 0)
	if err != unix.EISDIR && err != unix.EPERM {
		return err
	}
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == unix.EACCES {
		_ = unix.Fchmodat(dir, name, 0o700, unix.AT_SYMLINK_NOFOLLOW)
		fd, err = unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_ = unix.Fchmod(fd, 0o700)
	names, err := listNames(fd)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := removeAt(fd, n); err != nil {
			return err
		}
	}
	return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
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
