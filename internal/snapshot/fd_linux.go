package snapshot

import "golang.org/x/sys/unix"

const (
	dirFlags    = unix.O_RDONLY | unix.O_DIRECTORY
	lookupFlags = unix.O_PATH | unix.O_DIRECTORY
)

// node is what stands at a name.
type node struct {
	inode
	mode        uint32 // with its type
	uid, gid    uint32
	links       uint32
	size, mtime int64
	zero        bool // a device that is one has the number 0/0
	mounted     bool // something else covers what is there
}

type inode struct{ dev, ino uint64 }

// stat looks at a name in a directory, at the directory itself without a name.
func stat(dir int, name string) (node, error) {
	flags := unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	var x unix.Statx_t
	err := unix.Statx(dir, name, flags, unix.STATX_BASIC_STATS, &x)
	return node{inode: inode{unix.Mkdev(x.Dev_major, x.Dev_minor), x.Ino}, mode: uint32(x.Mode), uid: x.Uid, gid: x.Gid, links: x.Nlink,
		size: int64(x.Size), mtime: x.Mtime.Sec*1e9 + int64(x.Mtime.Nsec), zero: x.Rdev_major == 0 && x.Rdev_minor == 0,
		mounted: x.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0}, err
}
