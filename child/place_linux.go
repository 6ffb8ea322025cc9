package child

import (
	"strings"

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
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return -1, false, fault("fstat", m.Src, err)
	}
	if m.Ino != 0 && (uint64(st.Dev) != m.Dev || st.Ino != m.Ino) {
		_ = unix.Close(fd)
		return -1, false, fault("openat2 (replaced during set-up)", m.Src, unix.ESTALE)
	}
	return fd, st.Mode&unix.S_IFMT == unix.S_IFDIR, nil
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
	dir, name, err := s.parent(dst)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	err = unix.MoveMount(tree, "", dir, name, unix.MOVE_MOUNT_F_EMPTY_PATH)
	if err != unix.ENOENT {
		return fault("move_mount", dst, err)
	}
	if err := s.ours(dir, dst); err != nil {
		return err
	}
	if isDir {
		err = unix.Mkdirat(dir, name, 0o755)
	} else {
		err = unix.Mknodat(dir, name, unix.S_IFREG|0o644, 0)
	}
	if err != nil {
		return fault("mkdir", dst, err)
	}
	return fault("move_mount", dst, unix.MoveMount(tree, "", dir, name, unix.MOVE_MOUNT_F_EMPTY_PATH))
}

// parent opens the directory that dst stands in, making what is missing on the
// way, and gives the last name.
func (s *state) parent(dst string) (fd int, name string, err error) {
	dst = strings.TrimPrefix(dst, "/")
	i := strings.LastIndexByte(dst, '/')
	if i < 0 {
		fd, err = unix.FcntlInt(uintptr(s.rootFD), unix.F_DUPFD_CLOEXEC, 0)
		return fd, dst, fault("dup", "/", err)
	}
	up := "/" + dst[:i]
	fd, err = s.inside(up)
	if err == unix.ENOENT {
		if err := s.makeDir(up, 0o755); err != nil {
			return -1, "", err
		}
		fd, err = s.inside(up)
	}
	if err != nil {
		return -1, "", fault("openat2", up, err)
	}
	return fd, dst[i+1:], nil
}

// ours says whether a directory lies on one of the file systems made here.
// Anything else is the caller's, where nothing is ever made.
func (s *state) ours(dir int, path string) error {
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil {
		return fault("fstat", path, err)
	}
	for _, dev := range s.devs {
		if uint64(st.Dev) == dev {
			return nil
		}
	}
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
	dir, name, err := s.parent(dst)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if err := s.ours(dir, dst); err != nil {
		if fd, there := s.inside(dst); there == nil {
			_ = unix.Close(fd)
			return nil
		}
		return err
	}
	err = unix.Mkdirat(dir, name, mode)
	if err == unix.EEXIST {
		err = nil
	}
	return fault("mkdir", dst, err)
}

// makeFile writes a small file, or makes an empty mount point.
func (s *state) makeFile(m *handoff.Mount) error {
	dir, name, err := s.parent(m.Dst)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if err := s.ours(dir, m.Dst); err != nil {
		return err
	}
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, m.Mode)
	if err != nil {
		return fault("open", m.Dst, err)
	}
	defer unix.Close(fd)
	for text := m.Text; text != ""; {
		n, err := unix.Write(fd, []byte(text))
		if err != nil {
			return fault("write", m.Dst, err)
		}
		text = text[n:]
	}
	return nil
}

func (s *state) makeSymlink(m *handoff.Mount) error {
	dir, name, err := s.parent(m.Dst)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if err := s.ours(dir, m.Dst); err != nil {
		return err
	}
	return fault("symlink", m.Dst, unix.Symlinkat(m.Text, dir, name))
}
