// Package review shows what was changed in the caller's trees, and applies it: in a sandbox that goes on ([Take]). What a run has left is applied with
// the same protection ([Protection]).
//
// What a sandbox that goes on has changed is kept like what a run left, in a store of package changes, for as long as it
// is looked at. Applied changes are in the tree then, and in the sandbox: it has changed nothing there any more.
package review

import (
	"context"
	"errors"
	"io"
	"path"

	"github.com/confine-run/confine/internal/changes"
	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/status"
)

// Changer is a sandbox.
type Changer interface {
	Changes(ctx context.Context, keep string) (*status.Changes, error)
}

// ErrNothing says that there is no overlay that could have been changed.
var ErrNothing = hint.New("the sandbox has no overlay of the caller's files", "one of a policy with \"workdir overlay\", or overlays of other trees, has changes to look at")

// Review is what a sandbox had changed at a moment.
type Review struct {
	// Report is that in short.
	Report *status.Changes

	store    *changes.Store
	run      *changes.Run // nil: nothing is changed
	applying *Protection  // the last
	agreed   *Agreed
}

// Take looks at what a sandbox has changed by now. Until Close it is kept in dir. agreed remembers what was applied of that sandbox.
func Take(ctx context.Context, box Changer, dir string, agreed *Agreed) (*Review, error) {
	report, err := box.Changes(ctx, dir)
	switch {
	case err != nil:
		return nil, err
	case report == nil || len(report.Trees) == 0 && report.Error == "":
		return nil, ErrNothing
	case report.RunID == "" && report.Cause != nil:
		return nil, report.Cause
	case report.RunID == "" && report.Error != "":
		return nil, errors.New(report.Error)
	case report.RunID == "" && report.Counts != (status.ChangeCounts{}):
		return nil, errors.ErrUnsupported // by a backend that keeps none
	}
	r := &Review{Report: report, agreed: agreed}
	if report.RunID == "" {
		return r, nil
	}
	if r.store, err = changes.FindStore(dir); err != nil {
		return nil, err
	}
	if r.run, err = r.store.Open(report.RunID); err != nil {
		_, discarded := r.store.Discard(report.RunID)
		return nil, errors.Join(err, discarded, r.store.Close())
	}
	return r, nil
}

// Close forgets what was kept, but for what an apply that failed may still have to undo.
func (r *Review) Close() error {
	if r.run == nil {
		return nil
	}
	if r.applying != nil {
		r.applying.Wait() // it looks at the run
	}
	err := r.run.Close()
	_, discarded := r.store.Discard(r.run.ID())
	if errors.Is(discarded, changes.ErrNoRun) { // all of it was applied
		discarded = nil
	}
	return errors.Join(err, discarded, r.store.Close())
}

// check refuses paths that are not absolute and clean: nothing is guessed of what they mean.
func check(paths []string) error {
	for _, p := range paths {
		if !path.IsAbs(p) || path.Clean(p) != p {
			return &PathError{p}
		}
	}
	return nil
}

// PathError is a path that is not absolute, or has parts that are none.
type PathError struct{ Path string }

func (e *PathError) Error() string {
	return changes.Quote(e.Path) + " is not an absolute path without empty parts and dots"
}

// Diff writes the changes at and below paths, all without paths.
func (r *Review) Diff(w io.Writer, paths []string, o changes.DiffOptions) error {
	if err := check(paths); err != nil {
		return err
	}
	if r.run == nil {
		if len(paths) > 0 {
			return changes.ErrNoMatch
		}
		if o.JSON {
			return changes.WriteNone(w, r.Report.Trees)
		}
		return nil
	}
	return changes.Diff(w, r.run, paths, o)
}

// Apply copies the changes at and below paths, all without paths, to the real trees: all of them or, with an error, none.
// env is the environment of whoever asks, which says what later programs of theirs obey. The options' own Protected is not used.
func (r *Review) Apply(ctx context.Context, env func(string) string, paths []string, o changes.Options) (changes.Result, error) {
	if err := check(paths); err != nil {
		return changes.Result{}, err
	}
	if r.run == nil {
		if len(paths) > 0 {
			return changes.Result{}, changes.ErrNoMatch
		}
		return changes.Result{}, nil
	}
	r.applying = NewProtection(ctx, env, r.run)
	o.Context, o.Protected, o.Agreed = ctx, r.applying.Test, r.agreed.holds
	trees, before := r.run.Info().Trees, r.run.Entries()
	done, err := r.store.Apply(r.run, paths, o)
	if left := r.applying.Err(); left != nil {
		err = left
	}
	if err == nil && !o.Dry {
		r.agreed.add(trees, before, paths)
	}
	return done, err
}
