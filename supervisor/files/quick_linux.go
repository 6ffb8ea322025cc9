package files

import (
	"path"
	"sync"

	"golang.org/x/sys/unix"
)

// resolveCached is RESOLVE_CACHED, since Linux 5.12.
const resolveCached = 0x20

// places are file systems that answer at once, because all of them is in this
// machine's memory or on its disks.
type places struct{ quick sync.Map } // device → bool

// local are their magic numbers. Some of them (tmpfs) don't remember what isn't there.
var local = map[int64]bool{
	unix.TMPFS_MAGIC: true, unix.RAMFS_MAGIC: true, unix.EXT4_SUPER_MAGIC: true, unix.XFS_SUPER_MAGIC: true,
	unix.BTRFS_SUPER_MAGIC: true, unix.PROC_SUPER_MAGIC: true, unix.SYSFS_MAGIC: true,
}

// learn looks at a directory's file system; it may have to wait.
func (p *places) learn(fd int) {
	dev, ok := device(fd)
	if !ok {
		return
	}
	if _, known := p.quick.Load(dev); known {
		return
	}
	var fs unix.Statfs_t
	if unix.Fstatfs(fd, &fs) == nil {
		p.quick.Store(dev, local[int64(fs.Type)])
	}
}

func (p *places) are(fd int) bool {
	dev, ok := device(fd)
	if !ok {
		return false
	}
	quick, _ := p.quick.Load(dev)
	return quick == true
}

func device(fd int) (uint64, bool) {
	var st unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &st)
	return unix.Mkdev(st.Dev_major, st.Dev_minor), err == nil
}

// beside looks, in a hurry, for what isn't in the caches, where its directory is and has
// a file system that answers at once.
func (l *look) beside(abs string, link bool) (int, unix.Errno) {
	l.later = true
	dir, err := unix.Openat2(l.root, l.own(path.Dir(abs)), &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS | resolveCached,
	})
	if err != nil {
		return -1, unix.EAGAIN
	}
	defer unix.Close(dir)
	if !l.places.are(dir) {
		return -1, unix.EAGAIN
	}
	fd, err := unix.Openat2(dir, path.Base(abs), &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		l.later = false
		errno, _ := err.(unix.Errno)
		return -1, errno
	}
	var st unix.Statx_t
	if !link && (unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &st) != nil || st.Mode&unix.S_IFMT == unix.S_IFLNK) {
		_ = unix.Close(fd)
		return -1, unix.EAGAIN
	}
	l.later = false
	return fd, 0
}
