package hostfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// As is for the user who asks, and for nobody else.
func (kernel) As(uid, _ uint32) (func(), bool, error) {
	if int(uid) != os.Geteuid() {
		return nil, false, errors.ErrUnsupported
	}
	return func() {}, false, nil
}

// Resolve gives the path that the kernel itself has for a file, which is the one that its sandbox compares: without links, in the case that
// names were made with, and not by way of another volume.
func (k kernel) Resolve(name string) (File, error) {
	fd, err := unix.Open(name, unix.O_EVTONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		if err == unix.ENOENT || err == unix.ENOTDIR || err == unix.ELOOP || err == unix.ENAMETOOLONG {
			return File{}, err
		}
		return k.resolveUnopened(name, err)
	}
	defer unix.Close(fd)
	canonical, err := pathOf(fd)
	if err != nil {
		return File{}, &fs.PathError{Op: "fcntl(F_GETPATH)", Path: name, Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return File{}, err
	}
	return File{Path: canonical, Dev: uint64(uint32(st.Dev)), Ino: st.Ino, Mode: fileMode(uint32(st.Mode))}, nil
}

// pathOf is where the file of a descriptor is.
func pathOf(fd int) (string, error) {
	buf := make([]byte, unix.PathMax) // on the heap, where nothing moves
	_, err := unix.FcntlInt(uintptr(fd), unix.F_GETPATH, int(uintptr(unsafe.Pointer(&buf[0]))))
	runtime.KeepAlive(buf)
	if err != nil {
		return "", err
	}
	return string(buf[:max(0, bytes.IndexByte(buf, 0))]), nil
}

// resolveUnopened is for sockets, which can't be opened, and for what this user may not read: by the directory that it is in.
func (k kernel) resolveUnopened(name string, why error) (File, error) {
	for range MaxLinks {
		f, err := k.Lstat(name)
		if err != nil {
			return File{}, err
		}
		if f.Mode.Type() == fs.ModeSymlink {
			target, err := k.Readlink(name)
			if err != nil {
				return File{}, err
			}
			if !path.IsAbs(target) {
				target = path.Dir(strings.TrimRight(name, "/")) + "/" + target
			}
			name = target
			continue
		}
		dir, base := path.Split(strings.TrimRight(name, "/"))
		if base == "" || base == "." || base == ".." {
			return File{}, why
		}
		up, err := k.Resolve(dir)
		if err != nil {
			return File{}, err
		}
		entries, err := k.ReadDir(up.Path)
		if err != nil {
			return File{}, why
		}
		for _, e := range entries { // in the case that it was made with
			at := path.Join(up.Path, e.Name)
			if g, err := k.Lstat(at); strings.EqualFold(e.Name, base) && err == nil && g.Ino == f.Ino {
				f.Path = at
				return f, nil
			}
		}
		return File{}, why
	}
	return File{}, unix.ELOOP
}

func (kernel) Lstat(name string) (File, error) {
	var st unix.Stat_t
	if err := unix.Lstat(name, &st); err != nil {
		return File{}, err
	}
	return File{Path: name, Dev: uint64(uint32(st.Dev)), Ino: st.Ino, Mode: fileMode(uint32(st.Mode)), Names: uint64(st.Nlink), Born: st.Btim.Nano()}, nil
}

func (kernel) ReadDir(name string) ([]Entry, error) {
	list, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, len(list))
	for i, e := range list {
		entries[i] = Entry{Name: e.Name(), Type: e.Type()}
	}
	return entries, nil
}

func (kernel) ReadFile(name string, limit int) (string, error) {
	// O_NONBLOCK: a FIFO of that name must not hold us.
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", unix.EINVAL
	}
	text, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err == nil && len(text) > limit {
		err = unix.EFBIG
	}
	if err != nil {
		return "", err
	}
	return string(text), nil
}

// Held: nothing is shown without what is mounted below it.
func (kernel) Held(string) bool { return true }

// Sockets aren't listed: the sandbox lets none be connected to.
func (kernel) Sockets() ([]Socket, error) { return nil, errors.ErrUnsupported }

// Inspect tells nothing of ACLs.
func (k kernel) Inspect(name string) (Inode, error) {
	var st unix.Stat_t
	if err := unix.Lstat(name, &st); err != nil {
		return Inode{}, err
	}
	n := Inode{File: File{Path: name, Dev: uint64(uint32(st.Dev)), Ino: st.Ino, Mode: fileMode(uint32(st.Mode))}, UID: st.Uid, GID: st.Gid}
	var m unix.Statfs_t
	if n.Mode.Type() != fs.ModeSymlink && unix.Statfs(name, &m) == nil {
		n.ReadOnly, n.NoExec, n.NoDev = m.Flags&unix.MNT_RDONLY != 0, m.Flags&unix.MNT_NOEXEC != 0, m.Flags&unix.MNT_NODEV != 0
	}
	return n, nil
}
