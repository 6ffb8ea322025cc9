package filetree

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
)

// Files are a tree. Names of a sandbox's are absolute, those of a directory's are relative to it.
type Files interface {
	Open(name string) (io.ReadCloser, error)
	Create(name string, perm fs.FileMode) (io.WriteCloser, error)
	Stat(name string) (fs.FileInfo, error)
	Lstat(name string) (fs.FileInfo, error)
	Readlink(name string) (string, error)
	List(name string) ([]fs.DirEntry, error)
	Mkdir(name string, perm fs.FileMode) error
	Symlink(target, name string) error
	Chmod(name string, perm fs.FileMode) error
	Remove(name string) error
}

// host is a directory of the host's.
type host struct{ *os.Root }

// Host is what is below a directory. No name and no link leads out of it.
func Host(root *os.Root) Files { return host{root} }

func (h host) Open(name string) (io.ReadCloser, error) { return h.Root.Open(name) }

// Create makes a new file in the place of any other: whatever has the name may lead elsewhere, or be a FIFO.
func (h host) Create(name string, perm fs.FileMode) (io.WriteCloser, error) {
	if info, err := h.Lstat(name); err == nil && !info.IsDir() {
		if err := h.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return h.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
}

func (h host) List(name string) ([]fs.DirEntry, error) {
	dir, err := h.Root.Open(name)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.ReadDir(-1)
}

// above are the directories that a name is in and that aren't there, the outermost first.
func above(files Files, name string) (missing []string) {
	for dir := path.Dir(name); dir != "/" && dir != "."; dir = path.Dir(dir) {
		if _, err := files.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		missing = append(missing, dir)
	}
	slices.Reverse(missing)
	return missing
}

// MakeAll makes a directory with those that it is in. One that is there stays.
func MakeAll(files Files, name string) error {
	if info, err := files.Stat(name); err == nil && info.IsDir() {
		return nil
	}
	if err := MakeParents(files, name); err != nil {
		return err
	}
	return mkdir(files, name)
}

// MakeParents makes the directories that a name is in.
func MakeParents(files Files, name string) error {
	for _, dir := range above(files, name) {
		if err := mkdir(files, dir); err != nil {
			return err
		}
	}
	return nil
}

func mkdir(files Files, name string) error {
	err := files.Mkdir(name, 0o755)
	if errors.Is(err, fs.ErrExist) {
		if info, again := files.Stat(name); again == nil && info.IsDir() {
			return nil
		}
	}
	return err
}

// Create opens a file for writing, and makes the directories that it needs.
func Create(files Files, name string, perm fs.FileMode) (io.WriteCloser, error) {
	w, err := files.Create(name, perm)
	if !errors.Is(err, fs.ErrNotExist) {
		return w, err
	}
	if err := MakeParents(files, name); err != nil {
		return nil, err
	}
	return files.Create(name, perm)
}

// Write makes a file of what comes.
func Write(files Files, name string, perm fs.FileMode, from io.Reader) error {
	w, err := Create(files, name, perm)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, from)
	return errors.Join(err, w.Close())
}

// RemoveAll removes what has a name, and all that is below it.
func RemoveAll(files Files, name string) error {
	info, err := files.Lstat(name)
	if err != nil {
		return err
	}
	if info.IsDir() {
		entries, err := files.List(name)
		if err != nil {
			return err
		}
		for _, e := range entries {
			remove := files.Remove
			if e.IsDir() {
				remove = func(name string) error { return RemoveAll(files, name) }
			}
			if err := remove(path.Join(name, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return files.Remove(name)
}
