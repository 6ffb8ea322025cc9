package confine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/backends"
	"github.com/confine-run/confine/internal/changes"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/review"
	"github.com/confine-run/confine/status"
)

// WithSnapshots has the snapshots of a sandbox kept in a directory of the caller's own, where [OpenSnapshot] finds them. Without it they
// are there until they are closed.
func WithSnapshots(dir string) Option {
	return func(o *options) {
		if abs, err := filepath.Abs(dir); err == nil && dir != "" {
			dir = abs
		}
		o.spec.Snapshots = dir
	}
}

// WithSnapshot begins with the files of a snapshot, instead of those that the policy shows. The sandbox has to have the same overlays and
// private places as the one that it was made of. The snapshot may be closed when the sandbox is open.
func WithSnapshot(from *Snapshot) Option { return func(o *options) { o.spec.From = from.s } }

// OpenSnapshot finds a snapshot that is kept in a directory. One that isn't there is fs.ErrNotExist.
func OpenSnapshot(dir, id string) (*Snapshot, error) {
	keeper, ok := backends.For(Default()).(backend.Keeper)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	s, err := keeper.Kept(dir, id)
	if err != nil {
		return nil, err
	}
	return &Snapshot{s}, nil
}

// Fork opens another sandbox, which ends with ctx or when it is closed. It has the same policy and the files that this one has now; they part from
// then on, and nothing is copied where nobody runs inside. Processes are not in it. errors.ErrUnsupported says that this host can't.
func (s *Sandbox) Fork(ctx context.Context) (*Sandbox, error) {
	box, err := s.box.Fork(ctx)
	var unbuilt *backend.BuildError
	if errors.As(err, &unbuilt) {
		return nil, &ExitError{Report: unbuilt.Report}
	}
	if err != nil {
		return nil, err
	}
	return &Sandbox{box: box, agreed: s.agreed.Clone()}, nil
}

// Changes says what was changed in the caller's files, by paths.
type Changes = status.Changes

// Changes says what the sandbox has changed by now in trees of which it has an overlay; nil: it has none.
func (s *Sandbox) Changes(ctx context.Context) (*Changes, error) { return s.box.Changes(ctx, "") }

// ApplyError lists paths, with the reason for each, that could not be applied: somebody else has changed them meanwhile, or they are what
// later programs of the caller's run or obey. Nothing was applied.
type ApplyError struct {
	Paths map[string]string
	err   error
}

func (e *ApplyError) Error() string { return e.err.Error() }
func (e *ApplyError) Unwrap() error { return e.err }

// Apply copies what the sandbox has changed at and below paths, which are absolute, and all without paths, to the caller's files: all of
// it or, with an error, nothing. It says how many changes that were. The sandbox goes on, and has not changed them any more.
// ctx may end it before it begins to be seen. Should the program be killed, "confine apply" brings it to an end.
func (s *Sandbox) Apply(ctx context.Context, paths ...string) (int, error) {
	src := config.Here(os.Environ(), config.SystemFile)
	dir, err := src.StoreDir()
	if err != nil {
		return 0, err
	}
	r, err := review.Take(ctx, s.box, dir, s.agreed)
	if err != nil {
		return 0, err
	}
	done, err := r.Apply(ctx, os.Getenv, paths, changes.Options{})
	err = applyError(err)
	if closed := r.Close(); err == nil {
		err = closed
	}
	return done.Applied, err
}

// applyError gives an error that lists paths to who can't know its type.
func applyError(err error) error {
	var conflict *changes.ConflictError
	var refused *changes.RefusedError
	var all []changes.Conflict
	var more int
	switch {
	case errors.As(err, &conflict):
		all, more = conflict.Paths, conflict.More
	case errors.As(err, &refused):
		all, more = refused.Paths, refused.More
	default:
		return err
	}
	e := &ApplyError{Paths: map[string]string{}, err: fmt.Errorf("%d paths can't be applied", len(all)+more)}
	for _, c := range all {
		e.Paths[c.Path] = c.Reason
	}
	if len(all) > 0 {
		e.err = fmt.Errorf("%w: %s: %s", e.err, changes.Quote(all[0].Path), all[0].Reason)
	}
	return e
}
