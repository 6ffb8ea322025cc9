package changes

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrNotSupported: this platform has no overlays.
	ErrNotSupported = errors.New("changes of a run can only be read and applied on Linux")
	// ErrBusy: somebody else applies or discards at this moment.
	ErrBusy = errors.New("another apply or discard is at work\nhint: try again when it has ended")
	// ErrNoRun: there is no such run, or none at all.
	ErrNoRun = errors.New("no kept run")
	// ErrIncomplete: the record doesn't hold all changes.
	ErrIncomplete = errors.New("the run had more changes than were kept")
)

// A NoMatchError names a path that no change of the run is at or below.
type NoMatchError struct{ Path string }

func (e *NoMatchError) Error() string {
	return "no change at " + Quote(e.Path) + "\nhint: confine diff lists them"
}

// Conflict is one path where the real tree isn't what the run began with.
type Conflict struct {
	Path   string // absolute
	Reason string
	// Hard conflicts stay conflicts with Force.
	Hard bool
}

// maxListed bounds what an error lists.
const maxListed = 100

// A ConflictError lists conflicts. Nothing was touched.
type ConflictError struct {
	Conflicts []Conflict
	More      int // that weren't listed
}

func (e *ConflictError) add(c Conflict) {
	if len(e.Conflicts) >= maxListed {
		e.More++
		return
	}
	e.Conflicts = append(e.Conflicts, c)
}

func (e *ConflictError) Error() string {
	var b strings.Builder
	b.WriteString("1 path has changed since the run")
	if n := len(e.Conflicts) + e.More; n != 1 {
		b.Reset()
		fmt.Fprintf(&b, "%d paths have changed since the run", n)
	}
	for _, c := range e.Conflicts {
		fmt.Fprintf(&b, "\n  %s: %s", Quote(c.Path), c.Reason)
	}
	if e.More > 0 {
		fmt.Fprintf(&b, "\n  and %d more", e.More)
	}
	for _, c := range e.Conflicts {
		if !c.Hard {
			return b.String() + "\nhint: --force lets the run's version win"
		}
	}
	return b.String() + "\nhint: put them back as they were, or discard those paths"
}

// A RefusedError lists paths that aren't applied for what they are.
type RefusedError struct {
	Refused []Conflict
	More    int
	Hint    string
}

func (e *RefusedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d paths can't be applied", len(e.Refused)+e.More)
	for _, c := range e.Refused {
		fmt.Fprintf(&b, "\n  %s: %s", Quote(c.Path), c.Reason)
	}
	if e.More > 0 {
		fmt.Fprintf(&b, "\n  and %d more", e.More)
	}
	return b.String() + "\nhint: " + e.Hint
}

func (e *RefusedError) add(path, reason, hint string) {
	if e.Hint == "" {
		e.Hint = hint
	}
	if len(e.Refused) >= maxListed {
		e.More++
		return
	}
	e.Refused = append(e.Refused, Conflict{Path: path, Reason: reason})
}

// A PathError is a system call that failed below a tree or in the store.
type PathError struct {
	Op   string
	Path string
	Err  error
}

func (e *PathError) Error() string { return e.Op + " " + Quote(e.Path) + ": " + e.Err.Error() }
func (e *PathError) Unwrap() error { return e.Err }

func failed(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &PathError{op, path, err}
}

// A LeftError is a recovery that met what it didn't leave there: somebody else has
// been at the tree since the crash. What is at Path was left where it is.
type LeftError struct {
	Path string // the temporary name that still holds what was, or was to be, at Name
	Name string
}

func (e *LeftError) Error() string {
	return "an interrupted apply can't be undone at " + Quote(e.Name) + ": it has been changed since" +
		"\nhint: the other version is " + Quote(e.Path)
}
