package snapshot

import (
	"errors"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

// openBeneath opens path below dir, through no link; "" is dir itself.
func openBeneath(dir int, path string, flags uint64) (int, error) {
	if path == "" {
		path = "."
	}
	return linux.Openat2(dir, path, &unix.OpenHow{Flags: flags | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV})
}

const (
	dirFlags    = unix.O_RDONLY | unix.O_DIRECTORY
	lookupFlags = unix.O_PATH | unix.O_DIRECTORY
)

func procPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// eachXattr calls each with the attributes of an open object. A file system without any has none.
func eachXattr(fd int, each func(name string, value []byte) error) error {
	buf := make([]byte, 1024)
	n, err := unix.Flistxattr(fd, buf)
	if err == unix.ERANGE {
		buf = make([]byte, 64<<10) // XATTR_LIST_MAX
		n, err = unix.Flistxattr(fd, buf)
	}
	if errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	if err != nil || n == 0 {
		return err
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(buf[:n]), "\x00"), "\x00") {
		value := make([]byte, 64<<10) // XATTR_SIZE_MAX
		n, err := unix.Fgetxattr(fd, name, value)
		if err == unix.ENODATA {
			continue
		}
		if err == nil {
			err = each(name, value[:n:n])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// eachName calls each with the names in an open directory.
func eachName(fd int, each func(name string) error) error {
	for e, err := range linux.Dirents(fd, make([]byte, 32<<10)) {
		if err == nil {
			err = each(string(e.Name))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

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
