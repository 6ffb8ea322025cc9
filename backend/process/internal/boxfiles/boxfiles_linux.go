package boxfiles

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/linux"
)

// Files are those of a sandbox. A caller that is root works on them under these ids: it can do what the processes inside can,
// and what it makes is theirs.
type Files struct {
	Root     *Root
	UID, GID uint32
}

var _ backend.Files = Files{}

// Root is a descriptor of a sandbox's root directory. It is opened when it is first needed, and closed when nobody uses it any
// more.
type Root struct {
	mu       sync.RWMutex
	open     func() (int, error)
	closed   bool
	used     atomic.Bool       // since it was made, or renewed
	writing  atomic.Int64      // files that are open for that
	watchers map[*watcher]bool // those that end with it
}

// NewRoot makes one of what opens it, once.
func NewRoot(open func() (int, error)) *Root {
	return &Root{open: sync.OnceValues(open), watchers: map[*watcher]bool{}}
}

// use calls do with the descriptor, which stays open until do returns.
func (r *Root) use(do func(root int) error) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.closed {
		return backend.ErrClosed
	}
	r.used.Store(true)
	root, err := r.open()
	if err != nil {
		return err
	}
	return do(root)
}

// Hold waits for those who use it, and keeps others from it until release is called. With what opens another root directory,
// that is the one from then on; what watches directories of the old one is told that they are gone.
func (r *Root) Hold() (release func(open func() (int, error))) {
	r.mu.Lock()
	return func(open func() (int, error)) {
		defer r.mu.Unlock()
		if open == nil || r.closed {
			return
		}
		for w := range r.watchers {
			w.end(io.EOF)
		}
		clear(r.watchers)
		if r.used.Swap(false) {
			if fd, err := r.open(); err == nil {
				_ = unix.Close(fd)
			}
		}
		r.open = sync.OnceValues(open)
	}
}

// Used says whether anybody has used it since it was made, or renewed, and Writing, whether a file is being written.
func (r *Root) Used() bool    { return r.used.Load() }
func (r *Root) Writing() bool { return r.writing.Load() > 0 }

// writer is a file that is being written.
type writer struct {
	*os.File
	done func()
}

func (w *writer) Close() error {
	defer w.done()
	return w.File.Close()
}

// written counts a file that was opened for writing.
func (f Files) written(file *os.File, err error) (io.WriteCloser, error) {
	if err != nil {
		return nil, err
	}
	f.Root.writing.Add(1)
	return &writer{file, sync.OnceFunc(func() { f.Root.writing.Add(-1) })}, nil
}

// Close waits for those who use it, and ends what watches.
func (r *Root) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.closed = true
	for w := range r.watchers {
		w.end(backend.ErrClosed)
	}
	if fd, err := r.open(); err == nil {
		_ = unix.Close(fd)
	}
}

var errNotRegular = errors.New("not a regular file")

const inRoot = unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS

