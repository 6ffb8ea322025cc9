package boxfiles

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/linux"
)

// Bounds of watching. Somebody inside may make, and rename, directories faster than they are looked through.
const (
	maxWatchers = 16      // of a sandbox: the kernel has 128 for a user
	maxWatched  = 4096    // directories of a watcher
	maxScanned  = 150_000 // names that one reads in a second to find directories
	scanOpen    = 16      // names that opening a directory costs as much as
)

// watcher tells what inotify(7) does. No descriptor of a directory is held, for one that is held is never seen to be removed:
// the directory at the top is found by its name again, and has to be the same.
type watcher struct {
	files Files
	name  string
	deep  bool
	top   [2]uint64 // device and inode

	events *os.File
	buffer [64 << 10]byte

	dirs    map[int32]string // by watch, relative to the top, which is "."
	found   map[string]bool  // told as created because a scan saw it: the kernel may tell that again
	scanned int              // since when
	since   time.Time        // it was last 0
	ended   error            // of the top, or of the sandbox
	mu      sync.Mutex
}

const (
	watched = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
		unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR
)

// Watch tells what happens in a directory until it is removed or renamed; deep: in those below it, too, which no link leads to.
func (f Files) Watch(name string, deep bool) (backend.Watcher, error) {
	fail := func(err error) (backend.Watcher, error) {
		if _, ok := errors.AsType[*fs.PathError](err); !ok && !errors.Is(err, backend.ErrClosed) {
			err = &fs.PathError{Op: "watch", Path: name, Err: err}
		}
		return nil, err
	}
	top, err := f.open("watch", name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return fail(err)
	}
	defer top.Close()
	w := &watcher{files: f, name: name, deep: deep, dirs: map[int32]string{}, found: map[string]bool{}, since: time.Now()}
	if w.top, err = identity(top); err != nil {
		return fail(err)
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return fail(err)
	}
	w.events = os.NewFile(uintptr(fd), "inotify")
	if lost, err := w.add(top, ".", nil); err != nil {
		_ = w.events.Close()
		return fail(err)
	} else if lost && w.deep {
		w.found["."] = true // told by the first Next
	}
	if err := f.Root.watch(w); err != nil {
		_ = w.events.Close()
		return fail(err)
	}
	return w, nil
}

// watch has a watcher end with the root, unless there are too many.
func (r *Root) watch(w *watcher) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return backend.ErrClosed
	case len(r.watchers) >= maxWatchers:
		return unix.EMFILE
	}
	r.watchers[w] = true
	return nil
}

func identity(dir *os.File) ([2]uint64, error) {
	var st unix.Stat_t
	err := unix.Fstat(int(dir.Fd()), &st)
	return [2]uint64{st.Dev, st.Ino}, err
}

// add watches a directory, and with deep those below it. What it finds there is told, if anybody listens. Lost are directories
// that are not watched because there are too many, or because they can't be.
func (w *watcher) add(dir *os.File, rel string, tell func(name string)) (lost bool, err error) {
	if w.scanned += scanOpen; len(w.dirs) >= maxWatched || w.scanned > maxScanned {
		return true, nil
	}
	var wd int
	err = w.control(func(fd int) error {
		return w.files.asUser(func() (err error) {
			wd, err = unix.InotifyAddWatch(fd, link(dir), watched)
			return err
		})
	})
	if err != nil {
		return true, err
	}
	w.dirs[int32(wd)] = rel
	if !w.deep {
		return false, nil
	}
	for {
		entries, err := dir.ReadDir(256)
		for _, e := range entries {
			name := path.Join(rel, e.Name())
			if tell != nil {
				tell(name)
			}
			if w.scanned++; w.scanned > maxScanned {
				return true, nil
			}
			if e.IsDir() {
				lost = w.enter(dir, e.Name(), name, tell) || lost
			}
		}
		if err == io.EOF || err == nil && len(entries) == 0 {
			return lost, nil
		}
		if err != nil {
			return true, nil
		}
	}
}

// control calls do with the descriptor of the events, which stays open until do returns.
func (w *watcher) control(do func(fd int) error) error {
	raw, err := w.events.SyscallConn()
	if err != nil {
		return err
	}
	var done error
	err = raw.Control(func(fd uintptr) { done = do(int(fd)) })
	return errors.Join(err, done)
}

// enter is add for a directory in another one. One that is gone by now is not lost, nor one that tells of processes.
func (w *watcher) enter(in *os.File, base, rel string, tell func(name string)) (lost bool) {
	fd := -1
	err := w.files.asUser(func() (err error) {
		fd, err = linux.Openat2(int(in.Fd()), base, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS})
		return err
	})
	if err != nil {
		return err != unix.ENOENT && err != unix.ENOTDIR && err != unix.ELOOP
	}
	dir := os.NewFile(uintptr(fd), rel)
	defer dir.Close()
	if told(fd) != nil {
		return false
	}
	lost, _ = w.add(dir, rel, tell)
	return lost
}

