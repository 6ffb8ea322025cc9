package confine

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/backends"
	"github.com/confine-run/confine/internal/review"
	"github.com/confine-run/confine/status"
)

// Sandbox holds processes, one after another or at once. What one leaves behind, files and processes in the background, is
// there for the next; nothing of it outlives Close. Memory, tasks, disk, network and what is visible are the sandbox's;
// time and output are limited for each process. A limit of its own that ends something ends the sandbox. Its methods may be called from any goroutine.
type Sandbox struct {
	box    backend.Sandbox
	agreed *review.Agreed // what was applied of it
}

// Option says more about a sandbox than its policy.
type Option func(*options)

type options struct {
	spec    *backend.Spec
	backend backend.Backend
}

// WithDir is the current directory of the sandbox on the caller's side; without it, that of this process.
func WithDir(dir string) Option { return func(o *options) { o.spec.Dir = dir } }

// WithCommand names the program that the sandbox is mostly for, so that its tool chain is visible.
func WithCommand(name string, arg ...string) Option {
	return func(o *options) { o.spec.Argv = append([]string{name}, arg...) }
}

// WithBackend has another backend build it than the one that the policy names: a mock, in tests.
func WithBackend(b backend.Backend) Option { return func(o *options) { o.backend = b } }

// Open builds a sandbox. It ends with ctx, or when it is closed. policy of nil is [Default]. A sandbox that can't be
// built is an *[ExitError] with a report; any other error is about what was asked for.
func Open(ctx context.Context, policy *Policy, opts ...Option) (*Sandbox, error) {
	spec, err := specOf(policy, "")
	if err != nil {
		return nil, err
	}
	o := &options{spec: spec, backend: backends.For(spec.Policy)}
	for _, option := range opts {
		option(o)
	}
	box, failed, err := backend.Open(ctx, o.backend, spec)
	if failed != nil {
		return nil, &ExitError{Report: failed}
	}
	if err != nil {
		return nil, err
	}
	return newSandbox(box), nil
}

func newSandbox(box backend.Sandbox) *Sandbox { return &Sandbox{box: box, agreed: &review.Agreed{}} }

// Command is a process in the sandbox, not started yet.
func (s *Sandbox) Command(name string, arg ...string) *Cmd {
	return s.CommandContext(context.Background(), name, arg...)
}

// CommandContext is Command, and the process is killed when ctx ends.
func (s *Sandbox) CommandContext(ctx context.Context, name string, arg ...string) *Cmd {
	c := CommandContext(ctx, name, arg...)
	c.sandbox = s
	return c
}

// Ledger says what the sandbox was built to enforce, and by what; what holds in fact is in each report.
func (s *Sandbox) Ledger() status.Ledger { return s.box.Ledger() }

// Files are those that processes inside see.
func (s *Sandbox) Files() Files { return Files{s.box.Files()} }

// Snapshot writes down the files of the sandbox: those of its private places and of its overlays. Processes go on, and are not in it.
// errors.ErrUnsupported says that this host can't.
func (s *Sandbox) Snapshot(ctx context.Context) (*Snapshot, error) {
	snapshot, err := s.box.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return &Snapshot{snapshot}, nil
}

// Restore makes the files what they were when the snapshot was made. Processes end.
func (s *Sandbox) Restore(ctx context.Context, snapshot *Snapshot) error {
	return s.box.Restore(ctx, snapshot.s)
}

// Close ends everybody inside, waits until nothing is left, and says what all of it came to. The error is something that
// could not be removed, or a fault that ended the sandbox before; a limit of its own, or its context, that did is in the report. It may be called again.
func (s *Sandbox) Close() (*BoxReport, error) { return s.box.Close() }

// Snapshot is the files of a sandbox, written down.
type Snapshot struct{ s backend.Snapshot }

// ID names it.
func (s *Snapshot) ID() string { return s.s.ID() }

// Close lets go of it. One that is kept in a directory stays there.
func (s *Snapshot) Close() error { return s.s.Close() }

// Files are those of a sandbox, under absolute names as seen inside: symbolic links lead nowhere else, what is hidden
// from processes is hidden, and what they can't write isn't written. Only regular files are opened.
type Files struct{ f backend.Files }

// Open opens a file for reading.
func (f Files) Open(name string) (io.ReadCloser, error) { return f.f.Open(name) }

// maxReadFile is the most that ReadFile gives: a file inside may say to be as long as it likes.
const maxReadFile = 256 << 20

// ReadFile gives the content of a file of 256 MiB at most; Open reads larger ones.
func (f Files) ReadFile(name string) ([]byte, error) {
	r, err := f.f.Open(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, maxReadFile+1))
	if err == nil && len(b) > maxReadFile {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("it has more than 256 MiB")}
	}
	return b, err
}

// Create opens a file for writing, and empties it if it is there.
func (f Files) Create(name string, perm fs.FileMode) (io.WriteCloser, error) {
	return f.f.Create(name, perm)
}

// WriteFile writes a file anew.
func (f Files) WriteFile(name string, data []byte, perm fs.FileMode) error {
	w, err := f.f.Create(name, perm)
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	if closed := w.Close(); err == nil {
		err = closed
	}
	return err
}

// Stat describes what a name leads to.
func (f Files) Stat(name string) (fs.FileInfo, error) { return f.f.Stat(name) }

// Lstat describes a name itself, a symbolic link too.
func (f Files) Lstat(name string) (fs.FileInfo, error) { return f.f.Lstat(name) }

// Readlink gives what a symbolic link says.
func (f Files) Readlink(name string) (string, error) { return f.f.Readlink(name) }

// List is a directory, in no order.
func (f Files) List(name string) ([]fs.DirEntry, error) { return f.f.List(name) }

// Mkdir makes a directory.
func (f Files) Mkdir(name string, perm fs.FileMode) error { return f.f.Mkdir(name, perm) }

// Symlink makes a symbolic link. What it says may be anything: it is followed inside only.
func (f Files) Symlink(target, name string) error { return f.f.Symlink(target, name) }

// Chmod changes the permissions of a file or a directory, which have no other bits than these nine.
func (f Files) Chmod(name string, perm fs.FileMode) error { return f.f.Chmod(name, perm) }

// Rename moves a file or a directory, over a file that is there.
func (f Files) Rename(from, to string) error { return f.f.Rename(from, to) }

// Remove removes a file or an empty directory.
func (f Files) Remove(name string) error { return f.f.Remove(name) }

// Watch tells what happens in a directory, until it is gone; deep: in all below it, too.
func (f Files) Watch(name string, deep bool) (Watcher, error) { return f.f.Watch(name, deep) }

// Watcher tells what happens to files. Next waits for more, until its context ends; io.EOF says that the directory is gone.
type Watcher = backend.Watcher

// FileEvent is something that happened to a file: its Op is "create", "write", "remove", "rename" (it is created where it comes to be),
// "chmod", or "lost", which says that some events were too many to be told.
type FileEvent = backend.FileEvent
