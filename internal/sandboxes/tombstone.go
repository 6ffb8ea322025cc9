package sandboxes

import (
	"context"
	"io"
	"io/fs"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/review"
	"github.com/confine-run/confine/status"
)

// tombstone is in the place of a sandbox that has ended. It has what is told of that, and nothing of what it was built of: the plan alone is
// a hundred kilobytes. Who comes too late is told [backend.ErrClosed].
type tombstone struct {
	ledger status.Ledger
	done   <-chan struct{}
	report *status.BoxReport
	err    error
}

// leave lets go of what was built. Whoever uses it yet has it until then.
func leave(s *Sandbox, report *status.BoxReport, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.box = &tombstone{s.box.Ledger(), s.box.Done(), report, err}
	s.policy = &config.Policy{Network: s.policy.Network}
	s.agreed, s.env, s.origin = &review.Agreed{}, nil, nil
}

// boxOf is what a sandbox is by now.
func boxOf(s *Sandbox) backend.Sandbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.box
}

// askedOf is what a sandbox was asked for with.
func askedOf(s *Sandbox) (env []string, origin []byte, agreed *review.Agreed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.env, s.origin, s.agreed
}

func (t *tombstone) Ledger() status.Ledger               { return t.ledger }
func (t *tombstone) Done() <-chan struct{}               { return t.done }
func (t *tombstone) Close() (*status.BoxReport, error)   { return t.report, t.err }
func (t *tombstone) Files() backend.Files                { return noFiles{} }
func (t *tombstone) Usage() (u backend.Usage, err error) { return u, backend.ErrClosed }
func (t *tombstone) Start(context.Context, *backend.Exec) (backend.Process, error) {
	return nil, backend.ErrClosed
}
func (t *tombstone) Changes(context.Context, string) (*status.Changes, error) {
	return nil, backend.ErrClosed
}
func (t *tombstone) Network(context.Context, *config.Network) error { return backend.ErrClosed }
func (t *tombstone) Snapshot(context.Context) (backend.Snapshot, error) {
	return nil, backend.ErrClosed
}
func (t *tombstone) Restore(context.Context, backend.Snapshot) error { return backend.ErrClosed }
func (t *tombstone) Fork(context.Context) (backend.Sandbox, error)   { return nil, backend.ErrClosed }

// noFiles are those of a sandbox that has ended.
type noFiles struct{}

func (noFiles) Open(string) (io.ReadCloser, error)                 { return nil, backend.ErrClosed }
func (noFiles) Create(string, fs.FileMode) (io.WriteCloser, error) { return nil, backend.ErrClosed }
func (noFiles) Stat(string) (fs.FileInfo, error)                   { return nil, backend.ErrClosed }
func (noFiles) Lstat(string) (fs.FileInfo, error)                  { return nil, backend.ErrClosed }
func (noFiles) Readlink(string) (string, error)                    { return "", backend.ErrClosed }
func (noFiles) List(string) ([]fs.DirEntry, error)                 { return nil, backend.ErrClosed }
func (noFiles) Mkdir(string, fs.FileMode) error                    { return backend.ErrClosed }
func (noFiles) Symlink(string, string) error                       { return backend.ErrClosed }
func (noFiles) Chmod(string, fs.FileMode) error                    { return backend.ErrClosed }
func (noFiles) Rename(string, string) error                        { return backend.ErrClosed }
func (noFiles) Remove(string) error                                { return backend.ErrClosed }
func (noFiles) Watch(string, bool) (backend.Watcher, error)        { return nil, backend.ErrClosed }
