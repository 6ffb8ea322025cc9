package confinetest

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/confine-run/confine/backend"
)

// files are in memory. /tmp is there from the start.
type files struct {
	mu   sync.Mutex
	all  map[string]*node // by clean absolute names
	over bool
}

// node is a file or a directory, and never changed once it is there.
type node struct {
	name string
	mode fs.FileMode
	text []byte
	time time.Time
}

func newFiles() *files {
	return &files{all: map[string]*node{"/": {name: "/", mode: fs.ModeDir | 0o755}, "/tmp": {name: "tmp", mode: fs.ModeDir | 0o777}}}
}

// tree makes a directory with those above it, as an overlay of the caller's would be there.
func (f *files) tree(dir string) {
	for at := clean(dir); f.all[at] == nil; at = path.Dir(at) {
		f.all[at] = &node{name: path.Base(at), mode: fs.ModeDir | 0o755}
	}
}

func (f *files) copy() map[string]*node {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.all)
}

func (f *files) become(all map[string]*node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = maps.Clone(all)
}

func (f *files) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
}

func clean(name string) string { return path.Clean("/" + name) }

// look gives what a name leads to.
func (f *files) look(op, name string) (*node, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over {
		return nil, backend.ErrClosed
	}
	if n := f.all[clean(name)]; n != nil {
		return n, nil
	}
	return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
}

// put sets what a name leads to; nil removes it.
func (f *files) put(op, name string, n *node) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := clean(name)
	fail := func(err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }
	was, above := f.all[at], f.all[path.Dir(at)]
	switch {
	case f.over:
		return backend.ErrClosed
	case at == "/":
		return fail(syscall.EBUSY)
	case above == nil || n == nil && was == nil:
		return fail(fs.ErrNotExist)
	case n == nil:
		for other := range f.all {
			if strings.HasPrefix(other, at+"/") {
				return fail(syscall.ENOTEMPTY)
			}
		}
		delete(f.all, at)
		return nil
	case !above.mode.IsDir():
		return fail(syscall.ENOTDIR)
	case was != nil && (was.mode.IsDir() || n.mode.IsDir()):
		return fail(fs.ErrExist)
	}
	n.name, n.time = path.Base(at), time.Now()
	f.all[at] = n
	return nil
}

func (f *files) Open(name string) (io.ReadCloser, error) {
	n, err := f.look("open", name)
	if err != nil {
		return nil, err
	}
	if n.mode.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EINVAL}
	}
	return io.NopCloser(bytes.NewReader(n.text)), nil
}

// writing is a file that isn't there as a whole yet.
type writing struct {
	bytes.Buffer
	put func(text []byte) error
}

func (w *writing) Close() error { return w.put(w.Bytes()) }

func (f *files) Create(name string, perm fs.FileMode) (io.WriteCloser, error) {
	put := func(text []byte) error { return f.put("create", name, &node{mode: perm.Perm(), text: text}) }
	if err := put(nil); err != nil {
		return nil, err
	}
	return &writing{put: put}, nil
}

func (f *files) Stat(name string) (fs.FileInfo, error) {
	n, err := f.look("stat", name)
	if err != nil {
		return nil, err
	}
	return info{n}, nil
}

func (f *files) List(name string) (list []fs.DirEntry, err error) {
	if n, err := f.look("list", name); err != nil {
		return nil, err
	} else if !n.mode.IsDir() {
		return nil, &fs.PathError{Op: "list", Path: name, Err: syscall.ENOTDIR}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for at, n := range f.all {
		if at != "/" && path.Dir(at) == clean(name) {
			list = append(list, fs.FileInfoToDirEntry(info{n}))
		}
	}
	return list, nil
}

func (f *files) Mkdir(name string, perm fs.FileMode) error {
	return f.put("mkdir", name, &node{mode: fs.ModeDir | perm.Perm()})
}

func (f *files) Remove(name string) error { return f.put("remove", name, nil) }

// info is a node as package fs has it.
type info struct{ n *node }

func (i info) Name() string       { return i.n.name }
func (i info) Size() int64        { return int64(len(i.n.text)) }
func (i info) Mode() fs.FileMode  { return i.n.mode }
func (i info) ModTime() time.Time { return i.n.time }
func (i info) IsDir() bool        { return i.n.mode.IsDir() }
func (i info) Sys() any           { return nil }

func (f *files) Lstat(string) (fs.FileInfo, error) { return nil, errors.ErrUnsupported }

func (f *files) Readlink(string) (string, error) { return "", errors.ErrUnsupported }

func (f *files) Symlink(string, string) error { return errors.ErrUnsupported }

func (f *files) Chmod(string, fs.FileMode) error { return errors.ErrUnsupported }

func (f *files) Rename(string, string) error { return errors.ErrUnsupported }

func (f *files) Watch(string, bool) (backend.Watcher, error) { return nil, errors.ErrUnsupported }