// open follows every link within the root; with O_NOFOLLOW, all but one at the end. It refuses files of /proc and /sys: they tell
// of the process that opens them, and that is the caller's. What isn't opened by O_PATH has to be a directory, or new.
func (f Files) open(op, name string, flags int, perm fs.FileMode) (*os.File, error) {
	how := &unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: inRoot}
	if flags&unix.O_CREAT != 0 {
		how.Mode = uint64(perm.Perm())
	}
	fd := -1
	err := f.Root.use(func(root int) error {
		return f.asUser(func() (err error) {
			fd, err = linux.Openat2(root, path.Clean("/"+name), how)
			return err
		})
	})
	if err == nil {
		if err = told(fd); err != nil {
			_ = unix.Close(fd)
		}
	}
	if err != nil {
		return nil, &fs.PathError{Op: op, Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// told refuses what is of a file system that tells of processes.
func told(fd int) error {
	if linux.OfKernel(fd) {
		return unix.EACCES
	}
	return nil
}

func (f Files) asUser(do func() error) error { return linux.AsUser(f.UID, f.GID, do) }

// link names an open file, so that it is opened once more, changed or watched itself, whatever has its name by now.
func link(fd *os.File) string { return linux.FDPath(int(fd.Fd())) }

// regular opens a regular file that is there, and nothing else, not for a moment.
func (f Files) regular(op, name string, flags int) (*os.File, error) {
	held, err := f.open(op, name, unix.O_PATH, 0)
	if err != nil {
		return nil, err
	}
	defer held.Close()
	info, err := held.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errNotRegular
	}
	fd := -1
	if err == nil {
		err = f.asUser(func() (err error) {
			fd, err = unix.Open(link(held), flags|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
			return err
		})
	}
	if err != nil {
		return nil, &fs.PathError{Op: op, Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (f Files) Open(name string) (io.ReadCloser, error) {
	return f.regular("open", name, unix.O_RDONLY)
}

// Create opens a regular file for writing, and empties it, or makes one.
func (f Files) Create(name string, perm fs.FileMode) (io.WriteCloser, error) {
	for range 3 { // somebody inside may make it, or remove it, right now
		file, err := f.regular("create", name, unix.O_WRONLY|unix.O_TRUNC)
		if !errors.Is(err, fs.ErrNotExist) {
			return f.written(file, err)
		}
		file, err = f.open("create", name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, perm)
		if !errors.Is(err, fs.ErrExist) {
			return f.written(file, err)
		}
	}
	return nil, &fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}
}

func (f Files) stat(op, name string, flags int) (fs.FileInfo, error) {
	file, err := f.open(op, name, unix.O_PATH|flags, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return file.Stat()
}

func (f Files) Stat(name string) (fs.FileInfo, error)  { return f.stat("stat", name, 0) }
func (f Files) Lstat(name string) (fs.FileInfo, error) { return f.stat("lstat", name, unix.O_NOFOLLOW) }

func (f Files) Readlink(name string) (string, error) {
	file, err := f.open("readlink", name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return "", err
	}
	defer file.Close()
	text := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(file.Fd()), "", text)
	if err == unix.ENOENT { // what the kernel says of anything else
		err = unix.EINVAL
	}
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: err}
	}
	return string(text[:n]), nil
}

func (f Files) List(name string) ([]fs.DirEntry, error) {
	dir, err := f.open("list", name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.ReadDir(-1)
}

func (f Files) Mkdir(name string, perm fs.FileMode) error {
	return f.in("mkdir", name, func(dir int, base string) error { return unix.Mkdirat(dir, base, uint32(perm.Perm())) })
}

// Symlink makes a symbolic link, whatever it leads to.
func (f Files) Symlink(target, name string) error {
	return f.in("symlink", name, func(dir int, base string) error { return unix.Symlinkat(target, dir, base) })
}

// Chmod changes the permissions of a file or a directory; nothing else has any, and there are no others.
func (f Files) Chmod(name string, perm fs.FileMode) error {
	held, err := f.open("chmod", name, unix.O_PATH, 0)
	if err != nil {
		return err
	}
	defer held.Close()
	info, err := held.Stat()
	switch {
	case err != nil:
	case perm != perm.Perm():
		err = unix.EINVAL
	case !info.IsDir() && !info.Mode().IsRegular():
		err = errNotRegular
	default:
		err = f.asUser(func() error { return unix.Chmod(link(held), uint32(perm)) })
	}
	if err != nil {
		return &fs.PathError{Op: "chmod", Path: name, Err: err}
	}
	return nil
}

// Rename moves a file or a directory, over a file that is there.
func (f Files) Rename(from, to string) error {
	fromDir, fromBase, err := f.parent("rename", from)
	if err != nil {
		return err
	}
	defer fromDir.Close()
	toDir, toBase, err := f.parent("rename", to)
	if err != nil {
		return err
	}
	defer toDir.Close()
	err = f.asUser(func() error {
		if err := moveable(int(fromDir.Fd()), fromBase); err != nil {
			return err
		}
		if err := moveable(int(toDir.Fd()), toBase); err != nil && err != unix.ENOENT {
			return err
		}
		return unix.Renameat2(int(fromDir.Fd()), fromBase, int(toDir.Fd()), toBase, 0)
	})
	if err != nil {
		return &fs.PathError{Op: "rename", Path: from, Err: err}
	}
	return nil
}

func (f Files) Remove(name string) error {
	return f.in("remove", name, func(dir int, base string) error {
		if err := moveable(dir, base); err != nil {
			return err
		}
		err := unix.Unlinkat(dir, base, 0)
		if err == unix.EISDIR {
			err = unix.Unlinkat(dir, base, unix.AT_REMOVEDIR)
		}
		return err
	})
}

// moveable refuses what something is mounted on. The kernel does that for those inside; for a caller in another mount namespace it
// would take the mount away, and what is protected with it. Nobody inside can bring a mount under another name in the same
// directory between this and what is done then: that is what the kernel refuses them.
func moveable(dir int, base string) error {
	fd, err := linux.Openat2(dir, base, &unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_MAGICLINKS})
	if err == unix.EXDEV {
		return unix.EBUSY
	}
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

// parent opens the directory that a name is in.
func (f Files) parent(op, name string) (dir *os.File, base string, err error) {
	above, base := path.Split(path.Clean("/" + name))
	if base == "" {
		return nil, "", &fs.PathError{Op: op, Path: name, Err: unix.EBUSY}
	}
	dir, err = f.open(op, above, unix.O_PATH|unix.O_DIRECTORY, 0)
	return dir, base, err
}

// in calls do, as the user, with the directory that a name is in.
func (f Files) in(op, name string, do func(dir int, base string) error) error {
	dir, base, err := f.parent(op, name)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := f.asUser(func() error { return do(int(dir.Fd()), base) }); err != nil {
		return &fs.PathError{Op: op, Path: name, Err: err}
	}
	return nil
}
