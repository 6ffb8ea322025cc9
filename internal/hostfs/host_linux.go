package hostfs

import (
	"io/fs"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

// As switches the fsuid of this thread, so that root planning for another user
// meets the same EACCES that the child will.
func (kernel) As(uid, gid uint32) (func(), bool, error) {
	if int(uid) == unix.Geteuid() && int(gid) == unix.Getegid() {
		return func() {}, false, nil
	}
	leave, err := linux.FilesAs(uid, gid)
	if err != nil {
		return nil, false, &fs.PathError{Op: "setfsuid", Path: strconv.Itoa(int(uid)), Err: err}
	}
	return leave, true, nil
}

func (kernel) Resolve(name string) (File, error) {
	fd, canonical, err := openPath(name)
	if err != nil {
		return File{}, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return File{}, err
	}
	if canonical == "" {
		if canonical, err = readlink(linux.FDPath(fd)); err != nil {
			return File{}, &fs.PathError{Op: "readlink", Path: "/proc/self/fd", Err: err}
		}
		if !path.IsAbs(canonical) || strings.HasSuffix(canonical, " (deleted)") && !same(canonical, &st) {
			return File{}, unix.ENOENT // it went away, or has no name in this root
		}
	}
	return File{Path: canonical, Dev: uint64(st.Dev), Ino: st.Ino, Mode: fileMode(st.Mode)}, nil
}

// openPath opens name. Most names lead through no link and are canonical as
// they stand, which one openat2 shows (Linux 5.6); the others are asked of proc.
func openPath(name string) (fd int, canonical string, err error) {
	if path.IsAbs(name) && path.Clean(name) == name {
		fd, err = unix.Openat2(unix.AT_FDCWD, name, &unix.OpenHow{
			Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
		if err == nil {
			return fd, name, nil
		}
		if err != unix.ELOOP && err != unix.ENOSYS && err != unix.EPERM { // EPERM: a filter that doesn't know it
			return -1, "", err
		}
	}
	fd, err = unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
	return fd, "", err
}

// same says whether st is what is at name: a file can be called "x (deleted)".
func same(name string, st *unix.Stat_t) bool {
	var now unix.Stat_t
	return unix.Lstat(name, &now) == nil && now.Dev == st.Dev && now.Ino == st.Ino
}

func (kernel) Lstat(name string) (File, error) {
	var x unix.Statx_t
	switch err := unix.Statx(unix.AT_FDCWD, name, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &x); err {
	case nil:
		f := File{Path: name, Dev: unix.Mkdev(x.Dev_major, x.Dev_minor), Ino: x.Ino, Mode: fileMode(uint32(x.Mode)), Names: uint64(x.Nlink)}
		if x.Mask&unix.STATX_BTIME != 0 {
			f.Born = time.Unix(x.Btime.Sec, int64(x.Btime.Nsec)).UnixNano()
		}
		return f, nil
	case unix.ENOSYS, unix.EPERM: // a filter that doesn't know it
	default:
		return File{}, err
	}
	var st unix.Stat_t
	if err := unix.Lstat(name, &st); err != nil {
		return File{}, err
	}
	return File{Path: name, Dev: uint64(st.Dev), Ino: st.Ino, Mode: fileMode(st.Mode), Names: uint64(st.Nlink)}, nil
}

func (kernel) Sockets() (list []Socket, err error) {
	all, err := linux.UnixSockets()
	for i := range all {
		if u := &all[i]; u.File {
			list = append(list, Socket{Name: u.Path(), Ino: u.Ino, Dev: u.Dev, UID: u.UID})
		}
	}
	return list, err
}

// rooms are for the files of /proc.
var rooms = sync.Pool{New: func() any { return new([32 << 10]byte) }}

func (kernel) ReadFile(name string, limit int) (string, error) {
	// O_NONBLOCK: a FIFO of that name must not hold us.
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return "", err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return "", unix.EINVAL
	}
	if st.Size > int64(limit) {
		return "", unix.EFBIG
	}
	var buf []byte
	text := func(got int) string { return unsafe.String(unsafe.SliceData(buf), got) } // which nobody writes any more
	if st.Size > 0 {
		buf = make([]byte, st.Size+1)
	} else { // it doesn't say
		room := rooms.Get().(*[32 << 10]byte)
		defer rooms.Put(room)
		buf, text = room[:min(limit+1, len(room))], func(got int) string { return string(buf[:got]) }
	}
	got := 0
	for got <= limit {
		if got == len(buf) {
			buf = append(buf, make([]byte, min(len(buf), limit+1-got))...)
		}
		n, err := linux.Again(func() (int, error) { return unix.Read(fd, buf[got:]) })
		if err != nil {
			return "", err
		}
		if n == 0 {
			return text(got), nil
		}
		if got += n; got == int(st.Size) {
			return text(got), nil
		}
	}
	return "", unix.EFBIG // it grows
}

// Held tries to have a copy of the mount without what is mounted below, as an overlay does.
func (kernel) Held(dir string) bool {
	fd, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err == unix.EINVAL
}

func (kernel) Inspect(name string) (Inode, error) {
	fd, err := unix.Open(name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return Inode{}, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return Inode{}, err
	}
	n := Inode{File: File{Path: name, Dev: uint64(st.Dev), Ino: st.Ino, Mode: fileMode(st.Mode)}, UID: st.Uid, GID: st.Gid}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return Inode{}, err
	}
	n.ReadOnly, n.NoExec, n.NoDev = fs.Flags&unix.ST_RDONLY != 0, fs.Flags&unix.ST_NOEXEC != 0, fs.Flags&unix.ST_NODEV != 0
	if n.Mode.IsRegular() || n.Mode.IsDir() {
		if n.ACL, err = aclOf(fd, "system.posix_acl_access"); err != nil {
			return Inode{}, err
		}
	}
	if n.Mode.IsDir() {
		if n.DefaultACL, err = aclOf(fd, "system.posix_acl_default"); err != nil {
			return Inode{}, err
		}
	}
	return n, nil
}

// aclOf is one of a file; nil is none.
func aclOf(fd int, name string) ([]byte, error) {
	var b [1 << 10]byte
	size, err := unix.Getxattr(linux.FDPath(fd), name, b[:])
	switch {
	case err == nil:
		return append([]byte(nil), b[:size]...), nil
	case err == unix.ERANGE:
		return nil, err
	}
	return nil, nil
}

// ReadDir gives names with their types straight from getdents64, unsorted:
// os.ReadDir takes twice as long, and this is paid at every start.
func (k kernel) ReadDir(name string) ([]Entry, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	entries := make([]Entry, 0, 128)
	var buf [8192]byte
	for d, err := range linux.Dirents(fd, buf[:]) {
		if err != nil {
			return nil, err
		}
		e := Entry{Name: string(d.Name)}
		if d.Type != unix.DT_UNKNOWN {
			e.Type = fileMode(uint32(d.Type) << 12).Type() // DT_* are S_IF* shifted
		} else if f, err := k.Lstat(name + "/" + e.Name); err == nil {
			e.Type = f.Mode.Type()
		} else {
			continue
		}
		entries = append(entries, e)
	}
	return entries, nil
}
