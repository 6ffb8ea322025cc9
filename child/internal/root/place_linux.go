package root

import (
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/child/internal/fault"
	"github.com/confine-run/confine/internal/handoff"
)

// tree is the root that is being built.
type tree struct {
	fd    int
	image bool     // a tree of the caller's stands in the place of a private one
	devs  []uint64 // file systems made here: ours to make mount points in
	way   []place  // directories that are kept in mind, each in the one before it

	fell, refuse *handoff.Fallbacks
}

// openSource opens what the plan resolved, once, without following any link,
// and refuses anything else that stands there now.
func openSource(m *handoff.Mount) (fd int, mode uint32, err error) {
	how := unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_NO_SYMLINKS,
	}
	fd, err = unix.Openat2(unix.AT_FDCWD, m.Src, &how)
	if err != nil {
		return -1, 0, fault.Of("openat2", m.Src, err)
	}
	if mode, err = identify(fd, m); err != nil {
		_ = unix.Close(fd)
	}
	return fd, mode, err
}

// cloneSource copies the mount at what the plan resolved, with everything below
// it. A link on the way, put there since, leads to something else than the plan's
// device and inode, and is refused like any other replacement.
func cloneSource(m *handoff.Mount) (tree int, mode uint32, err error) {
	if m.Ino == 0 {
		fd, mode, err := openSource(m)
		if err != nil {
			return -1, 0, err
		}
		defer unix.Close(fd)
		tree, err = unix.OpenTree(fd, "", cloneTree|unix.AT_EMPTY_PATH)
		return tree, mode, fault.Of("open_tree", m.Src, err)
	}
	tree, err = unix.OpenTree(unix.AT_FDCWD, m.Src, cloneTree|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return -1, 0, fault.Of("open_tree", m.Src, err)
	}
	if mode, err = identify(tree, m); err != nil {
		_ = unix.Close(tree)
	}
	return tree, mode, err
}

const cloneTree = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_RECURSIVE

// identify holds what was opened against the plan.
func identify(fd int, m *handoff.Mount) (mode uint32, err error) {
	st, err := stat(fd, m.Src)
	if err == nil && m.Ino != 0 && (uint64(st.Dev) != m.Dev || st.Ino != m.Ino) {
		err = fault.Of("open_tree (replaced during set-up)", m.Src, unix.ESTALE)
	}
	return st.Mode, err
}

func stat(fd int, path string) (st unix.Stat_t, err error) {
	err = unix.Fstat(fd, &st)
	return st, fault.Of("fstat", path, err)
}

func isDir(mode uint32) bool { return mode&unix.S_IFMT == unix.S_IFDIR }

// inside opens a path of the new root, by descriptor, following no link.
func (t *tree) inside(path string) (int, error) {
	path = strings.TrimPrefix(path, "/")
	if path == "" {
		path = "."
	}
	return unix.Openat2(t.fd, path, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH,
	})
}

// attachAt mounts tree at dst and closes it. The mount point, and what leads to
// it, is made where that is a file system of ours, and never in the caller's tree.
// No link is followed: not on the way, which parent opens, nor at the end.
func (t *tree) attachAt(tree int, dst string, dir bool) error {
	defer unix.Close(tree)
	if dst == "/" {
		return fault.Of("move_mount", dst, unix.EBUSY)
	}
	at, err := t.parent(dst)
	if err != nil {
		return err
	}
	if at.ours {
		if dir {
			err = unix.Mkdirat(at.fd, at.name, 0o755)
		} else {
			err = unix.Mknodat(at.fd, at.name, unix.S_IFREG|0o644, 0)
		}
		if err != nil && err != unix.EEXIST {
			return fault.Of("mkdir", dst, err)
		}
	}
	err = unix.MoveMount(tree, "", at.fd, at.name, unix.MOVE_MOUNT_F_EMPTY_PATH)
	if err == unix.ENOENT {
		return notOurs(dst)
	}
	t.forget(dst)
	return fault.Of("move_mount", dst, err)
}

// place is a directory of the new root that is kept in mind, because what comes
// next in the table, which is sorted, often stands in the same one or near.
type place struct {
	path string
	dev  uint64
	fd   int // it, or what the way begins at
	// way leads from fd through directories that were made here one in the other. To walk it
	// costs less than to open each, and nobody else can have put a link there.
	way string
}

// point is a name in a directory of the new root.
type point struct {
	fd   int
	name string // with the directories on the way
	ours bool   // something can be made there
}

// below is the way to what a directory has by a name.
func (dir *place) below(name string) string {
	if dir.way == "" {
		return name
	}
	return dir.way + "/" + name
}

