package changes

import (
	"errors"
	"io"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

// Read compares what was written over a tree with that. The descriptors stay the caller's.
func Read(t Tree, limits Limits) (*Set, error) {
	r := &reader{uppers: newUppers(t.uppers()), lower: t.Lower, root: t.Path, limits: limits.orDefault(), set: &Set{}, inodes: map[inode][]int{}, same: map[inode]string{}}
	defer r.uppers.restore()
	r.push(place{uppers: r.uppers, lower: true})
	for len(r.todo) > 0 {
		p := r.todo[len(r.todo)-1]
		r.todo = r.todo[:len(r.todo)-1]
		r.waiting -= len(p.path)
		if err := r.directory(p); err != nil {
			return nil, err
		}
	}
	r.finish()
	return r.set, nil
}

// place is a directory that is to be read. They wait in a list, each by its path,
// so that a deep tree holds neither descriptors nor stack.
type place struct {
	path   string
	uppers uppers // those that have it, the highest first
	lower  bool   // there is one in the lower
	opaque bool   // the lower one doesn't show through
}

type inode struct{ dev, ino uint64 }

type reader struct {
	uppers  uppers
	lower   int
	root    string
	limits  Limits
	set     *Set
	todo    []place
	waiting int // bytes of the paths in todo
	listed  int // bytes of the paths and targets in set
	inodes  map[inode][]int
	same    map[inode]string // first name in order whose content isn't changed
}

// companion notes a name that new hard links may be of.
func (r *reader) companion(path string, in inode) {
	old, ok := r.same[in]
	switch {
	case ok && comparePaths(old, path) < 0:
	case ok || len(r.same) < r.limits.Changes && r.listed+len(path) <= r.limits.PathBytes:
		r.listed += len(path) - len(old)
		r.same[in] = path
	}
}

func (r *reader) failed(op, path string, err error) error {
	return failed(op, r.root+"/"+path, err)
}

// deep counts a path that is too long for any system call.
func (r *reader) deep(path string) {
	dir, _ := split(path)
	for len(dir) > linux.MaxPath {
		dir, _ = split(dir)
	}
	if r.set.Deep++; r.set.Deep == 1 {
		r.set.DeepIn = dir
	}
	r.set.DeepIn = common(r.set.DeepIn, dir)
}

func (r *reader) push(p place) {
	if len(p.path) > linux.MaxPath {
		if p.uppers != nil && p.lower { // else emit has counted it
			r.deep(p.path)
		}
		return
	}
	if r.waiting+r.uppers.bytes()+len(p.path) > r.limits.PathBytes {
		r.set.Truncated++
		return
	}
	r.waiting += len(p.path)
	r.todo = append(r.todo, p)
}

func (r *reader) emit(c Change, in inode) {
	r.set.Summary.add(&c)
	size := len(c.Path) + len(c.Target) + 2*len(c.OldTarget) // the base has that too
	if len(c.Path) > linux.MaxPath {
		r.deep(c.Path)
		return
	}
	if len(r.set.Changes) >= r.limits.Changes || r.listed+size > r.limits.PathBytes {
		r.set.Truncated++
		return
	}
	r.listed += size
	r.set.Changes = append(r.set.Changes, c)
	if in != (inode{}) {
		r.inodes[in] = append(r.inodes[in], len(r.set.Changes)-1)
	}
}

// finish names for each hard link the one that it is of, and sorts.
func (r *reader) finish() {
	all := r.set.Changes
	for in, links := range r.inodes {
		first, ok := r.same[in]
		for _, i := range links {
			if !ok && (first == "" || comparePaths(all[i].Path, first) < 0) {
				first = all[i].Path
			}
		}
		for _, i := range links {
			if all[i].Path != first {
				all[i].Link = first
			}
		}
	}
	slices.SortFunc(all, func(a, b Change) int { return comparePaths(a.Path, b.Path) })
}

// directory compares the two merged of one directory.
func (r *reader) directory(p place) error {
	low := -1
	var all merged
	defer func() {
		all.close()
		if low >= 0 {
			_ = unix.Close(low)
		}
	}()
	var err error
	blind := false // the lower one can't be listed
	if p.lower {
		low, err = linux.OpenBeneath(r.lower, p.path, dirFlags)
		if gone(err) || err == unix.ELOOP {
			// It went since its parent was read: then nothing is deleted in it.
			low, err = -1, nil
		}
		if err == unix.EACCES {
			// The run could read it, with the owner's rights to change that; here
			// nobody touches the real tree.
			blind = true
			low, err = linux.OpenBeneath(r.lower, p.path, lookupFlags)
		}
		if err != nil {
			return r.failed("openat2", p.path, err)
		}
	}
	if p.uppers == nil {
		if low < 0 {
			return nil
		}
		return r.deleted(p, low, nil, blind)
	}
	for _, u := range p.uppers {
		fd, err := u.dir(p.path)
		if err != nil {
			return r.failed("openat2 (upper)", p.path, err)
		}
		hides, xwhiteouts := opaque(fd)
		all = append(all, level{u, fd, xwhiteouts})
		if p.opaque = p.opaque || hides; hides { // what is further below, too
			break
		}
	}
	if low >= 0 && p.path != "" {
		if err := r.directoryMode(p.path, all[0], low); err != nil {
			return err
		}
	}
	for i := range all {
		err = names(all[i].fd, func(name string) error {
			if seen, err := all[:i].have(name); err != nil || seen {
				return err
			}
			return r.entry(p, all[i:], low, name)
		})
		if err != nil {
			return r.failed("readdir (upper)", p.path, err)
		}
	}
	if low >= 0 && p.opaque {
		return r.deleted(p, low, all, blind)
	}
	return nil
}

// level is a directory of an upper one.
type level struct {
	upper      *upper
	fd         int
	xwhiteouts bool
}

// merged is one directory as several have it, the highest first.
type merged []level

func (s merged) have(name string) (bool, error) {
	for i := range s {
		if n, err := statAt(s[i].fd, name); err != nil || n.typ != Absent {
			return true, err
		}
	}
	return false, nil
}

func (s merged) close() {
	for i := range s {
		_ = unix.Close(s[i].fd)
	}
}

// below gives those that have a directory of a name that is seen in the first, merged with it. Whatever else stands there,
// a whiteout too, ends that: it hides what is further below.
func (s merged) below(name string) (all uppers, opaque bool, err error) {
	all = uppers{s[0].upper}
	for i := range s[1:] {
		n, err := statAt(s[1+i].fd, name)
		if err != nil {
			return nil, false, err
		}
		switch n.typ {
		case Absent:
		case Dir:
			all = append(all, s[1+i].upper)
		default:
			return all, true, nil
		}
	}
	return all, false, nil
}

// deleted emits what is in the lower directory and not in the upper ones; all of
// it without any. Blind, it can't tell what that is.
func (r *reader) deleted(p place, low int, uppers merged, blind bool) error {
	if blind {
		r.set.Truncated++
		return nil
	}
	err := names(low, func(name string) error {
		if seen, err := uppers.have(name); err != nil || seen {
			return err // entry saw to it
		}
		old, err := statAt(low, name)
		if err != nil {
			return err
		}
		return r.gone(join(p.path, name), low, name, old)
	})
	return r.failed("readdir", p.path, err)
}

// changeOf is the change from old to n.
func changeOf(path string, kind Kind, n, old node) Change {
	return Change{Path: path, Kind: kind, Type: n.typ, Was: old.typ, Mode: n.mode, OldMode: old.mode, UID: n.uid, GID: n.gid, OldUID: old.uid, OldGID: old.gid,
		Size: n.size, OldSize: old.size, MTime: n.mtime}
}

// gone emits the deletion of old; what is below it follows.
func (r *reader) gone(path string, low int, name string, old node) error {
	if old.typ == Absent {
		return nil
	}
	c := changeOf(path, Deleted, node{typ: old.typ, mtime: old.mtime, uid: old.uid, gid: old.gid}, old)
	if old.typ == Symlink {
		var err error
		if c.OldTarget, err = readLink(low, name); err != nil && !changing(err) {
			return err
		}
	}
	r.emit(c, inode{})
	if old.typ == Dir {
		r.push(place{path: path, lower: true})
	}
	return nil
}

// entry compares one name of an upper directory, the first of those that are merged.
func (r *reader) entry(p place, at merged, low int, name string) error {
	path, up := join(p.path, name), at[0]
	n, err := statAt(up.fd, name)
	if err != nil {
		return err
	}
	var old node
	if low >= 0 {
		if old, err = statAt(low, name); err != nil && !closed(err) {
			return err
		}
	}
	hidden := closed(err) // nobody can say what was there
	if up.xwhiteouts && !n.whiteout {
		if n.whiteout, err = xwhiteout(up.fd, name, n); err != nil {
			return err
		}
	}
	if n.whiteout && hidden {
		r.set.Truncated++
		return nil
	}
	if n.whiteout {
		return r.gone(path, low, name, old)
	}
	var uppers uppers
	hides := false
	if n.typ == Dir {
		if uppers, hides, err = at.below(name); err != nil {
			return err
		}
	}
	if n.typ == Dir && old.typ == Dir {
		r.push(place{path: path, uppers: uppers, lower: true, opaque: p.opaque || hides})
		return nil
	}
	c, err := r.compare(path, up, low, name, n, old)
	if err != nil {
		return err
	}
	var in inode
	if n.typ == File && n.nlink > 1 {
		in = n.inode()
	}
	if in != (inode{}) && (c.Kind == "" || c.Kind == ModeOnly) {
		r.companion(path, in)
		in = inode{}
	}
	if c.Kind != "" {
		r.emit(c, in)
	}
	if n.typ == Dir {
		r.push(place{path: path, uppers: uppers})
	}
	if old.typ == Dir {
		r.push(place{path: path, lower: true})
	}
	return nil
}

// compare tells how one name differs; a Change without a kind if it doesn't. Two
// directories are none of its business.
func (r *reader) compare(path string, up level, low int, name string, n, old node) (Change, error) {
	c := changeOf(path, "", n, old)
	var err error
	if n.typ == Symlink {
		if c.Target, err = readLink(up.fd, name); err != nil {
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

func (r *reader) compareFiles(up level, low int, name string, n, old node) (Kind, error) {
	if n.size != old.size {
		return Modified, nil
	}
	a, done, err := up.upper.file(up.fd, name)
	if err != nil {
		return "", err
	}
	defer done()
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

// directoryMode emits the change of a directory that is on both merged.
func (r *reader) directoryMode(path string, up level, low int) error {
	n, err := statFD(up.fd)
	if err != nil {
		return r.failed("fstat (upper)", path, err)
	}
	n.mode = up.upper.mode(path, n.mode)
	old, err := statFD(low)
	if err != nil {
		return r.failed("fstat", path, err)
	}
	kind := ModeOnly
	if n.mode == old.mode && n.uid == old.uid && n.gid == old.gid {
		if kind, err = xattrKind(up.fd, low); err != nil {
			return r.failed("listxattr", path, err)
		}
	}
	if kind != "" {
		r.emit(changeOf(path, kind, n, old), inode{})
	}
	return nil
}

// upper is an overlay's upper directory. What the run made unreadable for its
// owner is made readable as it is met, and put back by restore.
type upper struct {
	fd    int
	loose map[string]uint32 // directories, with the mode that they had
	order []string
	bytes int // of the paths in loose
}

// uppers are those of one tree, the highest first.
type uppers []*upper

func newUppers(fds []int) (all uppers) {
	for _, fd := range fds {
		all = append(all, &upper{fd: fd, loose: map[string]uint32{}})
	}
	return all
}

func (all uppers) restore() {
	for _, u := range all {
		u.restore()
	}
}

func (all uppers) bytes() (n int) {
	for _, u := range all {
		n += u.bytes
	}
	return n
}

// find gives the first that has a path, of which it is known that the run left something there. That hides what others have there.
func (all uppers) find(path string) (*upper, error) {
	dir, name := split(path)
	for _, u := range all[:len(all)-1] {
		at, err := u.dir(dir)
		if gone(err) || err == unix.ENOTDIR || err == unix.ELOOP {
			continue
		}
		if err != nil {
			return nil, err
		}
		n, err := statAt(at, name)
		_ = unix.Close(at)
		if err != nil || n.typ != Absent {
			return u, err
		}
	}
	return all[len(all)-1], nil
}

// dir opens a directory so that it can be read and searched.
func (u *upper) dir(path string) (int, error) {
	fd, err := linux.OpenBeneath(u.fd, path, dirFlags)
	if err == nil {
		n, err := statFD(fd)
		if err != nil {
			_ = unix.Close(fd)
			return -1, err
		}
		if n.mode&0o500 == 0o500 {
			return fd, nil
		}
		_ = unix.Close(fd)
	} else if err != unix.EACCES {
		return -1, err
	}
	for i := range len(path) + 1 { // what is above has to be searched, too
		if i == len(path) || path[i] == '/' {
			if err := u.loosen(path[:i]); err != nil {
				return -1, err
			}
		}
	}
	return linux.OpenBeneath(u.fd, path, dirFlags)
}

// loosen gives the owner of a directory the rights to read and search it.
func (u *upper) loosen(path string) error {
	fd, err := linux.OpenBeneath(u.fd, path, lookupFlags)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	n, err := statFD(fd)
	if err != nil || n.mode&0o500 == 0o500 {
		return err
	}
	if err := unix.Chmod(linux.FDPath(fd), n.mode|0o700); err != nil {
		return err
	}
	u.loose[path] = n.mode
	u.order = append(u.order, path)
	u.bytes += len(path)
	return nil
}

// mode is what the run left, whatever dir made of it.
func (u *upper) mode(path string, now uint32) uint32 {
	if was, ok := u.loose[path]; ok {
		return was
	}
	return now
}

// file opens a regular file of a directory for reading. For as long as it is open its
// owner may read it, or its attributes couldn't be read; done closes it, and puts its mode back.
func (u *upper) file(dir int, name string) (fd int, done func(), err error) {
	if fd, err = openFile(dir, name); err != unix.EACCES {
		return fd, func() { _ = unix.Close(fd) }, err
	}
	path, n, err := openPath(dir, name)
	if err != nil {
		return -1, nil, err
	}
	defer unix.Close(path)
	if n.typ != File {
		return -1, nil, unix.ESTALE
	}
	if err := unix.Chmod(linux.FDPath(path), n.mode|0o600); err != nil {
		return -1, nil, err
	}
	if fd, err = openFile(dir, name); err != nil {
		_ = unix.Chmod(linux.FDPath(path), n.mode)
		return -1, nil, err
	}
	return fd, func() {
		_ = unix.Fchmod(fd, n.mode) // what it was is in the record
		_ = unix.Close(fd)
	}, nil
}

// restore puts the modes back, the deepest first.
func (u *upper) restore() {
	for _, path := range slices.Backward(u.order) {
		fd, err := linux.OpenBeneath(u.fd, path, lookupFlags)
		if err != nil {
			continue // what it was is in the record
		}
		_ = unix.Chmod(linux.FDPath(fd), u.loose[path])
		_ = unix.Close(fd)
	}
	u.loose, u.order = map[string]uint32{}, nil
}

// opaque tells what the overlay noted at an open upper directory: that nothing of
// the lower one shows through, and that empty files in it may be whiteouts.
func opaque(fd int) (hides, xwhiteouts bool) {
	var value [8]byte
	n, err := unix.Fgetxattr(fd, "user.overlay.opaque", value[:])
	if err == nil {
		hides = n == 1 && value[0] == 'y'
		xwhiteouts = n == 1 && value[0] == 'x'
	}
	// Linux 6.7 marked such directories with an attribute of their own.
	if _, err := unix.Fgetxattr(fd, "user.overlay.whiteouts", nil); err == nil {
		xwhiteouts = true
	}
	return hides, xwhiteouts
}

// xwhiteout: an empty file that stands for a whiteout, in a directory that says so.
func xwhiteout(dir int, name string, n node) (bool, error) {
	if n.typ != File || n.size != 0 {
		return false, nil
	}
	fd, _, err := openPath(dir, name)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	_, err = unix.Getxattr(linux.FDPath(fd), "user.overlay.whiteout", nil)
	return err == nil, nil
}
