package root

import (
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/child/internal/fault"
	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/linux"
)

// mountAll works through the mount table, in its order.
func (b *Builder) mountAll() error {
	for i := 0; ; i++ {
		if i == len(b.box.Mounts) { // what the bounds show comes last
			if err := b.bounds.wait(b.box); err != nil {
				return err
			}
		}
		if i == len(b.box.Mounts) {
			break
		}
		m := &b.box.Mounts[i]
		if m.Instead && !b.fell.EtcChosen {
			continue
		}
		if err := b.mount(m); err == errUnsearchable {
			b.out.Skipped = append(b.out.Skipped, uint32(i))
		} else if err != nil {
			errno := fault.Errno(err)
			if !m.Optional || errno != unix.EACCES && errno != unix.ENOENT && (!b.image || !denied(errno)) {
				return err
			}
			b.out.Skipped = append(b.out.Skipped, uint32(i))
		}
	}
	if err := b.seal(); err != nil {
		return err
	}
	if err := b.boundFiles(); err != nil {
		return err
	}
	linux.CloseAll(b.layers.dirs)
	b.layers.judge()
	return nil
}

func (b *Builder) mount(m *handoff.Mount) error {
	switch m.Kind {
	case handoff.MountDir:
		return b.makeDir(m.Dst, m.Mode)
	case handoff.MountFile:
		return b.layers.unlessLeft(b.makeFile(m))
	case handoff.MountSymlink:
		return b.layers.unlessLeft(b.makeSymlink(m))
	case handoff.MountBind:
		return b.bind(m)
	case handoff.MountScratch:
		return b.private(m)
	case handoff.MountTmpfs:
		return b.tmpfs(m)
	case handoff.MountOverlay:
		return b.overlay(m)
	case handoff.MountProc:
		return b.proc(m)
	case handoff.MountDevpts:
		fd, err := newFS("devpts", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC,
			"newinstance", "", "ptmxmode", "0666", "mode", "0620", "max", strconv.FormatInt(m.Size, 10))
		if err != nil {
			return err
		}
		return b.attachAt(fd, m.Dst, true)
	case handoff.MountBeneath:
		return b.beneath(m)
	case handoff.MountAbsent:
		return b.absent(m)
	case handoff.MountMask:
		return b.masker.mask(m)
	case handoff.MountReadOnly:
		return b.masker.again(m, unix.MOUNT_ATTR_RDONLY)
	case handoff.MountPin:
		return b.masker.again(m, 0)
	}
	return fault.Of("mount", m.Dst, unix.EINVAL)
}

// bind shows a tree of the caller's.
func (b *Builder) bind(m *handoff.Mount) error {
	tree, mode, err := cloneSource(m)
	if err != nil {
		return err
	}
	return b.show(tree, m, isDir(mode))
}

// clone shows a copy of the mount at fd, with everything below.
func (b *Builder) clone(fd int, m *handoff.Mount, dir bool) error {
	tree, err := unix.OpenTree(fd, "", cloneTree|unix.AT_EMPTY_PATH)
	if err != nil {
		return fault.Of("open_tree", m.Src, err)
	}
	return b.show(tree, m, dir)
}

// show restricts tree as m says, and attaches it.
func (b *Builder) show(tree int, m *handoff.Mount, dir bool) error {
	attr := unix.MOUNT_ATTR_NOSUID
	if !m.Device {
		attr |= unix.MOUNT_ATTR_NODEV
	}
	if m.ReadOnly {
		attr |= unix.MOUNT_ATTR_RDONLY
	}
	if err := b.restrict(tree, attr, true); err != nil {
		_ = unix.Close(tree)
		return err
	}
	if err := b.attachAt(tree, m.Dst, dir); err != nil {
		return err
	}
	return b.restrictPlaced(m.Dst, attr, dir)
}

// private shows a part of the scratch tmpfs, over what other boxes have left in its place.
func (b *Builder) private(m *handoff.Mount) error {
	upper := handoff.Upper{Dst: m.Dst, Dir: b.scratch.nextPart()}
	var lowers []int
	if !m.ReadOnly { // else nobody has written there
		var err error
		if lowers, err = b.layers.of(m.Dst); err != nil {
			return err
		}
	}
	defer linux.CloseAll(lowers)
	if len(lowers) > 0 {
		fd, err := b.layers.over(lowers, &b.scratch, m.Dst)
		if err != nil {
			return err
		}
		b.out.Places = append(b.out.Places, upper)
		return b.attachAt(fd, m.Dst, true)
	}
	b.out.Places = append(b.out.Places, upper)
	name, err := b.scratch.newPart(m.Mode)
	if err != nil {
		return err
	}
	// It is a copy of the scratch's own mount, with its attributes.
	tree, err := unix.OpenTree(b.scratch.fd, name, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return fault.Of("open_tree", m.Dst, err)
	}
	return b.attachAt(tree, m.Dst, true)
}

