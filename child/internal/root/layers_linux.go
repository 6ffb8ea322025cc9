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

// layers are what overlays and private places have below what is written there: what other boxes have
// left, the lowest first.
type layers struct {
	*Builder
	stack  int // the scratches of boxes, to be attached; or -1
	dirs   []int
	stood  bool  // an overlay was made, so that there can be more
	handed []int // for others
	sized  []int // tmpfs of their own size, in the order of the table
}

const cloneFlags = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC

// open mounts the scratches of other boxes below this one's, where the kernel takes them for what overlays
// lie on, and opens all the layers that the plan names. Each scratch has the one before it on a directory of its
// own, and nothing of any of them is seen from inside: they go with the corner.
func (b *layers) open() error {
	if b.box.Scratch.Stacked {
		if err := unix.Mkdirat(b.scratch.fd, handoff.BelowDir, 0o700); err != nil {
			return fault.Of("mkdir", handoff.BelowDir, err)
		}
		if err := moveMount(b.stack, b.scratch.fd, handoff.BelowDir); err != nil {
			return err
		}
		_ = unix.Close(b.stack)
	}
	b.dirs = make([]int, len(b.box.Scratch.Layers))
	above := b.scratch.fd
	for i := len(b.box.Scratch.Layers) - 1; i >= 0; i-- {
		l := &b.box.Scratch.Layers[i]
		if l.Src != "" {
			fd, mode, err := openSource(&handoff.Mount{Src: l.Src, Dev: l.Dev, Ino: l.Ino})
			if err != nil {
				return err
			}
			if b.dirs[i] = fd; !isDir(mode) {
				return fault.Of("open", l.Src, unix.ENOTDIR)
			}
			continue
		}
		fd, err := openIn(above, handoff.BelowDir)
		if err != nil {
			return fault.Of("openat2", handoff.BelowDir, err)
		}
		b.dirs[i], above = fd, fd
	}
	return nil
}

// openIn opens a directory of a layer, which nobody inside has a name for. No link is followed: what is in it was
// written by hostile programs.
func openIn(layer int, dir string) (int, error) {
	return unix.Openat2(layer, dir, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH,
	})
}

