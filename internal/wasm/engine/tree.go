package engine

import (
	"errors"
	"hash/fnv"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	expsys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"

	"github.com/confine-run/confine/internal/wasm"
)

// seen are accesses that were refused, the first of them.
type seen struct{ denied []string }

func (s *seen) refused(name string) {
	if len(s.denied) < wasm.MaxDenied && !slices.Contains(s.denied, name) {
		s.denied = append(s.denied, name)
	}
}

// tree is a directory that the module has. Whatever lies in it leads nowhere out of it, and only regular files and directories are
// opened.
type tree struct {
	expsys.UnimplementedFS
	name  string // as the module has it
	root  *os.Root
	only  []string // of the names in it these are there; nil: all
	seen  *seen
	fixed bool // what differs from run to run is the same
}

// openTree opens a directory, or of that of a file this file alone.
func openTree(name string, s *seen, fixed bool) (*tree, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	t := &tree{name: name, seen: s, fixed: fixed}
	if !info.IsDir() {
		t.name, t.only = filepath.Dir(name), []string{filepath.Base(name)}
	}
	t.root, err = os.OpenRoot(t.name)
	return t, err
}

// at is a name of the tree's. The engine's library puts it together from those of directories, and a slash at its end says that it is of one.
func (t *tree) at(name string) (string, expsys.Errno) {
	clean := path.Clean("/" + name)[1:]
	switch {
	case clean == "":
		return ".", 0
	case t.only != nil && !slices.Contains(t.only, clean):
		return "", expsys.ENOENT
	case strings.HasSuffix(name, "/"):
		clean += "/"
	}
	return clean, 0
}

// errno is an error of something with this name. What leads out of the tree is no error of the system's.
func (t *tree) errno(name string, err error) expsys.Errno {
	var e syscall.Errno
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		if number := expsys.UnwrapOSError(err); number != expsys.EIO || e == syscall.EIO {
			return number
		}
		return others(e)
	case errors.Is(err, fs.ErrNotExist):
		return expsys.ENOENT
	case errors.Is(err, fs.ErrExist):
		return expsys.EEXIST
	case errors.Is(err, fs.ErrInvalid):
		return expsys.EINVAL
	case errors.Is(err, fs.ErrPermission):
		return expsys.EACCES
	case errors.Is(err, fs.ErrClosed):
		return expsys.EBADF
	case errors.Is(err, errors.ErrUnsupported):
		return expsys.ENOTSUP
	}
	t.seen.refused(path.Join(t.name, name))
	return expsys.EPERM
}

// others are errors that the engine's library has no number for.
func others(e syscall.Errno) expsys.Errno {
	switch e {
	case syscall.ENXIO, syscall.ENODEV, syscall.EBUSY:
		return expsys.EACCES
	case syscall.EXDEV, syscall.EMLINK:
		return expsys.ENOTSUP
	}
	return expsys.EIO
}

