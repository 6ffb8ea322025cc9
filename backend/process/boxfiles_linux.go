package process

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/linux"
	"github.com/confine-run/confine/supervisor"
)

// boxFiles are the files of a sandbox, found from a descriptor of its root directory. Its mounts hold for them as for
// the processes inside: what is hidden or read-only there is so here.
type boxFiles struct {
	root *boxRoot
	// A caller that is root works on them under these ids: it can do what the processes inside can, and what it makes is theirs.
	uid, gid uint32
}

var errNotRegular = errors.New("not a regular file")

// boxRoot is a descriptor of a sandbox's root directory. It is opened when it is first needed, and closed when nobody
// uses it any more.
type boxRoot struct {
	mu     sync.RWMutex
	open   func() (int, error)
	closed bool
}

// use calls do with the descriptor, which stays open until do returns.
func (r *boxRoot) use(do func(root int) error) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.closed {
		return backend.ErrClosed
	}
	root, err := r.open()
	if err != nil {
		return err
	}
	return do(root)
}

// close waits for those who use it.
func (r *boxRoot) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.closed = true
		if fd, err := r.open(); err == nil {
			_ = unix.Close(fd)
		}
	}
}

// openRoot gives a root directory that is opened at most once, and none where there is no mount namespace: those files
// would be the caller's.
func openRoot(box *supervisor.Sandbox, t tier) *boxRoot {
	if t == tierNoNS {
		return &boxRoot{open: func() (int, error) { return -1, errors.ErrUnsupported }}
	}
	return &boxRoot{open: sync.OnceValues(box.Root)}
}

// Files are those that processes inside see.
func (s *sandbox) Files() backend.Files {
	c := &s.plan.Box
	return boxFiles{s.root, c.UID, c.GID}
}

// open follows every link within the root. It refuses files of /proc and /sys: they tell of the process that opens them,
// and that is the caller's.
func (f boxFiles) open(op, name string, flags int, perm fs.FileMode) (*os.File, error) {
	how := &unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	if flags&unix.O_CREAT != 0 {
		how.Mode = uint64(perm.Perm())
	}
	fd := -1
	err := f.root.use(func(root int) error {
		return linux.AsUser(f.uid, f.gid, func() (err error) {
			fd, err = linux.Openat2(root, path.Clean("/"+name), how)
			return err
		})
	})
	var made unix.Statfs_t
	if err == nil {
		err = unix.Fstatfs(fd, &made)
	}
	if err == nil && (made.Type == unix.PROC_SUPER_MAGIC || made.Type == unix.SYSFS_MAGIC) {
		err = unix.EACCES
	}
	if err != nil {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
		return nil, &fs.PathError{Op: op, Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// regular opens a regular file, and refuses all else. It doesn't wait for the other end of a FIFO, and has no device do
// anything.
func (f boxFiles) regular(op, name string, flags int, perm fs.FileMode) (*os.File, error) {
	if flags&unix.O_CREAT == 0 {
		if info, err := f.Stat(name); err != nil {
			return nil, err
		} else if !info.Mode().IsRegular() {
			return nil, &fs.PathError{Op: op, Path: name, Err: errNotRegular}
		}
	}
	file, err := f.open(op, name, flags|unix.O_NONBLOCK|unix.O_NOCTTY, perm)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: op, Path: name, Err: errNotRegular}
	}
	if err == nil && flags&unix.O_ACCMODE != unix.O_RDONLY {
		err = file.Truncate(0)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

func (f boxFiles) Open(name string) (io.ReadCloser, error) {
	return f.regular("open", name, unix.O_RDONLY, 0)
}

func (f boxFiles) Create(name string, perm fs.FileMode) (io.WriteCloser, error) {
	return f.regular("create", name, unix.O_WRONLY|unix.O_CREAT, perm)
}

func (f boxFiles) Stat(name string) (fs.FileInfo, error) {
	file, err := f.open("stat", name, unix.O_PATH, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return file.Stat()
}

func (f boxFiles) List(name string) ([]fs.DirEntry, error) {
	dir, err := f.open("list", name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.ReadDir(-1)
}

func (f boxFiles) Mkdir(name string, perm fs.FileMode) error {
	return f.in("mkdir", name, func(dir int, base string) error { return unix.Mkdirat(dir, base, uint32(perm.Perm())) })
}

func (f boxFiles) Remove(name string) error {
	return f.in("remove", name, func(dir int, base string) error {
		err := unix.Unlinkat(dir, base, 0)
		if err == unix.EISDIR {
			err = unix.Unlinkat(dir, base, unix.AT_REMOVEDIR)
		}
		return err
	})
}

// in calls do with the directory that a name is in.
func (f boxFiles) in(op, name string, do func(dir int, base string) error) error {
	name = path.Clean("/" + name)
	parent, base := path.Split(name)
	dir, err := f.open(op, parent, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	if base = strings.TrimSuffix(base, "/"); base == "" {
		return &fs.PathError{Op: op, Path: name, Err: unix.EBUSY}
	}
	if err := linux.AsUser(f.uid, f.gid, func() error { return do(int(dir.Fd()), base) }); err != nil {
		return &fs.PathError{Op: op, Path: name, Err: err}
	}
	return nil
}

func (f boxFiles) Lstat(string) (fs.FileInfo, error) { return nil, errors.ErrUnsupported }

func (f boxFiles) Readlink(string) (string, error) { return "", errors.ErrUnsupported }

func (f boxFiles) Symlink(string, string) error { return errors.ErrUnsupported }

func (f boxFiles) Chmod(string, fs.FileMode) error { return errors.ErrUnsupported }

func (f boxFiles) Rename(string, string) error { return errors.ErrUnsupported }

func (f boxFiles) Watch(string, bool) (backend.Watcher, error) { return nil, errors.ErrUnsupported }
