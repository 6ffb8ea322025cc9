package root

import (
	"strings"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/child/internal/fault"
	"github.com/confine-run/confine/internal/linux"
)

// restrict sets mount attributes, of a whole tree at once where the kernel can
// (mount_setattr, Linux 5.12). Nothing is ever cleared, so that flags which the
// caller's mounts have locked are no obstacle. Where the kernel can't, nothing
// is done yet: see restrictPlaced.
func (t *tree) restrict(tree, attr int, recursive bool) error {
	if t.fell.MountSetattr || attr == 0 {
		return nil
	}
	flags := uint(unix.AT_EMPTY_PATH)
	if recursive {
		flags |= unix.AT_RECURSIVE
	}
	err := unix.MountSetattr(tree, "", flags, &unix.MountAttr{Attr_set: uint64(attr)})
	if err == unix.ENOSYS && !t.refuse.MountSetattr {
		t.fell.MountSetattr = true
		return nil
	}
	return fault.Of("mount_setattr", "", err)
}

// restrictPlaced is the older way: one remount for every mount at and below
// dst, each with the flags that it has already. below: there can be some there, which
// only the kernel's table tells. Reading that for each of thousands of files would take long.
func (t *tree) restrictPlaced(dst string, attr int, below bool) error {
	if !t.fell.MountSetattr || attr == 0 {
		return nil
	}
	if !below {
		fd, err := t.inside(dst)
		if err != nil {
			return fault.Of("openat2", dst, err)
		}
		defer unix.Close(fd)
		return fault.Of("mount MS_REMOUNT", dst, remount(fd, attr))
	}
	table, err := mountTable()
	if err != nil {
		return err
	}
	// The table names mounts as the caller's root sees them, and the new root is
	// mounted over "/", or in a corner of that: exactly dst, and what begins with
	// dst and a slash.
	for _, m := range table {
		point := m.point
		if t.image {
			var ok bool
			if point, ok = strings.CutPrefix(point, "/"+imageCorner); !ok {
				continue
			}
		}
		if point == "" {
			point = "/"
		}
		if point != dst && !strings.HasPrefix(point, strings.TrimSuffix(dst, "/")+"/") {
			continue
		}
		fd, err := t.inside(point)
		if err != nil {
			continue // of the old root, below ours
		}
		err = remount(fd, attr)
		_ = unix.Close(fd)
		if err != nil {
			return fault.Of("mount MS_REMOUNT", m.point, err)
		}
	}
	return nil
}

// remount adds attr to the flags of the mount at fd, which is its root.
func remount(fd, attr int) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return err
	}
	flags := uintptr(unix.MS_REMOUNT | unix.MS_BIND)
	for _, f := range []struct {
		st   int64
		attr int
		ms   uintptr
	}{
		{unix.ST_RDONLY, unix.MOUNT_ATTR_RDONLY, unix.MS_RDONLY},
		{unix.ST_NOSUID, unix.MOUNT_ATTR_NOSUID, unix.MS_NOSUID},
		{unix.ST_NODEV, unix.MOUNT_ATTR_NODEV, unix.MS_NODEV},
		{unix.ST_NOEXEC, unix.MOUNT_ATTR_NOEXEC, unix.MS_NOEXEC},
		{unix.ST_NOATIME, 0, unix.MS_NOATIME},
		{unix.ST_NODIRATIME, 0, unix.MS_NODIRATIME},
		{unix.ST_RELATIME, 0, unix.MS_RELATIME},
	} {
		if int64(fs.Flags)&f.st != 0 || attr&f.attr != 0 {
			flags |= f.ms
		}
	}
	return unix.Mount("", linux.FDPath(fd), "", flags, "")
}