// parent finds the directory that dst stands in, making what is missing on the
// way. All on the way is kept until something elsewhere is asked for.
func (t *tree) parent(dst string) (at point, err error) {
	i := strings.LastIndexByte(dst, '/')
	up, name := dst[:i], dst[i+1:]
	if up == "" {
		up = "/"
	}
	for n := len(t.way); n > 0 && !within(up, t.way[n-1].path); n-- {
		t.forget(t.way[n-1].path)
	}
	for {
		dir, next, path := &place{fd: t.fd}, ".", "/"
		if n := len(t.way); n > 0 {
			if dir = &t.way[n-1]; dir.path == up {
				return point{dir.fd, dir.below(name), t.ours(dir)}, nil
			}
			next, _, _ = strings.Cut(strings.TrimPrefix(up[len(dir.path):], "/"), "/")
			path = strings.TrimSuffix(dir.path, "/") + "/" + next
		}
		below, err := dir.enter(next, path, len(t.way) > 0 && t.ours(dir))
		if err != nil {
			return point{}, err
		}
		t.way = append(t.way, below)
	}
}

// ownParent is parent for what is to be made.
func (t *tree) ownParent(dst string) (at point, err error) {
	if at, err = t.parent(dst); err == nil && !at.ours {
		err = notOurs(dst)
	}
	return at, err
}

// enter finds what a directory has by a name, and makes it before if it is missing and the directory ours.
func (dir *place) enter(name, path string, ours bool) (below place, err error) {
	below = place{path: path, dev: dir.dev, fd: dir.fd, way: dir.below(name)}
	if ours { // mostly it is missing
		if err := unix.Mkdirat(below.fd, below.way, 0o755); err != unix.EEXIST {
			return below, fault.Of("mkdir", path, err)
		}
	}
	below.fd, err = unix.Openat2(below.fd, below.way, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH})
	if err == unix.ENOENT {
		return below, notOurs(path)
	}
	if err != nil {
		return below, fault.Of("openat2", path, err)
	}
	below.way = ""
	st, err := stat(below.fd, path)
	if err != nil {
		_ = unix.Close(below.fd)
		return below, err
	}
	below.dev = uint64(st.Dev)
	return below, nil
}

// forget lets go of the directories that something was mounted on, or above.
func (t *tree) forget(dst string) {
	for n := len(t.way); n > 0 && within(t.way[n-1].path, dst); n-- {
		if t.way[n-1].way == "" {
			_ = unix.Close(t.way[n-1].fd)
		}
		t.way = t.way[:n-1]
	}
}

// within says whether a path is a directory's or below it.
func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir) && path[len(dir)] == '/'
}

// ours says whether a directory lies on one of the file systems made here.
// Anything else is the caller's, where nothing is ever made.
func (t *tree) ours(dir *place) bool {
	return slices.Contains(t.devs, dir.dev)
}

func notOurs(path string) error {
	return fault.Of("mkdir (a mount point is never made in the caller's tree)", path, unix.EROFS)
}

// own remembers a file system that was made here.
func (t *tree) own(fd int, path string) error {
	st, err := stat(fd, path)
	t.devs = append(t.devs, uint64(st.Dev))
	return err
}

// makeDir makes dst and what leads to it. What is there already stays.
func (t *tree) makeDir(dst string, mode uint32) error {
	if dst == "/" {
		return nil
	}
	at, err := t.parent(dst)
	if err != nil {
		return err
	}
	if !at.ours {
		fd, err := t.inside(dst)
		if err != nil {
			return notOurs(dst)
		}
		return fault.Of("close", dst, unix.Close(fd))
	}
	err = unix.Mkdirat(at.fd, at.name, mode)
	if err == unix.EEXIST {
		err = nil
	}
	return fault.Of("mkdir", dst, err)
}

func writeFile(dir int, name string, m *handoff.Mount) error {
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, m.Mode)
	if err != nil {
		return fault.Of("open", m.Dst, err)
	}
	defer unix.Close(fd)
	for text := unsafe.Slice(unsafe.StringData(m.Text), len(m.Text)); len(text) > 0; {
		n, err := unix.Write(fd, text)
		if err != nil {
			return fault.Of("write", m.Dst, err)
		}
		text = text[n:]
	}
	return nil
}

func (t *tree) makeSymlink(m *handoff.Mount) error {
	at, err := t.ownParent(m.Dst)
	if err != nil {
		return err
	}
	return fault.Of("symlink", m.Dst, unix.Symlinkat(m.Text, at.fd, at.name))
}

// layOver mounts a file of the run's own on one of the caller's.
func (t *tree) layOver(file int, dst string) error {
	const attr = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	if err := t.restrict(file, attr, false); err != nil {
		return err
	}
	at, err := t.inside(dst)
	if err != nil {
		return fault.Of("openat2", dst, err)
	}
	defer unix.Close(at)
	if err := moveMount(file, at, ""); err != nil {
		return err
	}
	t.forget(dst)
	return t.restrictPlaced(dst, attr, false)
}