// of opens what the layers have of a place, the highest first.
func (b *layers) of(dst string) (fds []int, err error) {
	for i, layer := range slices.Backward(b.dirs) {
		l := &b.box.Scratch.Layers[i]
		dir := strings.TrimPrefix(dst, "/")
		if dir == "" {
			dir = "."
		}
		if l.Src == "" {
			at := slices.IndexFunc(l.Places, func(u handoff.Upper) bool { return u.Dst == dst })
			if at < 0 {
				continue
			}
			dir = l.Places[at].Dir
		}
		fd, err := openIn(layer, dir)
		if err == unix.ENOENT && l.Src != "" {
			continue
		}
		if err != nil {
			linux.CloseAll(fds)
			return nil, fault.Of("openat2 (of a layer)", dst, err)
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

// over makes an overlay of layers, which gets the mode that the highest of them has, in a file system of ours.
// A private place is one without a tree of the caller's below.
func (b *layers) over(lowers []int, in *scratch, dst string) (fd int, err error) {
	st, err := stat(lowers[0], dst)
	if err != nil {
		return -1, err
	}
	fd, err = b.newOverlay(lowers, st.Mode&0o7777, in)
	if err == nil {
		err = b.own(fd, dst)
	}
	return fd, err
}

// unlessLeft is err, unless that is that something is there already, which another box has left.
func (b *layers) unlessLeft(err error) error {
	if len(b.box.Scratch.Layers) > 0 && fault.Errno(err) == unix.EEXIST {
		return nil
	}
	return err
}

// sizedDir is where a tmpfs of its own size is mounted in the scratch of a box that others may stand on.
func sizedDir(n int) string { return handoff.SizedDir + strconv.Itoa(n) }

// inSized gives what is to be shown of a tmpfs of its own size: all of it, or an overlay in it.
func (b *layers) inSized(fs int, m *handoff.Mount) (tree int, err error) {
	dir := sizedDir(len(b.Builder.sized))
	lowers, err := b.of(m.Dst)
	if err != nil {
		return -1, err
	}
	defer linux.CloseAll(lowers)
	if len(lowers) > 0 {
		b.out.Places = append(b.out.Places, handoff.Upper{Dst: m.Dst, Dir: dir + "/0"})
		return b.over(lowers, &scratch{fd: fs}, m.Dst)
	}
	b.out.Places = append(b.out.Places, handoff.Upper{Dst: m.Dst, Dir: dir})
	tree, err = unix.OpenTree(fs, "", cloneFlags|unix.AT_EMPTY_PATH)
	return tree, fault.Of("open_tree", m.Dst, err)
}

// handOut makes the mounts by which others can stand on the scratch: two of the whole, one for who goes on in this box's
// place and one for another, and one of what is below, in the place of that which was used up. What is mounted in the scratch
// for others comes before them, and what is only for this box after: each mount is copied with all others of a stack.
func (b *layers) handOut() error {
	if !b.box.Scratch.HandOut {
		return nil
	}
	for i := range b.box.Mounts {
		m := &b.box.Mounts[i]
		if m.Kind != handoff.MountTmpfs {
			continue
		}
		fd, err := newSized(b.box, m)
		if err != nil {
			return err
		}
		dir := sizedDir(len(b.sized))
		if err := unix.Mkdirat(b.scratch.fd, dir, 0o700); err != nil {
			return fault.Of("mkdir", dir, err)
		}
		if err := moveMount(fd, b.scratch.fd, dir); err != nil {
			return err
		}
		b.sized = append(b.sized, fd)
	}
	dirs := []string{"", ""}
	if b.box.Scratch.Stacked {
		dirs = append(dirs, handoff.BelowDir)
	}
	for _, dir := range dirs {
		flags := uint(cloneTree)
		if dir == "" {
			flags |= unix.AT_EMPTY_PATH
		}
		fd, err := unix.OpenTree(b.scratch.fd, dir, flags)
		if err != nil {
			return fault.Of("open_tree", corner+"/"+dir, err)
		}
		b.handed = append(b.handed, fd)
	}
	return nil
}

// judge says whether anything can stand on the scratch, once everything is in it.
func (b *layers) judge() {
	if !b.box.Scratch.HandOut {
		return
	}
	if b.out.NoLayers = b.try(); b.out.NoLayers != "" {
		linux.CloseAll(b.handed)
		b.handed = nil
	}
}

// try looks whether something can stand on a scratch of this kernel, and names the call that says no.
func (b *layers) try() string {
	if b.fell.OverlayKeepDirs {
		return "getxattr"
	}
	if b.stood || b.box.Scratch.Tried {
		return ""
	}
	part, err := b.scratch.part(0o700)
	if err != nil {
		return "mkdir"
	}
	defer unix.Close(part)
	if _, err := unix.Getxattr(linux.FDPath(part), "user.overlay.opaque", nil); err != unix.ENODATA {
		return "getxattr"
	}
	fd, err := b.newOverlay([]int{part}, 0o700, &b.scratch)
	if err != nil {
		return "overlay"
	}
	_ = unix.Close(fd)
	return ""
}

// underLayer says whether what is to be hidden is where it was, and not to be seen only because a layer has
// something else there, or nothing. Then nobody has moved it away.
func (k *masker) underLayer(m *handoff.Mount) bool {
	if len(k.box.Scratch.Layers) == 0 || m.Dev != 0 {
		return false
	}
	var over *handoff.Mount
	for i := range k.box.Mounts {
		if e := &k.box.Mounts[i]; e.Src != "" && within(m.Dst, e.Dst) && (over == nil || len(e.Dst) >= len(over.Dst)) {
			over = e
		}
	}
	if over == nil && k.image {
		over = &k.box.Root
	}
	if over == nil || over.Kind != handoff.MountOverlay {
		return false
	}
	rel := strings.TrimPrefix(m.Dst, strings.TrimSuffix(over.Dst, "/"))
	fd, _, err := openSource(&handoff.Mount{Src: over.Src + rel})
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	st, err := stat(fd, m.Dst)
	return err == nil && st.Ino == m.Ino
}