// again finds the top by its name, and gives nothing if that is another directory now.
func (w *watcher) again() *os.File {
	top, err := w.files.open("watch", w.name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil
	}
	if id, err := identity(top); err != nil || id != w.top {
		_ = top.Close()
		return nil
	}
	return top
}

// Next waits for events. It is called by one goroutine at a time.
func (w *watcher) Next(ctx context.Context) (events []backend.FileEvent, err error) {
	if w.found["."] {
		delete(w.found, ".")
		return []backend.FileEvent{{Op: backend.FileLost, Name: "."}}, nil
	}
	_ = w.events.SetReadDeadline(time.Time{})
	defer context.AfterFunc(ctx, func() { _ = w.events.SetReadDeadline(time.Unix(1, 0)) })()
	for len(events) == 0 {
		if w.gone() != nil {
			break
		}
		n, err := w.events.Read(w.buffer[:])
		if now := time.Now(); now.Sub(w.since) > time.Second {
			w.scanned, w.since = 0, now
		}
		switch {
		case err == nil:
			events = w.take(w.buffer[:n])
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case w.gone() != nil:
		case errors.Is(err, os.ErrClosed):
			return nil, fs.ErrClosed
		default:
			return nil, err
		}
	}
	if len(events) == 0 {
		return nil, w.gone()
	}
	return events, nil
}

func (w *watcher) gone() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ended
}

// end has Next give an error from now on.
func (w *watcher) end(err error) {
	w.mu.Lock()
	if w.ended == nil {
		w.ended = err
	}
	w.mu.Unlock()
	_ = w.events.Close()
}

func (w *watcher) Close() error {
	w.files.Root.mu.Lock()
	delete(w.files.Root.watchers, w)
	w.files.Root.mu.Unlock()
	return w.events.Close()
}

// ops are what the kernel's events are.
var ops = []struct {
	mask uint32
	op   backend.FileOp
}{
	{unix.IN_CREATE | unix.IN_MOVED_TO, backend.FileCreated},
	{unix.IN_MODIFY, backend.FileWritten},
	{unix.IN_DELETE, backend.FileRemoved},
	{unix.IN_MOVED_FROM, backend.FileRenamed},
	{unix.IN_ATTRIB, backend.FileChmod},
}

// take makes events of what the kernel wrote.
func (w *watcher) take(b []byte) (events []backend.FileEvent) {
	tell := func(op backend.FileOp, name string) {
		e := backend.FileEvent{Op: op, Name: name}
		if len(events) == 0 || events[len(events)-1] != e {
			events = append(events, e)
		}
	}
	for len(b) >= unix.SizeofInotifyEvent {
		wd, mask := int32(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint32(b[4:])
		size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
		if size > len(b) {
			break
		}
		base := string(bytes.TrimRight(b[unix.SizeofInotifyEvent:size], "\x00"))
		b = b[size:]
		dir, known := w.dirs[wd]
		switch {
		case mask&unix.IN_Q_OVERFLOW != 0:
			tell(backend.FileLost, ".")
			w.look(".", nil)
		case !known:
		case mask&unix.IN_IGNORED != 0:
			delete(w.dirs, wd)
		case mask&(unix.IN_DELETE_SELF|unix.IN_MOVE_SELF|unix.IN_UNMOUNT) != 0:
			if dir == "." {
				w.end(io.EOF)
			}
		case base != "":
			w.happened(mask, path.Join(dir, base), tell)
		}
	}
	return events
}

// happened tells one event, and watches a directory that is new.
func (w *watcher) happened(mask uint32, name string, tell func(backend.FileOp, string)) {
	seen := w.found[name]
	delete(w.found, name)
	for _, o := range ops {
		if mask&o.mask != 0 && !(seen && o.op == backend.FileCreated) {
			tell(o.op, name)
		}
	}
	if !w.deep || mask&unix.IN_ISDIR == 0 {
		return
	}
	switch {
	case mask&unix.IN_MOVED_FROM != 0: // what is below has other names, or is elsewhere
		for wd, dir := range w.dirs {
			if dir == name || strings.HasPrefix(dir, name+"/") {
				_ = w.control(func(fd int) error {
					_, err := unix.InotifyRmWatch(fd, uint32(wd))
					return err
				})
				delete(w.dirs, wd)
			}
		}
	case mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0 && !seen:
		lost := w.look(name, func(name string) {
			tell(backend.FileCreated, name)
			if len(w.found) < maxScanned {
				w.found[name] = true
			}
		})
		if lost {
			tell(backend.FileLost, name)
		}
	}
}

// look watches a directory below the top, or all of it.
func (w *watcher) look(rel string, tell func(name string)) (lost bool) {
	top := w.again()
	if top == nil {
		return true
	}
	defer top.Close()
	if rel == "." {
		lost, _ = w.add(top, rel, tell)
		return lost
	}
	return w.enter(top, rel, rel, tell)
}
