package linux

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Openat2 is openat2(2), asked again where something was renamed while ".." was being ruled out.
func Openat2(dir int, path string, how *unix.OpenHow) (fd int, err error) {
	for range 1000 {
		fd, err = unix.Openat2(dir, path, how)
		if err != unix.EAGAIN && err != unix.EINTR {
			break
		}
	}
	return fd, err
}

// OpenPath opens an absolute, clean path without following any link; one at the end is
// opened itself. flags are added to O_PATH. Inside another sandbox there may be no openat2, confine's own included: then
// it is walked, name by name.
func OpenPath(path string, flags int) (fd int, err error) {
	flags |= unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW
	fd, err = unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != unix.ENOSYS {
		return fd, err
	}
	return walk(path, flags)
}

func walk(path string, flags int) (fd int, err error) {
	fd, err = unix.Open("/", unix.O_PATH|unix.O_CLOEXEC|unix.O_DIRECTORY, 0)
	for rest := strings.Trim(path, "/"); rest != "" && err == nil; {
		name, after, more := strings.Cut(rest, "/")
		how := flags
		if more {
			how = unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW
		}
		var next int
		next, err = unix.Openat(fd, name, how, 0)
		_ = unix.Close(fd)
		if err != nil {
			return -1, err
		}
		var st unix.Stat_t
		if err = unix.Fstat(next, &st); err == nil && more && st.Mode&unix.S_IFMT == unix.S_IFLNK {
			err = unix.ELOOP
		}
		if err != nil {
			_ = unix.Close(next)
			return -1, err
		}
		fd, rest = next, after
	}
	return fd, err
}

// OpenUp makes a directory writable for its owner for as long as that is needed.
func OpenUp(dir int) (restore func(), err error) {
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

// OfKernel says whether an open file, also by O_PATH, is one by which the kernel tells of processes and devices, or takes orders: it may be
// the memory of the very program that looks.
func OfKernel(fd int) bool {
	var made unix.Statfs_t
	if unix.Fstatfs(fd, &made) != nil {
		return true
	}
	switch made.Type {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC:
		return true
	}
	return false
}

// Flock takes a lock on an open file, if nobody has one that is against it.
func Flock(fd, how int) error {
	for {
		if err := unix.Flock(fd, how|unix.LOCK_NB); err != unix.EINTR {
			return err
		}
	}
}

// CloseAll closes descriptors.
func CloseAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}
