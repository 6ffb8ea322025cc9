package root

import (
	"strings"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/child/internal/fault"
	"github.com/confine-run/confine/internal/handoff"
)

// masker takes from what is mounted already: it hides, makes read-only, and pins.
type masker struct {
	*tree
	box     *handoff.Box
	scratch *scratch
	proc    int     // of the own pid namespace, or -1
	masks   [2]mask // of files, and of directories
	// unsearchable are directories that nobody of the run can search, hidden whole.
	unsearchable []string
}

// again mounts what is at its place over itself, with attr. What isn't there is
// skipped, if it needn't be.
func (k *masker) again(m *handoff.Mount, attr int) error {
	dst := m.Dst
	if name, of := k.ofProc(m); of {
		return k.againInProc(name, m, attr)
	}
	fd, err := k.inside(dst)
	if err == unix.ENOENT || err == unix.ENOTDIR {
		return gone(m)
	}
	if err != nil {
		return fault.Of("openat2", dst, err)
	}
	defer unix.Close(fd)
	st, err := stat(fd, dst)
	if err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		// Protecting a link would not protect what it leads to.
		return fault.Of("fstat (a symbolic link now)", dst, unix.ELOOP)
	}
	tree, err := unix.OpenTree(fd, "", cloneTree|unix.AT_EMPTY_PATH)
	if err != nil {
		return fault.Of("open_tree", dst, err)
	}
	defer unix.Close(tree)
	if err := k.restrict(tree, attr, true); err != nil {
		return err
	}
	if err := moveMount(tree, fd, ""); err != nil {
		return err
	}
	k.forget(dst)
	return k.restrictPlaced(dst, attr, isDir(st.Mode))
}

// ofProc says whether a place is in a proc that was made here, where nobody else changes what there
// is: it needs no look at what stands there.
func (k *masker) ofProc(m *handoff.Mount) (name string, of bool) {
	if k.proc < 0 || m.Ino != 0 || k.fell.MountSetattr {
		return "", false
	}
	name, of = strings.CutPrefix(m.Dst, "/proc/")
	return name, of && !strings.Contains(name, "/")
}

func (k *masker) againInProc(name string, m *handoff.Mount, attr int) error {
	tree, err := unix.OpenTree(k.proc, name, cloneTree|unix.AT_SYMLINK_NOFOLLOW)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return fault.Of("open_tree", m.Dst, err)
	}
	defer unix.Close(tree)
	if err := k.restrict(tree, attr, true); err != nil {
		return err
	}
	if err := moveMount(tree, k.proc, name); err != nil {
		return err
	}
	return k.restrictPlaced(m.Dst, attr, false)
}

// gone: nothing is at the place of m. If something was when the plan was made, it
// was moved away, and is to be seen by another name.
func gone(m *handoff.Mount) error {
	if m.Ino == 0 {
		return nil
	}
	return fault.Of("openat2 (moved away during set-up)", m.Dst, unix.ESTALE)
}

// mask hides what is at dst behind something empty that nobody can open.
func (k *masker) mask(m *handoff.Mount) error {
	if k.inUnsearchable(m.Dst) {
		return errUnsearchable
	}
	if name, of := k.ofProc(m); of {
		return k.maskInProc(name, m)
	}
	fd, err := k.inside(m.Dst)
	if err == unix.ENOENT || err == unix.ENOTDIR {
		if k.underLayer(m) {
			return nil
		}
		return gone(m)
	}
	if err != nil {
		return k.maskUnsearchable(m, err)
	}
	defer unix.Close(fd)
	st, err := stat(fd, m.Dst)
	if err != nil {
		return err
	}
	if m.Dev != 0 && (uint64(st.Dev) != m.Dev || st.Ino != m.Ino) {
		return fault.Of("fstat (replaced during set-up)", m.Dst, unix.ESTALE)
	}
	if err := k.cover(isDir(st.Mode), fd, ""); err != nil {
		return err
	}
	k.forget(m.Dst)
	return k.restrictPlaced(m.Dst, maskAttr, false)
}