func (t *tree) OpenFile(name string, flag expsys.Oflag, perm fs.FileMode) (expsys.File, expsys.Errno) {
	name, e := t.at(name)
	if e != 0 {
		return nil, e
	}
	if info, err := t.root.Lstat(name); err == nil {
		switch kind := info.Mode().Type(); {
		case kind == fs.ModeSymlink && flag&expsys.O_NOFOLLOW != 0:
			return nil, expsys.ELOOP
		case kind != 0 && kind != fs.ModeDir && kind != fs.ModeSymlink:
			t.seen.refused(path.Join(t.name, name))
			return nil, expsys.EACCES
		}
	}
	f, err := t.root.OpenFile(name, systemFlags(flag)|nonblock, perm)
	if err != nil {
		return nil, t.errno(name, err)
	}
	info, err := f.Stat()
	if kind := fs.ModeIrregular; err == nil {
		// A file of proc's may be the engine's own memory.
		if kind = info.Mode().Type(); kind != 0 && kind != fs.ModeDir || kind == 0 && ofKernel(f) {
			_ = f.Close()
			t.seen.refused(path.Join(t.name, name))
			return nil, expsys.EACCES
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, t.errno(name, err)
	}
	return &file{tree: t, name: name, file: f, dir: info.IsDir(), adds: flag&expsys.O_APPEND != 0}, 0
}

func systemFlags(flag expsys.Oflag) int {
	system := os.O_RDONLY
	switch {
	case flag&expsys.O_RDWR != 0:
		system = os.O_RDWR
	case flag&expsys.O_WRONLY != 0:
		system = os.O_WRONLY
	}
	for _, of := range []struct {
		ours   expsys.Oflag
		system int
	}{
		{expsys.O_APPEND, os.O_APPEND}, {expsys.O_CREAT, os.O_CREATE}, {expsys.O_EXCL, os.O_EXCL}, {expsys.O_TRUNC, os.O_TRUNC},
		{expsys.O_DSYNC, os.O_SYNC}, {expsys.O_RSYNC, os.O_SYNC}, {expsys.O_SYNC, os.O_SYNC},
	} {
		if flag&of.ours != 0 {
			system |= of.system
		}
	}
	return system
}

func (t *tree) Lstat(name string) (sys.Stat_t, expsys.Errno) { return t.stat(name, t.root.Lstat) }

func (t *tree) Stat(name string) (sys.Stat_t, expsys.Errno) { return t.stat(name, t.root.Stat) }

func (t *tree) stat(name string, stat func(string) (fs.FileInfo, error)) (sys.Stat_t, expsys.Errno) {
	name, e := t.at(name)
	if e != 0 {
		return sys.Stat_t{}, e
	}
	info, err := stat(name)
	if err != nil {
		return sys.Stat_t{}, t.errno(name, err)
	}
	return t.described(name, info), 0
}

// described is what the module is told of a file.
func (t *tree) described(name string, info fs.FileInfo) sys.Stat_t {
	s := sys.NewStat_t(info)
	if t.fixed {
		s.Dev, s.Ino, s.Atim, s.Mtim, s.Ctim = 1, t.number(name), 0, 0, 0
		if info.IsDir() {
			s.Size, s.Nlink = 0, 1
		}
	}
	return s
}

// number is one of a file's that is the same in each run.
func (t *tree) number(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(path.Join(t.name, name)))
	return h.Sum64() | 1
}

// change does something with a name.
func (t *tree) change(name string, do func(name string) error) expsys.Errno {
	name, e := t.at(name)
	if e != 0 {
		return e
	}
	return t.errno(name, do(name))
}

// both does something with two names.
func (t *tree) both(from, to string, do func(from, to string) error) expsys.Errno {
	to, e := t.at(to)
	if e != 0 {
		return e
	}
	return t.change(from, func(from string) error { return do(from, to) })
}

func (t *tree) Mkdir(name string, perm fs.FileMode) expsys.Errno {
	return t.change(name, func(name string) error { return t.root.Mkdir(name, perm.Perm()) })
}

func (t *tree) Chmod(name string, perm fs.FileMode) expsys.Errno {
	return t.change(name, func(name string) error { return t.root.Chmod(name, perm.Perm()) })
}

func (t *tree) Rename(from, to string) expsys.Errno {
	return t.both(from, to, func(from, to string) error { return rename(t.root, from, to) })
}

func (t *tree) Link(from, to string) expsys.Errno {
	return t.both(from, to, t.root.Link)
}

// Symlink makes no link that begins at a root: whoever follows it has another one.
func (t *tree) Symlink(target, name string) expsys.Errno {
	if path.IsAbs(target) || filepath.IsAbs(target) {
		t.seen.refused(path.Join(t.name, name))
		return expsys.EPERM
	}
	return t.change(name, func(name string) error { return t.root.Symlink(target, name) })
}

func (t *tree) Readlink(name string) (target string, e expsys.Errno) {
	e = t.change(name, func(name string) (err error) {
		target, err = t.root.Readlink(name)
		return err
	})
	return filepath.ToSlash(target), e
}

func (t *tree) Rmdir(name string) expsys.Errno  { return t.remove(name, true) }
func (t *tree) Unlink(name string) expsys.Errno { return t.remove(name, false) }

func (t *tree) remove(name string, dir bool) expsys.Errno {
	name, e := t.at(name)
	if e != 0 {
		return e
	}
	info, err := t.root.Lstat(name)
	switch {
	case err != nil:
		return t.errno(name, err)
	case dir && !info.IsDir():
		return expsys.ENOTDIR
	case !dir && info.IsDir():
		return expsys.EISDIR
	}
	return t.errno(name, t.root.Remove(name))
}

func (t *tree) Utimens(name string, atim, mtim int64) expsys.Errno {
	return t.change(name, func(name string) error { return t.root.Chtimes(name, timeOf(atim), timeOf(mtim)) })
}

// timeOf is a time, or none that is set.
func timeOf(ns int64) time.Time {
	if ns == expsys.UTIME_OMIT {
		return time.Time{}
	}
	return time.Unix(0, ns)
}
