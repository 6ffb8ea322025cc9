package child

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
)

// mountAll works through the mount table, in its order.
func (s *state) mountAll() error {
	if !s.has(unix.CLONE_NEWNS) {
		return nil
	}
	for i := range s.box.Mounts {
		m := &s.box.Mounts[i]
		if m.Instead && !s.fellBack.EtcChosen {
			continue
		}
		if err := s.mount(m); err == errShut {
			s.skipped = append(s.skipped, uint32(i))
		} else if err != nil {
			f, ok := err.(*failure)
			if !m.Optional || !ok || f.errno != unix.EACCES && f.errno != unix.ENOENT && (!s.hasImage() || !denied(f.errno)) {
				return err
			}
			s.skipped = append(s.skipped, uint32(i))
		}
	}
	if err := s.seal(); err != nil {
		return err
	}
	return s.boundFiles()
}

func (s *state) mount(m *handoff.Mount) error {
	switch m.Kind {
	case handoff.MountDir:
		return s.makeDir(m.Dst, m.Mode)
	case handoff.MountFile:
		return s.makeFile(m)
	case handoff.MountSymlink:
		return s.makeSymlink(m)
	case handoff.MountBind:
		return s.bind(m)
	case handoff.MountScratch:
		return s.private(m)
	case handoff.MountTmpfs:
		return s.tmpfs(m)
	case handoff.MountOverlay:
		return s.overlay(m)
	case handoff.MountProc:
		return s.proc(m)
	case handoff.MountDevpts:
		fd, err := newFS("devpts", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC,
			"newinstance", "", "ptmxmode", "0666", "mode", "0620", "max", strconv.FormatInt(m.Size, 10))
		if err != nil {
			return err
		}
		return s.attachAt(fd, m.Dst, true)
	case handoff.MountBeneath:
		return s.beneath(m)
	case handoff.MountAbsent:
		return s.absent(m)
	case handoff.MountMask:
		return s.mask(m)
	case handoff.MountReadOnly:
		return s.again(m, unix.MOUNT_ATTR_RDONLY)
	case handoff.MountPin:
		return s.again(m, 0)
	}
	return fault("mount", m.Dst, unix.EINVAL)
}

// bind shows a tree of the caller's.
func (s *state) bind(m *handoff.Mount) error {
	tree, dir, err := cloneSource(m)
	if err != nil {
		return err
	}
	return s.show(tree, m, dir)
}

// clone shows a copy of the mount at fd, with everything below.
func (s *state) clone(fd int, m *handoff.Mount, dir bool) error {
	tree, err := unix.OpenTree(fd, "", cloneTree|unix.AT_EMPTY_PATH)
	if err != nil {
		return fault("open_tree", m.Src, err)
	}
	return s.show(tree, m, dir)
}

// show restricts tree as m says, and attaches it.
func (s *state) show(tree int, m *handoff.Mount, dir bool) error {
	attr := unix.MOUNT_ATTR_NOSUID
	if !m.Device {
		attr |= unix.MOUNT_ATTR_NODEV
	}
	if m.ReadOnly {
		attr |= unix.MOUNT_ATTR_RDONLY
	}
	if err := s.restrict(tree, attr, true); err != nil {
		_ = unix.Close(tree)
		return err
	}
	if err := s.attachAt(tree, m.Dst, dir); err != nil {
		return err
	}
	return s.restrictPlaced(m.Dst, attr, dir)
}

// private shows a part of the scratch tmpfs.
func (s *state) private(m *handoff.Mount) error {
	s.places = append(s.places, handoff.Upper{Dst: m.Dst, Part: uint32(s.scratch.next)})
	name, err := s.scratch.newPart(m.Mode)
	if err != nil {
		return err
	}
	// It is a copy of the scratch's own mount, with its attributes.
	tree, err := unix.OpenTree(s.scratch.fd, name, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return fault("open_tree", m.Dst, err)
	}
	return s.attachAt(tree, m.Dst, true)
}

// tmpfs is a private place with a size of its own.
func (s *state) tmpfs(m *handoff.Mount) error {
	options := []string{"mode", octalMode(m.Mode), "size", strconv.FormatInt(m.Size, 10)}
	if n := s.box.ScratchInodes; n > 0 {
		options = append(options, "nr_inodes", strconv.FormatInt(n, 10))
	}
	fd, err := newTmpfs(options...)
	if err != nil {
		return err
	}
	if err := s.own(fd, m.Dst); err != nil {
		return err
	}
	root, err := unix.Openat(fd, ".", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) // attachAt closes fd
	if err != nil {
		return fault("open", m.Dst, err)
	}
	s.sized = append(s.sized, root)
	return s.attachAt(fd, m.Dst, true)
}

func octalMode(mode uint32) string { return strconv.FormatUint(uint64(mode), 8) }