// maskInProc hides a file, or a directory, of the proc that was made here.
func (k *masker) maskInProc(name string, m *handoff.Mount) error {
	err := k.cover(false, k.proc, name)
	if fault.Errno(err) == unix.EINVAL {
		err = k.cover(true, k.proc, name)
	}
	if fault.Errno(err) == unix.ENOENT {
		return nil
	}
	if err != nil {
		return err
	}
	return k.restrictPlaced(m.Dst, maskAttr, false)
}

const maskAttr = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC

// cover hides what is at a path behind a copy of a mask. A copy that finds no place is kept for the next.
func (k *masker) cover(dir bool, at int, path string) error {
	m := &k.masks[0]
	if dir {
		m = &k.masks[1]
	}
	if err := k.copyMask(m, dir); err != nil {
		return err
	}
	if err := moveMount(m.copy, at, path); err != nil {
		return err
	}
	_ = unix.Close(m.copy)
	m.copy = 0
	return nil
}

// mask is an empty file or directory that nobody can open, mounted on itself. 0 is none, of both.
type mask struct{ first, copy int }

func (k *masker) copyMask(m *mask, dir bool) (err error) {
	const copyTree = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_EMPTY_PATH
	if m.copy > 0 {
		return nil
	}
	if m.first == 0 {
		empty, err := k.scratch.empty(dir)
		if err != nil {
			return err
		}
		defer unix.Close(empty)
		if m.first, err = unix.OpenTree(empty, "", copyTree); err != nil {
			return fault.Of("open_tree", "mask", err)
		}
		// Copies have its attributes.
		if err := k.restrict(m.first, maskAttr, false); err != nil {
			return err
		}
		if err := moveMount(m.first, empty, ""); err != nil {
			return err
		}
	}
	m.copy, err = unix.OpenTree(m.first, "", copyTree)
	return fault.Of("open_tree", "mask", err)
}

// close lets go of the masks. A copy that is left is mounted on the first: else to close it would unmount it, and each unmount waits until
// no processor looks at the tree any more.
func (k *masker) close() {
	for _, m := range k.masks {
		if m.copy > 0 {
			_ = moveMount(m.copy, m.first, "")
		}
		for _, fd := range [...]int{m.first, m.copy} {
			if fd > 0 {
				_ = unix.Close(fd)
			}
		}
	}
}

// maskUnsearchable is for a place to hide that can't be searched for, in a directory that shuts
// the child out. With capabilities over every id that is mapped that is one of somebody
// else's, or a security module's saying, and the target, which has less, reaches nothing
// in it either. It is hidden whole all the same: its owner can open it while the run
// goes on, and then what was to be hidden would be seen.
//
// Without an own user namespace the capabilities are real, and who is refused then has a
// file server of another mind, which may let the target in.
func (k *masker) maskUnsearchable(m *handoff.Mount, why error) error {
	if why != unix.EACCES || !k.box.Has(unix.CLONE_NEWUSER) {
		return fault.Of("openat2", m.Dst, why)
	}
	dir := "/"
	for i := 1; i < len(m.Dst); i++ {
		if m.Dst[i] != '/' {
			continue
		}
		fd, err := k.inside(m.Dst[:i])
		if err == unix.EACCES {
			break
		}
		if err != nil {
			return fault.Of("openat2", m.Dst[:i], err)
		}
		_ = unix.Close(fd)
		dir = m.Dst[:i]
	}
	if dir == "/" || dir == m.Dst {
		return fault.Of("openat2", m.Dst, why)
	}
	if err := k.mask(&handoff.Mount{Kind: handoff.MountMask, Dst: dir}); err != nil {
		return err
	}
	k.unsearchable = append(k.unsearchable, dir)
	return errUnsearchable
}

// errUnsearchable: the place of an entry lies in a directory that is hidden whole.
var errUnsearchable error = &fault.Error{Op: "hidden with what is around it", Errno: unix.EACCES}

// inUnsearchable says whether something that is hidden whole hides a place as well.
func (k *masker) inUnsearchable(dst string) bool {
	for _, dir := range k.unsearchable {
		if strings.HasPrefix(dst, dir+"/") {
			return true
		}
	}
	return false
}
