package confinetest

import (
	"context"
	"io"
	"io/fs"
	"path"
	"strings"
	"sync"
	"syscall"

	"github.com/confine-run/confine/backend"
)

// Bounds of watching, as other backends have them: watchers of a sandbox, and events that wait for Next, of which more are lost.
const (
	maxWatchers = 16
	maxEvents   = 1000
)

// watcher tells what is done with files.
type watcher struct {
	files *files
	top   string
	deep  bool

	mu     sync.Mutex
	events []backend.FileEvent
	end    error
	more   chan struct{} // of length 1
}

func (f *files) Watch(name string, deep bool) (backend.Watcher, error) {
	w := &watcher{files: f, deep: deep, more: make(chan struct{}, 1)}
	err := f.change("watch", name, true, func(at string, was *node) error {
		switch {
		case was == nil:
			return fs.ErrNotExist
		case !was.mode.IsDir():
			return syscall.ENOTDIR
		}
		if len(f.watchers) >= maxWatchers {
			return syscall.EMFILE
		}
		w.top = at
		f.watchers[w] = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	return w, nil
}

// tell tells everybody who watches. The caller holds mu.
func (f *files) tell(op backend.FileOp, at string) {
	for w := range f.watchers {
		rel, ok := strings.CutPrefix(at, strings.TrimSuffix(w.top, "/")+"/")
		if !ok || !w.deep && path.Dir(rel) != "." {
			continue
		}
		w.mu.Lock()
		switch n := len(w.events); {
		case n < maxEvents:
			w.events = append(w.events, backend.FileEvent{Op: op, Name: rel})
		case n == maxEvents:
			w.events = append(w.events, backend.FileEvent{Op: backend.FileLost, Name: "."})
		}
		w.mu.Unlock()
		w.wake()
	}
}

// told ends those whose directory is gone. The caller holds mu.
func (f *files) told() {
	for w := range f.watchers {
		n := f.all[w.top]
		if n != nil && n.mode.IsDir() && !f.over {
			continue
		}
		w.mu.Lock()
		w.end = io.EOF
		if f.over {
			w.end = backend.ErrClosed
		}
		w.mu.Unlock()
		w.wake()
	}
}

func (w *watcher) wake() {
	select {
	case w.more <- struct{}{}:
	default:
	}
}

func (w *watcher) Next(ctx context.Context) ([]backend.FileEvent, error) {
	for {
		w.mu.Lock()
		events, end := w.events, w.end
		w.events = nil
		w.mu.Unlock()
		switch {
		case len(events) > 0:
			return events, nil
		case end != nil:
			return nil, end
		}
		select {
		case <-w.more:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (w *watcher) Close() error {
	w.files.mu.Lock()
	delete(w.files.watchers, w)
	w.files.mu.Unlock()
	w.mu.Lock()
	w.end = fs.ErrClosed
	w.mu.Unlock()
	w.wake()
	return nil
}