// overlay shows a tree of the caller's with writes going to the scratch tmpfs.
func (s *state) overlay(m *handoff.Mount) error {
	lower, dir, err := openSource(m)
	if err != nil {
		return err
	}
	defer unix.Close(lower)
	var st unix.Stat_t
	if err := unix.Fstat(lower, &st); err != nil {
		return fault("fstat", m.Src, err)
	}
	upper := handoff.Upper{Dst: m.Dst, Part: uint32(s.scratch.next)}
	fd, err := s.newOverlay(lower, st.Mode&0o7777)
	if err != nil {
		f, ok := err.(*failure)
		if !ok || !overlayUnsupported(f.errno) {
			return err
		}
		nested := f.errno == unix.EINVAL && heldBelow(lower)
		if s.box.Refuse.OverlayReadOnly {
			return refusedOverlay(f, m, nested)
		}
		s.fellBack.OverlayReadOnly = true
		s.fellBack.OverlayNested = s.fellBack.OverlayNested || nested
		s.flat = append(s.flat, m.Dst)
		s.noOverlay(m.Text)
		ro := *m
		ro.ReadOnly = true
		return s.clone(lower, &ro, dir)
	}
	if err := s.own(fd, m.Dst); err != nil {
		return err
	}
	if err := s.opaque(upper.Part); err != nil {
		return err
	}
	s.uppers = append(s.uppers, upper)
	return s.attachAt(fd, m.Dst, true)
}

// noOverlay leads what can't do without writing to another place. What the policy sets isn't touched.
func (s *state) noOverlay(text string) {
	if old, other, ok := strings.Cut(text, "\x00"); ok {
		s.instead = append(s.instead, [2]string{old, other})
	}
}

// opaque looks whether an upper directory takes the attribute by which overlayfs
// notes that a directory hides the one below it. Without, which is a tmpfs before
// Linux 6.6, removing a directory of the tree gives EIO.
func (s *state) opaque(part uint32) error {
	_, err := unix.Getxattr(fdPath(s.scratch.fd)+"/"+strconv.FormatUint(uint64(part), 10), "user.overlay.opaque", nil)
	if err == unix.ENODATA {
		return nil
	}
	if s.box.Refuse.OverlayKeepDirs {
		return fault("getxattr user.overlay.opaque", "", err)
	}
	s.fellBack.OverlayKeepDirs = true
	return nil
}

