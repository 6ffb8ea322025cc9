package child

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// scratch is the one sized tmpfs behind every private writable place. It is
// mounted in a corner of the new root while parts of it are shown where they
// belong, and detached from there before the target starts.
type scratch struct {
	fd    int     // its root
	next  int     // number of the next part
	masks [2]mask // of files, and of directories
}

const corner = ".scratch"

// propagation keeps mounts apart from the caller's in both directions.
func (s *state) propagation() error {
	if !s.has(unix.CLONE_NEWNS) {
		return nil
	}
	return fault("mount", "/", unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
}

// makeRoot mounts the private tmpfs that becomes the root. It is mounted over
// "/": our own root stays the caller's tree below it until pivot_root, so that
// no directory of the caller is needed as a mount point.
func (s *state) makeRoot() error {
	if !s.has(unix.CLONE_NEWNS) {
		return nil
	}
	fd, err := newTmpfs("mode", "0755")
	if err != nil {
		return err
	}
	if err := moveMount(fd, unix.AT_FDCWD, "/"); err != nil {
		return err
	}
	s.rootFD = fd
	if err := s.own(fd, "/"); err != nil {
		return err
	}
	if err := unix.Mkdirat(fd, corner, 0o700); err != nil {
		return fault("mkdir", corner, err)
	}
	options := []string{"mode", "0700"}
	if n := s.box.ScratchSize; n > 0 {
		options = append(options, "size", strconv.FormatInt(n, 10))
	}
	if n := s.box.ScratchInodes; n > 0 {
		// Bounded for good when our own are in it: see boundFiles.
		options = append(options, "nr_inodes", strconv.FormatInt(n+ownInodes, 10))
	}
	if s.scratch.fd, err = newTmpfs(options...); err != nil {
		return err
	}
	if err := s.own(s.scratch.fd, corner); err != nil {
		return err
	}
	if err := moveMount(s.scratch.fd, fd, corner); err != nil {
		return err
	}
	return s.imageRoot()
}

// ownInodes is more than private places and the mount points in them take.
const ownInodes = 1 << 16

// boundFiles lets the target have as many files in the scratch file system as the
// plan says, beside what is there already.
func (s *state) boundFiles() error {
	n := s.box.ScratchInodes
	if n == 0 {
		return nil
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(s.scratch.fd, &fs); err != nil {
		return fault("fstatfs", corner, err)
	}
	fd, err := unix.Fspick(s.scratch.fd, "", unix.FSPICK_CLOEXEC|unix.FSPICK_EMPTY_PATH)
	if err != nil {
		return fault("fspick", corner, err)
	}
	defer unix.Close(fd)
	most := n + int64(fs.Files-fs.Ffree)
	if err := unix.FsconfigSetString(fd, "nr_inodes", strconv.FormatInt(most, 10)); err != nil {
		return fault("fsconfig nr_inodes", corner, err)
	}
	return fault("fsconfig reconfigure", corner, unix.FsconfigReconfigure(fd))
}

// newPart makes the next directory of the scratch file system.
func (s *scratch) newPart(mode uint32) (name string, err error) {
	name = strconv.Itoa(s.next)
	s.next++
	return name, fault("mkdir", name, unix.Mkdirat(s.fd, name, mode))
}

// part makes the next directory of the scratch file system, and opens it.
func (s *scratch) part(mode uint32) (fd int, err error) {
	name, err := s.newPart(mode)
	if err != nil {
		return -1, err
	}
	fd, err = unix.Openat(s.fd, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	return fd, fault("open", name, err)
}

// newTmpfs makes a tmpfs, mounted nowhere. options are pairs.
func newTmpfs(options ...string) (fd int, err error) {
	return newFS("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, options...)
}

func newFS(kind string, attr int, options ...string) (fd int, err error) {
	fs, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fault("fsopen", kind, err)
	}
	defer unix.Close(fs)
	for i := 0; i < len(options); i += 2 {
		if options[i+1] == "" {
			err = unix.FsconfigSetFlag(fs, options[i])
		} else {
			err = unix.FsconfigSetString(fs, options[i], options[i+1])
		}
		if err != nil {
			return -1, fault("fsconfig "+options[i], kind, err)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, fault("fsconfig create", kind, err)
	}
	fd, err = unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attr)
	return fd, fault("fsmount", kind, err)
}

// moveMount mounts what fd holds at path under dir. An empty path is dir itself.
func moveMount(fd, dir int, path string) error {
	flags := unix.MOVE_MOUNT_F_EMPTY_PATH
	if path == "" {
		flags |= unix.MOVE_MOUNT_T_EMPTY_PATH
	}
	return fault("move_mount", path, unix.MoveMount(fd, "", dir, path, flags))
}

// finishRoot takes the corner out of the private root, and makes that read-only.
func (s *state) finishRoot() error {
	// Into the old root, with which it is detached: each unmount waits until no processor looks at the tree any more.
	// This directory is always there: our null device came from it.
	if err := moveMount(s.scratch.fd, unix.AT_FDCWD, "/dev"); err != nil {
		return err
	}
	if err := unix.Unlinkat(s.rootFD, corner, unix.AT_REMOVEDIR); err != nil {
		return fault("rmdir", corner, err)
	}
	if err := s.restrict(s.rootFD, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, false); err != nil {
		return err
	}
	if s.fellBack.MountSetattr {
		if err := remount(s.rootFD, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV); err != nil {
			return fault("mount MS_REMOUNT", "/", err)
		}
	}
	return nil
}

// pivot makes the new root the root, and lets go of the caller's tree.
func (s *state) pivot() error {
	if !s.has(unix.CLONE_NEWNS) {
		return nil
	}
	s.forget("/")
	for _, m := range s.scratch.masks {
		for _, fd := range []int{m.first, m.copy} {
			if fd > 0 {
				_ = unix.Close(fd)
			}
		}
	}
	if !s.hasImage() { // else the corner lies beneath the root, and goes with the old one
		if err := s.finishRoot(); err != nil {
			return err
		}
	}
	if err := unix.Fchdir(s.rootFD); err != nil {
		return fault("fchdir", "/", err)
	}
	// Both names are ".": the old root is stacked on the new one, and taken off.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fault("pivot_root", "/", err)
	}
	if s.hasImage() { // the private root, with its corners, is stacked on the old one
		if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
			return fault("umount", "private root", err)
		}
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fault("umount", "old root", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return fault("chdir", "/", err)
	}
	_ = unix.Close(s.rootFD)
	return nil
}
