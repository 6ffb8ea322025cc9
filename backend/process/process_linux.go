package process

import (
	"context"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor"
)

// run is a sandbox with one process, and nothing else.
type run struct {
	cancel  context.CancelFunc
	signals chan os.Signal
	resize  atomic.Pointer[func(rows, cols uint16) error]
	usage   atomic.Pointer[func() (supervisor.Now, error)]
	done    chan struct{}
	report  *status.Report
}

func (r *run) Signal(sig os.Signal) error {
	n, err := backend.SignalOf(sig)
	if err != nil {
		return err
	}
	select {
	case <-r.done:
		return os.ErrProcessDone
	default:
	}
	if n == unix.SIGKILL {
		r.cancel()
		return nil
	}
	select {
	case r.signals <- supervisor.Plain(n):
		return nil
	case <-r.done:
		return os.ErrProcessDone
	}
}

func (r *run) Resize(size backend.WinSize) error {
	resize := r.resize.Load()
	if resize == nil {
		return unix.ENOTTY
	}
	return (*resize)(size.Rows, size.Cols)
}

// Usage is what everybody inside uses, which is what the process has started.
func (r *run) Usage() (backend.Usage, error) {
	select {
	case <-r.done:
		return backend.Usage{}, os.ErrProcessDone
	default:
	}
	usage := r.usage.Load()
	if usage == nil {
		return backend.Usage{Scratch: -1}, nil // it is being started
	}
	now, err := (*usage)()
	return backend.Usage(now), err
}

func (r *run) Wait() *status.Report {
	<-r.done
	return r.report
}

// wires lead from a process's streams to the readers and writers of its caller: descriptors as they are, all others
// through pipes.
type wires struct {
	options supervisor.Options
	exec    *backend.Exec // keeps its files from being collected
	stdin   *os.File      // the end of ours that is written to
	copied  sync.WaitGroup
	telling sync.Mutex // one event at a time

	mu     sync.Mutex
	inside []*os.File // the ends that the sandbox has
	closed bool
}

func connect(e *backend.Exec) (*wires, error) {
	if err := e.Limits.Check(); err != nil {
		return nil, err
	}
	w := &wires{options: unconnected, exec: e}
	if e.Tell != nil {
		w.options.Denied = func(v status.Violation) { w.tell(backend.Event{Denied: &v}) }
		w.options.LimitHit = func(c status.Capability) { w.tell(backend.Event{Limit: c}) }
	}
	w.options.Limits.Time, w.options.Limits.CPU, w.options.Limits.Output = e.Limits.Time, e.Limits.CPU, e.Limits.Output
	var err error
	if w.options.Stdin, err = w.source(e.Stdin); err == nil {
		w.options.Stdout, w.options.OpenStdout = w.sink(e.Stdout)
	}
	if backend.SameWriter(e.Stdout, e.Stderr) {
		w.options.Stderr, w.options.OpenStderr = w.options.Stdout, w.options.OpenStdout
	} else {
		w.options.Stderr, w.options.OpenStderr = w.sink(e.Stderr)
	}
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *wires) tell(e backend.Event) {
	w.telling.Lock()
	defer w.telling.Unlock()
	w.exec.Tell(e)
}

// attempted tells of what the only process of a run could not reach.
func (w *wires) attempted(a status.Attempt) {
	if w.exec.Tell != nil && a.Verdict == status.AttemptBlocked {
		v := a.Violation()
		w.tell(backend.Event{Denied: &v})
	}
}

func (w *wires) source(from io.Reader) (fd int, err error) {
	if from == nil {
		return -1, nil
	}
	if f, ok := from.(*os.File); ok {
		return int(f.Fd()), nil
	}
	r, to, err := os.Pipe()
	if err != nil {
		return -1, err
	}
	w.inside, w.stdin = append(w.inside, r), to
	go func() { // nobody waits for a reader that gives nothing any more
		_, _ = io.Copy(to, from)
		_ = to.Close()
	}()
	return int(r.Fd()), nil
}

// sink is a descriptor, or what opens one when it is needed.
func (w *wires) sink(to io.Writer) (fd int, open func() (int, error)) {
	if to == nil {
		return -1, nil
	}
	if f, ok := to.(*os.File); ok {
		return int(f.Fd()), nil
	}
	return -1, sync.OnceValues(func() (int, error) { return w.open(to) })
}

// open makes a pipe from which somebody writes to a writer. An error is an errno.
func (w *wires) open(to io.Writer) (fd int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return -1, unix.EPIPE
	}
	from, in, err := os.Pipe()
	if err != nil {
		return -1, unix.EMFILE
	}
	w.inside = append(w.inside, in)
	w.copied.Go(func() {
		defer from.Close()
		if _, err := io.Copy(to, from); err != nil {
			return // the target hears of it by SIGPIPE, as of any reader that leaves
		}
	})
	return int(in.Fd()), nil
}

// close lets go of the pipes, when the process has ended and what it wrote is in them, and waits until the caller's
// writers have it.
func (w *wires) close() {
	w.mu.Lock()
	w.closed = true
	for _, f := range w.inside {
		_ = f.Close()
	}
	w.mu.Unlock()
	if w.stdin != nil {
		_ = w.stdin.Close()
	}
	w.copied.Wait()
}