// overlayUnsupported: no overlayfs, none for users, or not over this file system.
func overlayUnsupported(errno unix.Errno) bool {
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

// refusedOverlay is f, or what it means.
func refusedOverlay(f *failure, m *handoff.Mount, nested bool) error {
	if nested {
		return fault(handoff.OpNested, m.Src, unix.EINVAL)
	}
	return f
}

// newOverlay takes the next two parts of the scratch file system, the upper directory first.
func (s *state) newOverlay(lower int, mode uint32) (fd int, err error) {
	upper, err := s.scratch.part(mode)
	if err != nil {
		return -1, err
	}
	defer unix.Close(upper)
	work, err := s.scratch.part(0o700)
	if err != nil {
		return -1, err
	}
	defer unix.Close(work)
	// By descriptor: no name is resolved twice, and no ":" or "," in one matters.
	return newFS("overlay", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV,
		"lowerdir", fdPath(lower), "upperdir", fdPath(upper), "workdir", fdPath(work), "userxattr", "")
}

func fdPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// proc shows the processes of the own pid namespace.
func (s *state) proc(m *handoff.Mount) error {
	const attr = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC
	fd, err := newFS("proc", attr)
	if err == nil {
		if err := s.attachAt(fd, m.Dst, true); err != nil {
			return err
		}
		s.procFD, err = unix.Openat(s.rootFD, strings.TrimPrefix(m.Dst, "/"), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fault("open", m.Dst, err)
		}
		if err := s.noUserNamespaces(s.procFD); err != nil {
			return err
		}
		s.sysctls(s.procFD)
		if err := s.openIPC(s.procFD); err != nil {
			return err
		}
		return s.openPIDs()
	}
	f, ok := err.(*failure)
	if !ok || f.errno != unix.EPERM || s.box.Refuse.ProcOfCaller || s.box.PIDMax != 0 && s.box.Refuse.NoPIDMax {
		return err
	}
	// The host shows this namespace only parts of its own proc, so the kernel
	// gives no whole one: show the same parts, read-only.
	s.fellBack.ProcOfCaller = true
	s.fellBack.NoPIDMax = s.box.PIDMax != 0
	old, err := unix.Open("/proc", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fault("open", "/proc", err)
	}
	defer unix.Close(old)
	// The number is the user namespace's of whoever opens it, in any proc.
	if err := s.noUserNamespaces(old); err != nil {
		if s.box.Refuse.NestedUserns {
			return err
		}
		s.fellBack.NestedUserns = true
	}
	s.sysctls(old)
	if err := s.openIPC(old); err != nil {
		return err
	}
	return s.clone(old, &handoff.Mount{Src: "/proc", Dst: m.Dst, ReadOnly: true}, true)
}

// again mounts what is at its place over itself, with attr. What isn't there is
// skipped, if it needn't be.
func (s *state) again(m *handoff.Mount, attr int) error {
	dst := m.Dst
	if name, of := s.ofProc(m); of {
		return s.againInProc(name, m, attr)
	}
	fd, err := s.inside(dst)
	if err == unix.ENOENT || err == unix.ENOTDIR {
		return gone(m)
	}
	if err != nil {
		return fault("openat2", dst, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fault("fstat", dst, err)
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		// Protecting a link would not protect what it leads to.
		return fault("fstat (a symbolic link now)", dst, unix.ELOOP)
	}
	tree, err := unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return fault("open_tree", dst, err)
	}
	defer unix.Close(tree)
	if err := s.restrict(tree, attr, true); err != nil {
		return err
	}
	if err := moveMount(tree, fd, ""); err != nil {
		return err
	}
	s.forget(dst)
	return s.restrictPlaced(dst, attr, st.Mode&unix.S_IFMT == unix.S_IFDIR)
}

// ofProc says whether a place is in a proc that was made here, where nobody else changes what there
// is: it needs no look at what stands there.
func (s *state) ofProc(m *handoff.Mount) (name string, of bool) {
	if s.procFD < 0 || m.Ino != 0 || s.fellBack.MountSetattr {
		return "", false
	}
	return strings.CutPrefix(m.Dst, "/proc/")
}

func (s *state) againInProc(name string, m *handoff.Mount, attr int) error {
	tree, err := unix.OpenTree(s.procFD, name, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return fault("open_tree", m.Dst, err)
	}
	defer unix.Close(tree)
	if err := s.restrict(tree, attr, false); err != nil {
		return err
	}
	return fault("move_mount", m.Dst, unix.MoveMount(tree, "", s.procFD, name, unix.MOVE_MOUNT_F_EMPTY_PATH))
}

// gone: nothing is at the place of m. If something was when the plan was made, it
// was moved away, and is to be seen by another name.
func gone(m *handoff.Mount) error {
	if m.Ino == 0 {
		return nil
	}
	return fault("openat2 (moved away during set-up)", m.Dst, unix.ESTALE)
}

// mask hides what is at dst behind something empty that nobody can open.
func (s *state) mask(m *handoff.Mount) error {
	if s.inShut(m.Dst) {
		return errShut
	}
	if name, of := s.ofProc(m); of {
		return s.maskInProc(name)
	}
	fd, err := s.inside(m.Dst)
	if err == unix.ENOENT || err == unix.ENOTDIR {
		return gone(m)
	}
	if err != nil {
		return s.maskShut(m, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fault("fstat", m.Dst, err)
	}
	if m.Dev != 0 && (uint64(st.Dev) != m.Dev || st.Ino != m.Ino) {
		return fault("fstat (replaced during set-up)", m.Dst, unix.ESTALE)
	}
	isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if err := s.cover(isDir, fd, ""); err != nil {
		return err
	}
	s.forget(m.Dst)
	return s.restrictPlaced(m.Dst, maskAttr, false)
}

// maskInProc hides a file, or a directory, of the proc that was made here.
func (s *state) maskInProc(name string) error {
	err := s.cover(false, s.procFD, name)
	if f, ok := err.(*failure); ok && f.errno == unix.EINVAL {
		err = s.cover(true, s.procFD, name)
	}
	if f, ok := err.(*failure); ok && f.errno == unix.ENOENT {
		return nil
	}
	return err
}

const maskAttr = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC

// cover hides what is at a path behind a copy of a mask. A copy that finds no place is kept for the next.
func (s *state) cover(dir bool, at int, path string) error {
	m := &s.scratch.masks[0]
	if dir {
		m = &s.scratch.masks[1]
	}
	if err := s.copyMask(m, dir); err != nil {
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

func (s *state) copyMask(m *mask, dir bool) (err error) {
	const copyTree = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_EMPTY_PATH
	if m.copy > 0 {
		return nil
	}
	if m.first == 0 {
		empty, err := s.scratch.empty(dir)
		if err != nil {
			return err
		}
		defer unix.Close(empty)
		if m.first, err = unix.OpenTree(empty, "", copyTree); err != nil {
			return fault("open_tree", "mask", err)
		}
		// Copies have its attributes.
		if err := s.restrict(m.first, maskAttr, false); err != nil {
			return err
		}
		if err := moveMount(m.first, empty, ""); err != nil {
			return err
		}
	}
	m.copy, err = unix.OpenTree(m.first, "", copyTree)
	return fault("open_tree", "mask", err)
}

// empty makes the empty directory, or file, that masks are made of, and opens it.
func (s *scratch) empty(dir bool) (fd int, err error) {
	name := "empty-file"
	if dir {
		name = "empty-dir"
		err = unix.Mkdirat(s.fd, name, 0)
	} else {
		err = unix.Mknodat(s.fd, name, unix.S_IFREG, 0)
	}
	if err != nil {
		return -1, fault("mknod", name, err)
	}
	fd, err = unix.Openat(s.fd, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	return fd, fault("open", name, err)
}
