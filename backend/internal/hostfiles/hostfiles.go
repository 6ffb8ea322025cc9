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

func done(err error) (struct{}, error) { return struct{}{}, err }

// regular gives a file that is one.
func regular(file *os.File, err error) (*os.File, error) {
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: file.Name(), Err: errors.New("is no regular file")}
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// Open reads a file.
func (f Files) Open(name string) (io.ReadCloser, error) {
	file, err := at(f, "open", name, false, func(r *os.Root, rel string) (*os.File, error) {
		if info, err := r.Stat(rel); err == nil && !info.Mode().IsRegular() { // opening a FIFO would wait
			return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("is no regular file")}
		}
		return regular(r.Open(rel))
	})
	if err != nil {
		return nil, err
	}
	return file, nil
}

// Create writes a file anew.
func (f Files) Create(name string, perm fs.FileMode) (io.WriteCloser, error) {
	file, err := at(f, "open", name, true, func(r *os.Root, rel string) (*os.File, error) {
		if info, err := r.Stat(rel); err == nil && !info.Mode().IsRegular() {
			return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("is no regular file")}
		}
		return regular(r.OpenFile(rel, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm&0o777))
	})
	if err != nil {
		return nil, err
	}
	return file, nil
}

// Stat describes what a name leads to.
func (f Files) Stat(name string) (fs.FileInfo, error) {
	return at(f, "stat", name, false, (*os.Root).Stat)
}

// Lstat describes a name itself.
func (f Files) Lstat(name string) (fs.FileInfo, error) {
	return at(f, "lstat", name, false, (*os.Root).Lstat)
}

// Readlink gives what a symbolic link says.
func (f Files) Readlink(name string) (string, error) {
	return at(f, "readlink", name, false, (*os.Root).Readlink)
}

// List is a directory.
func (f Files) List(name string) ([]fs.DirEntry, error) {
	return at(f, "readdir", name, false, func(r *os.Root, rel string) ([]fs.DirEntry, error) {
		return fs.ReadDir(r.FS(), filepath.ToSlash(rel))
	})
}

// Mkdir makes a directory.
func (f Files) Mkdir(name string, perm fs.FileMode) error {
	_, err := at(f, "mkdir", name, true, func(r *os.Root, rel string) (struct{}, error) { return done(r.Mkdir(rel, perm&0o777)) })
	return err
}

// Symlink makes a symbolic link.
func (f Files) Symlink(target, name string) error {
	_, err := at(f, "symlink", name, true, func(r *os.Root, rel string) (struct{}, error) { return done(r.Symlink(target, rel)) })
	return err
}

// Chmod changes the permissions of a file or a directory.
func (f Files) Chmod(name string, perm fs.FileMode) error {
	_, err := at(f, "chmod", name, true, func(r *os.Root, rel string) (struct{}, error) { return done(r.Chmod(rel, perm&0o777)) })
	return err
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
	_, err := at(f, "remove", name, true, func(r *os.Root, rel string) (struct{}, error) {
		if rel == "." {
			return done(&fs.PathError{Op: "remove", Path: name, Err: fs.ErrPermission})
		}
		return done(r.Remove(rel))
	})
	return err
}

// Watch is not to be had.
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
