package root

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/child/internal/fault"
	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/linux"
)

// imageCorner is where a tree of the caller's stands in the private root until it
// becomes the root itself.
const imageCorner = ".root"

// imageRoot puts the tree that the plan names in the place of the private root.
// Writes to it, and the mount points that it lacks, go to the scratch tmpfs. Where
// that can't be it is read-only, and has what mount points it has.
func (b *Builder) imageRoot() error {
	if !b.image {
		return nil
	}
	base, m := b.fd, &b.box.Root
	if err := unix.Mkdirat(base, imageCorner, 0o755); err != nil {
		return fault.Of("mkdir", imageCorner, err)
	}
	tree, err := b.imageTree(m)
	if err != nil {
		return err
	}
	if err := moveMount(tree, base, imageCorner); err != nil {
		return err
	}
	b.fd = tree
	if b.fell.RootReadOnly {
		return b.restrictPlaced("/", imageAttr|unix.MOUNT_ATTR_RDONLY, true)
	}
	return b.own(tree, "/")
}

const imageAttr = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV

func (b *Builder) imageTree(m *handoff.Mount) (tree int, err error) {
	lower, mode, err := openSource(m)
	if err != nil {
		return -1, err
	}
	defer unix.Close(lower)
	if b.fell.RootNested = m.ReadOnly; !m.ReadOnly {
		b.out.Places = append(b.out.Places, handoff.Upper{Dst: "/", Dir: b.scratch.nextPart()})
		lowers, err := b.layers.of("/")
		if err != nil {
			return -1, err
		}
		defer linux.CloseAll(lowers)
		if len(lowers) > 0 {
			return b.layers.over(append(slices.Clip(lowers), lower), &b.scratch, "/")
		}
		tree, err = b.newOverlay([]int{lower}, mode&0o7777, &b.scratch)
		if !overlayUnsupported(err) {
			return tree, err
		}
		b.fell.RootNested = fault.Errno(err) == unix.EINVAL && heldBelow(lower)
		if b.refuse.RootReadOnly {
			return -1, refusedOverlay(err, m, b.fell.RootNested)
		}
	}
	b.fell.RootReadOnly = true
	tree, err = unix.OpenTree(lower, "", cloneTree|unix.AT_EMPTY_PATH)
	if err != nil {
		return -1, fault.Of("open_tree", m.Src, err)
	}
	return tree, b.restrict(tree, imageAttr|unix.MOUNT_ATTR_RDONLY, true)
}

// makeFile makes a small file.
func (b *Builder) makeFile(m *handoff.Mount) error {
	if m.Optional {
		return b.imageFile(m)
	}
	at, err := b.ownParent(m.Dst)
	if err != nil {
		return err
	}
	return writeFile(at.fd, at.name, m)
}

// imageFile puts a file of the run's in the place of the tree's. Where nothing can
// be made, because the tree is read-only or its directories are another user's, it
// is mounted on what is there.
func (b *Builder) imageFile(m *handoff.Mount) error {
	at, err := b.parent(m.Dst)
	if err != nil {
		return err
	}
	if at.ours {
		err := fault.Of("unlink", m.Dst, unix.Unlinkat(at.fd, at.name, 0))
		if err == nil || fault.Errno(err) == unix.ENOENT {
			err = writeFile(at.fd, at.name, m)
		}
		if !denied(fault.Errno(err)) {
			return err
		}
	}
	var st unix.Stat_t
	if err := unix.Fstatat(at.fd, at.name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fault.Of("mount (the tree has no such file)", m.Dst, unix.ENOENT) // optional, and left out
	}
	return b.fileOver(m)
}

// fileOver mounts a file of the run's on one of the tree's.
func (b *Builder) fileOver(m *handoff.Mount) error {
	part, err := b.scratch.part(0o700)
	if err != nil {
		return err
	}
	defer unix.Close(part)
	if err := writeFile(part, "file", m); err != nil {
		return err
	}
	tree, err := unix.OpenTree(part, "file", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return fault.Of("open_tree", m.Dst, err)
	}
	defer unix.Close(tree)
	return b.layOver(tree, m.Dst)
}

// denied: nothing can be made there by this user.
func denied(errno unix.Errno) bool {
	return errno == unix.EACCES || errno == unix.EPERM || errno == unix.EROFS || errno == unix.EOVERFLOW
}

// seal makes read-only what the table fills first: private places, and the root.
func (b *Builder) seal() error {
	if b.image && b.box.Root.Sealed {
		if err := b.sealAt(b.fd, "/"); err != nil {
			return err
		}
	}
	for i := range b.box.Mounts {
		m := &b.box.Mounts[i]
		if m.Kind != handoff.MountScratch || !m.ReadOnly {
			continue
		}
		fd, err := b.inside(m.Dst)
		if err != nil {
			return fault.Of("openat2", m.Dst, err)
		}
		err = b.sealAt(fd, m.Dst)
		_ = unix.Close(fd)
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *tree) sealAt(fd int, name string) error {
	err := t.restrict(fd, unix.MOUNT_ATTR_RDONLY, false)
	if err == nil && t.fell.MountSetattr {
		err = fault.Of("mount MS_REMOUNT", name, remount(fd, unix.MOUNT_ATTR_RDONLY))
	}
	return err
}