// tmpfs is a private place with a size of its own.
func (b *Builder) tmpfs(m *handoff.Mount) error {
	var fd int
	var err error
	if b.box.Scratch.HandOut {
		fd = b.layers.sized[len(b.sized)]
	} else if fd, err = newSized(b.box, m); err != nil {
		return err
	}
	if err := b.own(fd, m.Dst); err != nil {
		return err
	}
	tree := fd
	if b.box.Scratch.HandOut {
		if tree, err = b.layers.inSized(fd, m); err != nil {
			return err
		}
	}
	root, err := unix.Openat(fd, ".", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) // attachAt closes fd
	if err != nil {
		return fault.Of("open", m.Dst, err)
	}
	b.sized = append(b.sized, root)
	if tree != fd {
		_ = unix.Close(fd)
	}
	return b.attachAt(tree, m.Dst, true)
}

func newSized(box *handoff.Box, m *handoff.Mount) (fd int, err error) {
	options := []string{"mode", octalMode(m.Mode), "size", strconv.FormatInt(m.Size, 10)}
	if n := box.Scratch.Inodes; n > 0 {
		options = append(options, "nr_inodes", strconv.FormatInt(n, 10))
	}
	return newTmpfs(options...)
}

func octalMode(mode uint32) string { return strconv.FormatUint(uint64(mode), 8) }

// overlay shows a tree of the caller's with writes going to the scratch tmpfs.
func (b *Builder) overlay(m *handoff.Mount) error {
	lower, mode, err := openSource(m)
	if err != nil {
		return err
	}
	defer unix.Close(lower)
	upper := handoff.Upper{Dst: m.Dst, Dir: b.scratch.nextPart()}
	lowers, err := b.layers.of(m.Dst)
	if err != nil {
		return err
	}
	defer linux.CloseAll(lowers)
	var fd int
	if len(lowers) > 0 {
		fd, err = b.layers.over(append(slices.Clip(lowers), lower), &b.scratch, m.Dst)
	} else {
		fd, err = b.newOverlay([]int{lower}, mode&0o7777, &b.scratch)
	}
	if err != nil {
		if !overlayUnsupported(err) || len(lowers) > 0 { // what others have left would be missing
			return err
		}
		nested := fault.Errno(err) == unix.EINVAL && heldBelow(lower)
		if b.refuse.OverlayReadOnly {
			return refusedOverlay(err, m, nested)
		}
		b.fell.OverlayReadOnly = true
		b.fell.OverlayNested = b.fell.OverlayNested || nested
		b.flat = append(b.flat, m.Dst)
		// What can't do without writing is led to another place. What the policy sets isn't touched.
		if old, other, ok := strings.Cut(m.Text, "\x00"); ok {
			b.Instead = append(b.Instead, [2]string{old, other})
		}
		ro := *m
		ro.ReadOnly = true
		return b.clone(lower, &ro, isDir(mode))
	}
	if err := b.own(fd, m.Dst); err != nil {
		return err
	}
	if err := b.opaque(upper.Dir); err != nil {
		return err
	}
	b.out.Uppers = append(b.out.Uppers, upper)
	return b.attachAt(fd, m.Dst, true)
}

// opaque looks whether an upper directory takes the attribute by which overlayfs
// notes that a directory hides the one below it. Without, which is a tmpfs before
// Linux 6.6, removing a directory of the tree gives EIO.
func (b *Builder) opaque(part string) error {
	_, err := unix.Getxattr(linux.FDPath(b.scratch.fd)+"/"+part, "user.overlay.opaque", nil)
	if err == unix.ENODATA {
		return nil
	}
	if b.refuse.OverlayKeepDirs {
		return fault.Of("getxattr user.overlay.opaque", "", err)
	}
	b.fell.OverlayKeepDirs = true
	return nil
}

// overlayUnsupported: no overlayfs, none for users, or not over this file system.
func overlayUnsupported(err error) bool {
	errno := fault.Errno(err)
	return errno == unix.ENODEV || errno == unix.EPERM || errno == unix.EINVAL || errno == unix.EACCES
}

// heldBelow says whether something is mounted below fd that came from a user
// namespace with more privileges: what it covers must not be seen, so the kernel
// gives nobody the tree without it, for an overlay or otherwise (EINVAL).
func heldBelow(fd int) bool {
	tree, err := unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err == nil {
		_ = unix.Close(tree)
	}
	return err == unix.EINVAL
}

// refusedOverlay is err, or what it means.
func refusedOverlay(err error, m *handoff.Mount, nested bool) error {
	if nested {
		return fault.Of(handoff.OpNested, m.Src, unix.EINVAL)
	}
	return err
}

// newOverlay takes the next two parts of a scratch file system, the upper directory first. The first of the lower ones is the highest.
func (b *Builder) newOverlay(lowers []int, mode uint32, in *scratch) (fd int, err error) {
	upper, err := in.part(mode)
	if err != nil {
		return -1, err
	}
	defer unix.Close(upper)
	work, err := in.part(0o700)
	if err != nil {
		return -1, err
	}
	defer unix.Close(work)
	options := []string{"lowerdir", linux.FDPath(lowers[0])}
	if len(lowers) > 1 { // one at a time, since Linux 6.5: one text takes no more than 255 bytes
		options = options[:0]
		for _, lower := range lowers {
			options = append(options, "lowerdir+", linux.FDPath(lower))
		}
	}
	// By descriptor: no name is resolved twice, and no ":" or "," in one matters.
	fd, err = newFS("overlay", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV,
		append(options, "upperdir", linux.FDPath(upper), "workdir", linux.FDPath(work), "userxattr", "")...)
	b.layers.stood = b.layers.stood || err == nil
	return fd, err
}
