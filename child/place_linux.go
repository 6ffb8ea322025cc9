package child

import (
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
)

// openSource opens what the plan resolved, once, without following any link,
// and refuses anything else that stands there now.
func openSource(m *handoff.Mount) (fd int, dir bool, err error) {
	how := unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_NO_SYMLINKS,
	}
	fd, err = unix.Openat2(unix.AT_FDCWD, m.Src, &how)
	if err != nil {
		return -1, false, fault("openat2", m.Src, err)
	}
	if dir, err = identify(fd, m); err != nil {
		_ = unix.Close(fd)
	}
	return fd, dir, err
}

// cloneSource copies the mount at what the plan resolved, with everything below
// it. A link on the way, put there since, leads to something else than the plan's
// device and inode, and is refused like any other replacement.
func cloneSource(m *handoff.Mount) (tree int, dir bool, err error) {
	if m.Ino == 0 {
		fd, dir, err := openSource(m)
		if err != nil {
			return -1, false, err
		}
		defer unix.Close(fd)
		tree, err = unix.OpenTree(fd, "", cloneTree|unix.AT_EMPTY_PATH)
		return tree, dir, fault("open_tree", m.Src, err)
	}
	tree, err = unix.OpenTree(unix.AT_FDCWD, m.Src, cloneTree|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return -1, false, fault("open_tree", m.Src, err)
	}
	dir, err = identify(tree, m)
	if err != nil {
		_ = unix.Close(tree)
	}
	return tree, dir, err
}

const cloneTree = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_RECURSIVE

// identify holds what was opened against the plan.
func identify(fd int, m *handoff.Mount) (dir bool, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, fault("fstat", m.Src, err)
	}
	if m.Ino != 0 && (uint64(st.Dev) != m.Dev || st.Ino != m.Ino) {
		return false, fault("open_tree (replaced during set-up)", m.Src, unix.ESTALE)
	}
	return st.Mode&unix.S_IFMT == unix.S_IFDIR, nil
}

// inside opens a path of the new root, by descriptor, following no link.
func (s *state) inside(path string) (int, error) {
	path = strings.TrimPrefix(path, "/")
	if path == "" {
		path = "."
	}
	return unix.Openat2(s.rootFD, path, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH,
	})
}

// attachAt mounts tree at dst and closes it. The mount point, and what leads to
// it, is made where that is a file system of ours, and never in the caller's tree.
// No link is followed: not on the way, which parent opens, nor at the end.
func (s *state) attachAt(tree int, dst string, isDir bool) error {
	defer unix.Close(tree)
	if dst == "/" {
		return fault("move_mount", dst, unix.EBUSY)
	}
	at, err := s.parent(dst)
	if err != nil {
		return err
	}
	if at.ours {
		if isDir {
			err = unix.Mkdirat(at.fd, at.name, 0o755)
		} else {
			err = unix.Mknodat(at.fd, at.name, unix.S_IFREG|0o644, 0)
		}
		if err != nil && err != unix.EEXIST {
			return fault("mkdir", dst, err)
		}
	}
	err = unix.MoveMount(tree, "", at.fd, at.name, unix.MOVE_MOUNT_F_EMPTY_PATH)
	if err == unix.ENOENT {
		return notOurs(dst)
	}
	s.forget(dst)
	return fault("move_mount", dst, err)
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
func (s *state) parent(dst string) (at point, err error) {
	i := strings.LastIndexByte(dst, '/')
	up, name := dst[:i], dst[i+1:]
	if up == "" {
		up = "/"
	}
	for n := len(s.way); n > 0 && !within(up, s.way[n-1].path); n-- {
		s.forget(s.way[n-1].path)
	}
	for {
		dir, next, path := &place{fd: s.rootFD}, ".", "/"
		if n := len(s.way); n > 0 {
			if dir = &s.way[n-1]; dir.path == up {
				return point{dir.fd, dir.below(name), s.ours(dir)}, nil
			}
			next, _, _ = strings.Cut(strings.TrimPrefix(up[len(dir.path):], "/"), "/")
			path = strings.TrimSuffix(dir.path, "/") + "/" + next
		}
		below, err := dir.enter(next, path, len(s.way) > 0 && s.ours(dir))
		if err != nil {
			return point{}, err
		}
		s.way = append(s.way, below)
	}
}

// enter finds what a directory has by a name, and makes it before if it is missing and the directory ours.
func (dir *place) enter(name, path string, ours bool) (below place, err error) {
	below = place{path: path, dev: dir.dev, fd: dir.fd, way: dir.below(name)}
	if ours { // mostly it is missing
		if err := unix.Mkdirat(below.fd, below.way, 0o755); err != unix.EEXIST {
			return below, fault("mkdir", path, err)
		}
	}
	below.fd, err = unix.Openat2(below.fd, below.way, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH})
	if err == unix.ENOENT {
		return below, notOurs(path)
	}
	if err != nil {
		return below, fault("openat2", path, err)
	}
	below.way = ""
	var st unix.Stat_t
	if err := unix.Fstat(below.fd, &st); err != nil {
		_ = unix.Close(below.fd)
		return below, fault("fstat", path, err)
	}
	below.dev = uint64(st.Dev)
	return below, nil
}

