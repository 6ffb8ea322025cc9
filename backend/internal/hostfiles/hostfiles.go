// Package hostfiles gives the files of a sandbox whose processes see the host's own under its own names: those of the places that it
// has, and of the trees that are its business. Everything else that a process can read isn't among them.
package hostfiles

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/confine-run/confine/backend"
)

// Place is a directory of a sandbox.
type Place struct {
	Dir   string // absolute, without symbolic links
	Write bool   // processes may write in it
	At    string // where it lies, if that is somewhere else, as of a copy
}

// Files are those in places. Closed, if not nil, is closed when there are none any more.
type Files struct {
	Places []Place
	Closed <-chan struct{}
}

var _ backend.Files = Files{}

// in is the place that a name is in, and the name in it. Where places lie in each other, the innermost.
func (f Files) in(op, name string, write bool) (root *os.Root, rel string, err error) {
	select {
	case <-f.Closed:
		return nil, "", backend.ErrClosed
	default:
	}
	fail := func(err error) (*os.Root, string, error) { return nil, "", &fs.PathError{Op: op, Path: name, Err: err} }
	if !filepath.IsAbs(name) || strings.IndexByte(name, 0) >= 0 {
		return fail(fs.ErrInvalid)
	}
	clean := filepath.Clean(name)
	var best *Place
	for i := range f.Places {
		p := &f.Places[i]
		if r, err := filepath.Rel(p.Dir, clean); err == nil && filepath.IsLocal(r) && (best == nil || len(p.Dir) > len(best.Dir)) {
			best, rel = p, r
		}
	}
	switch {
	case best == nil:
		return fail(fs.ErrNotExist) // whatever of the host's may be there
	case write && !best.Write:
		return fail(fs.ErrPermission)
	}
	if root, err = os.OpenRoot(cmp.Or(best.At, best.Dir)); err != nil {
		return fail(err)
	}
	return root, rel, nil
}

// at calls do with a place and a name in it.
func at[T any](f Files, op, name string, write bool, do func(root *os.Root, rel string) (T, error)) (v T, err error) {
	root, rel, err := f.in(op, name, write)
	if err != nil {
		return v, err
	}
	defer root.Close()
	return do(root, rel)
}

// change is at, for what is written and gives nothing.
func (f Files) change(op, name string, do func(root *os.Root, rel string) error) error {
	_, err := at(f, op, name, true, func(root *os.Root, rel string) (struct{}, error) { return struct{}{}, do(root, rel) })
	return err
}

// regular opens a file that is one.
func (f Files) regular(name string, write bool, flags int, perm fs.FileMode) (*os.File, error) {
	return at(f, "open", name, write, func(r *os.Root, rel string) (*os.File, error) {
		odd := &fs.PathError{Op: "open", Path: name, Err: errors.New("is no regular file")}
		if info, err := r.Stat(rel); err == nil && !info.Mode().IsRegular() { // opening a FIFO would wait
			return nil, odd
		}
		file, err := r.OpenFile(rel, flags, perm&0o777)
		if err != nil {
			return nil, err
		}
		if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
			return nil, errors.Join(cmp.Or[error](err, odd), file.Close())
		}
		return file, nil
	})
}

func (f Files) Open(name string) (io.ReadCloser, error) {
	file, err := f.regular(name, false, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	return file, nil
}

func (f Files) Create(name string, perm fs.FileMode) (io.WriteCloser, error) {
	file, err := f.regular(name, true, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return nil, err
	}
	return file, nil
}

func (f Files) Stat(name string) (fs.FileInfo, error) {
	return at(f, "stat", name, false, (*os.Root).Stat)
}

func (f Files) Lstat(name string) (fs.FileInfo, error) {
	return at(f, "lstat", name, false, (*os.Root).Lstat)
}

func (f Files) Readlink(name string) (string, error) {
	return at(f, "readlink", name, false, (*os.Root).Readlink)
}

func (f Files) List(name string) ([]fs.DirEntry, error) {
	return at(f, "readdir", name, false, func(r *os.Root, rel string) ([]fs.DirEntry, error) {
		return fs.ReadDir(r.FS(), filepath.ToSlash(rel))
	})
}

func (f Files) Mkdir(name string, perm fs.FileMode) error {
	return f.change("mkdir", name, func(r *os.Root, rel string) error { return r.Mkdir(rel, perm&0o777) })
}

func (f Files) Symlink(target, name string) error {
	return f.change("symlink", name, func(r *os.Root, rel string) error { return r.Symlink(target, rel) })
}

func (f Files) Chmod(name string, perm fs.FileMode) error {
	return f.change("chmod", name, func(r *os.Root, rel string) error { return r.Chmod(rel, perm&0o777) })
}

// Rename moves a file or a directory within a place.
func (f Files) Rename(from, to string) error {
	root, rel, err := f.in("rename", from, true)
	if err != nil {
		return err
	}
	defer root.Close()
	other, dst, err := f.in("rename", to, true)
	if err != nil {
		return err
	}
	defer other.Close()
	if root.Name() != other.Name() {
		return &fs.PathError{Op: "rename", Path: to, Err: errors.New("is in another place")}
	}
	return root.Rename(rel, dst)
}

// Remove removes a file or an empty directory, and never a place itself.
func (f Files) Remove(name string) error {
	return f.change("remove", name, func(r *os.Root, rel string) error {
		if rel == "." {
			return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrPermission}
		}
		return r.Remove(rel)
	})
}

func (Files) Watch(string, bool) (backend.Watcher, error) { return nil, errors.ErrUnsupported }

// Measure is how much lies in trees, as far as it can be looked at. Directories are opened by way of their root: on Windows nobody
// can remove one meanwhile that os.Open has opened.
func Measure(trees []string) (bytes, files int64) {
	count := func(d fs.DirEntry) {
		files++
		if d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				bytes += info.Size()
			}
		}
	}
	for _, tree := range trees {
		root, err := os.OpenRoot(tree)
		if err != nil {
			if info, err := os.Lstat(tree); err == nil {
				count(fs.FileInfoToDirEntry(info))
			}
			continue
		}
		_ = fs.WalkDir(root.FS(), ".", func(_ string, d fs.DirEntry, err error) error {
			if err == nil {
				count(d)
			}
			return nil
		})
		_ = root.Close()
	}
	return bytes, files
}
