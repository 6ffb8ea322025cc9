package changes

import (
	"errors"
	"io"

	"golang.org/x/sys/unix"
)

// compare tells how one name differs; a Change without a kind if it doesn't. Two
// directories are none of its business.
func (r *reader) compare(path string, up, low int, name string, n, old node) (Change, error) {
	c := Change{Path: path, Type: n.typ, Was: old.typ, Mode: n.mode, OldMode: old.mode, UID: n.uid, GID: n.gid, OldUID: old.uid, OldGID: old.gid,
		Size: n.size, OldSize: old.size, MTime: n.mtime}
	var err error
	if n.typ == Symlink {
		if c.Target, err = readLink(up, name); err != nil {
			return c, err
		}
	}
	if old.typ == Symlink {
		if c.OldTarget, err = readLink(low, name); err != nil && !changing(err) {
			return c, err
		}
		err = nil
	}
	switch {
	case old.typ == Absent:
		c.Kind = Added
	case (n.typ == Symlink) != (old.typ == Symlink), n.typ == Symlink && c.Target != c.OldTarget:
		c.Kind = Relinked
	case n.typ != old.typ:
		c.Kind = Modified
	case n.typ == File:
		if c.Kind, err = r.compareFiles(up, low, name, n, old); c.Kind != "" && old.nlink > 1 {
			c.OldLinks = old.nlink
		}
	case n.typ != Symlink && n.mode != old.mode, n.uid != old.uid, n.gid != old.gid:
		c.Kind = ModeOnly
	}
	return c, err
}

// changing: something else stands there than a moment ago.
func changing(err error) bool {
	return err == unix.ENOENT || err == unix.EINVAL || err == unix.ESTALE || err == unix.ELOOP || err == unix.ENXIO
}

func (r *reader) compareFiles(up, low int, name string, n, old node) (Kind, error) {
	if n.size != old.size {
		return Modified, nil
	}
	a, shut, err := r.upper.file(up, name)
	if err != nil {
		return "", err
	}
	defer shut()
	b, err := openFile(low, name)
	if err != nil {
		// Not readable, or not there any more: it can't be said to be the same.
		return Modified, nil
	}
	defer unix.Close(b)
	same, err := sameContent(a, b, n.size)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return "", err
	}
	if !same {
		return Modified, nil
	}
	if n.mode != old.mode || n.uid != old.uid || n.gid != old.gid {
		return ModeOnly, nil
	}
	return xattrKind(a, b)
}

// xattrKind is ModeOnly if the attributes of two open objects differ, the first of the
// upper layer. Those of the second that can't be read are none.
func xattrKind(a, b int) (Kind, error) {
	x, err := xattrs(a)
	if err == nil {
		var y map[string][]byte
		if y, err = xattrs(b); (err == nil || closed(err)) && sameXattrs(x, y) {
			return "", nil
		}
		if closed(err) {
			err = nil
		}
	}
	if err == unix.E2BIG { // more than the kernel lists: not the same, then
		err = nil
	}
	return ModeOnly, err
}

// directoryMode emits the change of a directory that is on both sides.
func (r *reader) directoryMode(path string, up, low int) error {
	n, err := statFD(up)
	if err != nil {
		return r.failed("fstat (upper)", path, err)
	}
	n.mode = r.upper.mode(path, n.mode)
	old, err := statFD(low)
	if err != nil {
		return r.failed("fstat", path, err)
	}
	kind := ModeOnly
	if n.mode == old.mode && n.uid == old.uid && n.gid == old.gid {
		if kind, err = xattrKind(up, low); err != nil {
			return r.failed("listxattr", path, err)
		}
	}
	if kind != "" {
		r.emit(Change{Path: path, Kind: kind, Type: Dir, Was: Dir, Mode: n.mode, OldMode: old.mode,
			UID: n.uid, GID: n.gid, OldUID: old.uid, OldGID: old.gid, MTime: n.mtime}, inode{})
	}
	return nil
}