// forget lets go of the directories that something was mounted on, or above.
func (s *state) forget(dst string) {
	for n := len(s.way); n > 0 && within(s.way[n-1].path, dst); n-- {
		if s.way[n-1].way == "" {
			_ = unix.Close(s.way[n-1].fd)
		}
		s.way = s.way[:n-1]
	}
}

// within says whether a path is a directory's or below it.
func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir) && path[len(dir)] == '/'
}

// ours says whether a directory lies on one of the file systems made here.
// Anything else is the caller's, where nothing is ever made.
func (s *state) ours(dir *place) bool {
	for _, dev := range s.devs {
		if dir.dev == dev {
			return true
		}
	}
	return false
}

func notOurs(path string) error {
	return fault("mkdir (a mount point is never made in the caller's tree)", path, unix.EROFS)
}

// own remembers a file system that was made here.
func (s *state) own(fd int, path string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fault("fstat", path, err)
	}
	s.devs = append(s.devs, uint64(st.Dev))
	return nil
}

// makeDir makes dst and what leads to it. What is there already stays.
func (s *state) makeDir(dst string, mode uint32) error {
	if dst == "/" {
		return nil
	}
	at, err := s.parent(dst)
	if err != nil {
		return err
	}
	if !at.ours {
		fd, err := s.inside(dst)
		if err != nil {
			return notOurs(dst)
		}
		return fault("close", dst, unix.Close(fd))
	}
	err = unix.Mkdirat(at.fd, at.name, mode)
	if err == unix.EEXIST {
		err = nil
	}
	return fault("mkdir", dst, err)
}

// makeFile makes a small file.
func (s *state) makeFile(m *handoff.Mount) error {
	if m.Optional {
		return s.imageFile(m)
	}
	at, err := s.parent(m.Dst)
	if err != nil {
		return err
	}
	if !at.ours {
		return notOurs(m.Dst)
	}
	return writeFile(at.fd, at.name, m)
}

func writeFile(dir int, name string, m *handoff.Mount) error {
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, m.Mode)
	if err != nil {
		return fault("open", m.Dst, err)
	}
	defer unix.Close(fd)
	for text := unsafe.Slice(unsafe.StringData(m.Text), len(m.Text)); len(text) > 0; {
		n, err := unix.Write(fd, text)
		if err != nil {
			return fault("write", m.Dst, err)
		}
		text = text[n:]
	}
	return nil
}

func (s *state) makeSymlink(m *handoff.Mount) error {
	at, err := s.parent(m.Dst)
	if err != nil {
		return err
	}
	if !at.ours {
		return notOurs(m.Dst)
	}
	return fault("symlink", m.Dst, unix.Symlinkat(m.Text, at.fd, at.name))
}
