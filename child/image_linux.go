package child

import (
	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
)

// imageCorner is where a tree of the caller's stands in the private root until it
// becomes the root itself.
const imageCorner = ".root"

func (s *state) hasImage() bool { return s.box.Root.Kind != 0 }

// imageRoot puts the tree that the plan names in the place of the private root.
// Writes to it, and the mount points that it lacks, go to the scratch tmpfs. Where
// that can't be it is read-only, and has what mount points it has.
func (s *state) imageRoot() error {
	if !s.hasImage() {
		return nil
	}
	base, m := s.rootFD, &s.box.Root
	if err := unix.Mkdirat(base, imageCorner, 0o755); err != nil {
		return fault("mkdir", imageCorner, err)
	}
	tree, err := s.imageTree(m)
	if err != nil {
		return err
	}
	if err := moveMount(tree, base, imageCorner); err != nil {
		return err
	}
	s.rootFD = tree
	if s.fellBack.RootReadOnly {
		return s.restrictPlaced("/", imageAttr|unix.MOUNT_ATTR_RDONLY, true)
	}
	return s.own(tree, "/")
}

const imageAttr = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV

func (s *state) imageTree(m *handoff.Mount) (tree int, err error) {
	lower, _, err := openSource(m)
	if err != nil {
		return -1, err
	}
	defer unix.Close(lower)
	var st unix.Stat_t
	if err := unix.Fstat(lower, &st); err != nil {
		return -1, fault("fstat", m.Src, err)
	}
	if s.fellBack.RootNested = m.ReadOnly; !m.ReadOnly {
		s.places = append(s.places, handoff.Upper{Dst: "/", Part: uint32(s.scratch.next)})
		tree, err = s.newOverlay(lower, st.Mode&0o7777)
		f, ok := err.(*failure)
		if !ok || !overlayUnsupported(f.errno) {
			return tree, err
		}
		s.fellBack.RootNested = f.errno == unix.EINVAL && heldBelow(lower)
		if s.box.Refuse.RootReadOnly {
			return -1, refusedOverlay(f, m, s.fellBack.RootNested)
		}
	}
	s.fellBack.RootReadOnly = true
	tree, err = unix.OpenTree(lower, "", cloneTree|unix.AT_EMPTY_PATH)
	if err != nil {
		return -1, fault("open_tree", m.Src, err)
	}
	return tree, s.restrict(tree, imageAttr|unix.MOUNT_ATTR_RDONLY, true)
}

// imageFile puts a file of the run's in the place of the tree's. Where nothing can
// be made, because the tree is read-only or its directories are another user's, it
// is mounted on what is there.
func (s *state) imageFile(m *handoff.Mount) error {
	at, err := s.parent(m.Dst)
	if err != nil {
		return err
	}
	if at.ours {
		err := fault("unlink", m.Dst, unix.Unlinkat(at.fd, at.name, 0))
		f, _ := err.(*failure)
		if f == nil || f.errno == unix.ENOENT {
			err = writeFile(at.fd, at.name, m)
			f, _ = err.(*failure)
		}
		if f == nil || !denied(f.errno) {
			return err
		}
	}
	var st unix.Stat_t
	if err := unix.Fstatat(at.fd, at.name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fault("mount (the tree has no such file)", m.Dst, unix.ENOENT) // optional, and left out
	}
	return s.fileOver(m)
}

// fileOver mounts a file of the run's on one of the tree's.
func (s *state) fileOver(m *handoff.Mount) error {
	part, err := s.scratch.part(0o700)
	if err != nil {
		return err
	}
	defer unix.Close(part)
	if err := writeFile(part, "file", m); err != nil {
		return err
	}
	tree, err := unix.OpenTree(part, "file", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return fault("open_tree", m.Dst, err)
	}
	const attr = imageAttr | unix.MOUNT_ATTR_RDONLY
	if err := s.restrict(tree, attr, false); err != nil {
		_ = unix.Close(tree)
		return err
	}
	if err := s.attachAt(tree, m.Dst, false); err != nil {
		return err
	}
	return s.restrictPlaced(m.Dst, attr, false)
}

// denied: nothing can be made there by this user.
func denied(errno unix.Errno) bool {
	return errno == unix.EACCES || errno == unix.EPERM || errno == unix.EROFS || errno == unix.EOVERFLOW
}

// seal makes private places read-only that the table fills first.
func (s *state) seal() error {
	for i := range s.box.Mounts {
		m := &s.box.Mounts[i]
		if m.Kind != handoff.MountScratch || !m.ReadOnly {
			continue
		}
		fd, err := s.inside(m.Dst)
		if err != nil {
			return fault("openat2", m.Dst, err)
		}
		err = s.restrict(fd, unix.MOUNT_ATTR_RDONLY, false)
		if err == nil && s.fellBack.MountSetattr {
			err = fault("mount MS_REMOUNT", m.Dst, remount(fd, unix.MOUNT_ATTR_RDONLY))
		}
		_ = unix.Close(fd)
		if err != nil {
			return err
		}
	}
	return nil
}
