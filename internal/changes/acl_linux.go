package changes

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

const (
	aclName     = "system.posix_acl_access"
	aclVersion  = 2
	aclGroupObj = 0x04
)

// accessList makes it a conflict that a real object which is replaced has an access
// control list: the new one has none. Should it be forced, the mode's group bits, which
// are the list's mask, don't become rights of the group.
func (c *checking) accessList(e *Entry, dir int, name string, n node) error {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	now, err := statFD(fd)
	if err != nil {
		return err
	}
	if now.ino != n.ino || now.dev != n.dev {
		c.conflict(e.Path, errForeign.Error(), true)
		return nil
	}
	group, has, err := aclGroup(fd)
	if err != nil || !has {
		return err
	}
	c.conflict(e.Path, "has an access control list, which would be lost", false)
	if c.groups == nil {
		c.groups = map[applied]uint32{}
	}
	// Of hard links it is one object: what the strictest list gave.
	if was, ok := c.groups[e.first()]; ok {
		group &= was
	}
	c.groups[e.first()] = group
	return nil
}

// aclGroup is what an open object's access control list gives its group; nothing if
// the list can't be understood.
func aclGroup(fd int) (group uint32, has bool, err error) {
	buf := make([]byte, 64<<10) // XATTR_SIZE_MAX
	n, err := unix.Getxattr(procPath(fd), aclName, buf)
	if err == unix.ENODATA || err == unix.ENOTSUP {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	if n < 4 || binary.LittleEndian.Uint32(buf) != aclVersion {
		return 0, true, nil
	}
	for entry := buf[4:n]; len(entry) >= 8; entry = entry[8:] {
		if binary.LittleEndian.Uint16(entry) == aclGroupObj {
			return uint32(binary.LittleEndian.Uint16(entry[2:])) & 7, true, nil
		}
	}
	return 0, true, nil
}

// mode is what a new object gets.
func (a *applying) mode(e *Entry) uint32 {
	mode := e.wanted()
	if group, ok := a.groups[e.first()]; ok {
		mode &= group<<3 | ^uint32(0o070)
	}
	return mode
}

// first names the object that e is, one of several hard links perhaps.
func (e *Entry) first() applied {
	if e.Link == "" {
		return applied{e.Tree, e.Path}
	}
	return applied{e.Tree, e.Link}
}
