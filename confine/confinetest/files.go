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
	"github.com/confine-run/confine/internal/config"
)

// files are in memory. /tmp is there from the start, and the policy's own places.
type files struct {
	mu       sync.Mutex
	all      map[string]*node // by clean absolute names that no link is in
	watchers map[*watcher]bool
	over     bool
}

// node is a file, a directory or a symbolic link, whose text is its target, and never changed once it is there.
type node struct {
	name string
	mode fs.FileMode
	text []byte
	time time.Time
}

func newFiles(places []config.Mount) *files {
	f := &files{watchers: map[*watcher]bool{},
		all: map[string]*node{"/": {name: "/", mode: fs.ModeDir | 0o755}, "/tmp": {name: "tmp", mode: fs.ModeDir | fs.ModeSticky | 0o777}}}
	for _, m := range places {
		for at := path.Clean("/" + m.Dst); m.Size > 0 && f.all[at] == nil; at = path.Dir(at) {
			f.all[at] = &node{name: path.Base(at), mode: fs.ModeDir | 0o755}
		}
	}
	return f
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
	f.told()
}

func (f *files) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	f.told()
}

// maxLinks is how many links are followed for one name.
const maxLinks = 40

// resolve gives the name that no link is in, of something that is there or of something in a directory that is. The caller holds mu.
func (f *files) resolve(name string, follow bool) (string, error) {
	if f.over {
		return "", backend.ErrClosed
	}
	if strings.ContainsRune(name, 0) {
		return "", syscall.EINVAL
	}
	at, rest := "/", path.Clean("/"+name)
	for links := 0; ; {
		var part string
		part, rest, _ = strings.Cut(strings.TrimPrefix(rest, "/"), "/")
		if part == "" {
			return at, nil
		}
		if n := f.all[at]; !n.mode.IsDir() {
			return "", syscall.ENOTDIR
		}
		next := path.Join(at, part) // ".." of a link's target ends at the root
		n := f.all[next]
		switch {
		case n == nil && rest == "":
			return next, nil
		case n == nil:
			return "", fs.ErrNotExist
		case n.mode&fs.ModeSymlink != 0 && (follow || rest != ""):
			if links++; links > maxLinks {
				return "", syscall.ELOOP
			}
			target := string(n.text)
			if path.IsAbs(target) {
				at = "/"
			}
			rest = strings.TrimRight(target, "/") + "/" + rest
		default:
			at = next
		}
	}
}

func failed(op, name string, err error) error {
	if err == nil || errors.Is(err, backend.ErrClosed) {
		return err
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// look gives what a name leads to, or is.
func (f *files) look(op, name string, follow bool) (*node, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, err := f.resolve(name, follow)
	if err == nil && f.all[at] == nil {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, failed(op, name, err)
	}
	return f.all[at], nil
}

// change does something with what a name leads to, or is. It is nil where nothing is.
func (f *files) change(op, name string, follow bool, do func(at string, was *node) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, err := f.resolve(name, follow)
	if err == nil {
		err = do(at, f.all[at])
	}
	return failed(op, name, err)
}

// set makes a node what is at a name. The caller holds mu.
func (f *files) set(at string, n *node, op backend.FileOp) {
	n.name, n.time = path.Base(at), time.Now()
	f.all[at] = n
	f.tell(op, at)
}

func (f *files) Open(name string) (io.ReadCloser, error) {
	n, err := f.look("open", name, true)
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
	put := func(text []byte) error {
		return f.change("create", name, true, func(at string, was *node) error {
			switch {
			case was == nil:
				f.set(at, &node{mode: perm.Perm(), text: text}, backend.FileCreated)
			case was.mode.IsDir():
				return syscall.EISDIR
			default:
				f.set(at, &node{mode: was.mode, text: text}, backend.FileWritten)
			}
			return nil
		})
	}
	if err := put(nil); err != nil {
		return nil, err
	}
	return &writing{put: put}, nil
}

func (f *files) stat(op, name string, follow bool) (fs.FileInfo, error) {
	n, err := f.look(op, name, follow)
	if err != nil {
		return nil, err
	}
	return info{n}, nil
}

func (f *files) Stat(name string) (fs.FileInfo, error) { return f.stat("stat", name, true) }

func (f *files) Lstat(name string) (fs.FileInfo, error) { return f.stat("lstat", name, false) }

func (f *files) Readlink(name string) (string, error) {
	n, err := f.look("readlink", name, false)
	if err != nil {
		return "", err
	}
	if n.mode&fs.ModeSymlink == 0 {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: syscall.EINVAL}
	}
	return string(n.text), nil
}

func (f *files) List(name string) (list []fs.DirEntry, err error) {
	err = f.change("list", name, true, func(in string, was *node) error {
		if was == nil {
			return fs.ErrNotExist
		}
		if !was.mode.IsDir() {
			return syscall.ENOTDIR
		}
		for at, n := range f.all {
			if at != "/" && path.Dir(at) == in {
				list = append(list, fs.FileInfoToDirEntry(info{n}))
			}
		}
		return nil
	})
	return list, err
}

// put makes what isn't there.
func (f *files) put(op, name string, n *node) error {
	return f.change(op, name, false, func(at string, was *node) error {
		if was != nil {
			return fs.ErrExist
		}
		f.set(at, n, backend.FileCreated)
		return nil
	})
}

func (f *files) Mkdir(name string, perm fs.FileMode) error {
	return f.put("mkdir", name, &node{mode: fs.ModeDir | perm.Perm()})
}

func (f *files) Symlink(target, name string) error {
	if target == "" || strings.ContainsRune(target, 0) {
		return &fs.PathError{Op: "symlink", Path: name, Err: syscall.EINVAL}
	}
	return f.put("symlink", name, &node{mode: fs.ModeSymlink | 0o777, text: []byte(target)})
}

func (f *files) Chmod(name string, perm fs.FileMode) error {
	return f.change("chmod", name, true, func(at string, was *node) error {
		if was == nil {
			return fs.ErrNotExist
		}
		if perm != perm.Perm() {
			return syscall.EINVAL
		}
		f.set(at, &node{mode: was.mode.Type() | perm, text: was.text}, backend.FileChmod)
		return nil
	})
}

// below says whether something is in a directory. The caller holds mu.
func (f *files) below(dir string) bool {
	for at := range f.all {
		if strings.HasPrefix(at, dir+"/") {
			return true
		}
	}
	return false
}

func (f *files) Rename(from, to string) error {
	return f.change("rename", from, false, func(at string, was *node) error {
		target, err := f.resolve(to, false)
		there := f.all[target]
		switch {
		case err != nil:
			return err
		case was == nil:
			return fs.ErrNotExist
		case at == "/" || target == "/":
			return syscall.EBUSY
		case target == at:
			return nil
		case strings.HasPrefix(target, at+"/"):
			return syscall.EINVAL
		case there != nil && there.mode.IsDir() && !was.mode.IsDir():
			return syscall.EISDIR
		case there != nil && !there.mode.IsDir() && was.mode.IsDir():
			return syscall.ENOTDIR
		case there != nil && f.below(target):
			return syscall.ENOTEMPTY
		}
		for name, n := range maps.Clone(f.all) {
			if strings.HasPrefix(name, at+"/") {
				f.all[target+strings.TrimPrefix(name, at)] = n
				delete(f.all, name)
			}
		}
		moved := *was
		moved.name = path.Base(target)
		delete(f.all, at)
		f.all[target] = &moved
		f.tell(backend.FileRenamed, at)
		f.tell(backend.FileCreated, target)
		f.told()
		return nil
	})
}

func (f *files) Remove(name string) error {
	return f.change("remove", name, false, func(at string, was *node) error {
		switch {
		case at == "/":
			return syscall.EBUSY
		case was == nil:
			return fs.ErrNotExist
		case f.below(at):
			return syscall.ENOTEMPTY
		}
		delete(f.all, at)
		f.tell(backend.FileRemoved, at)
		f.told()
		return nil
	})
}

// info is a node as package fs has it.
type info struct{ n *node }

func (i info) Name() string       { return i.n.name }
func (i info) Size() int64        { return int64(len(i.n.text)) }
func (i info) Mode() fs.FileMode  { return i.n.mode }
func (i info) ModTime() time.Time { return i.n.time }
func (i info) IsDir() bool        { return i.n.mode.IsDir() }
func (i info) Sys() any           { return nil }
