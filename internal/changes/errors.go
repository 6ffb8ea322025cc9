package changes

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/shell"
)

var (
	// ErrNotSupported: this platform has no overlays.
	ErrNotSupported = errors.New("changes of a run can only be read and applied on Linux")
	// ErrBusy: somebody else applies or discards, and was waited for.
	ErrBusy = hint.New("another apply or discard is at work", "try again when it has ended")
	// ErrNoRun: there is no such run, or none at all.
	ErrNoRun = errors.New("no kept run")
	// ErrNoMatch: no change of the run is at or below a path that was named.
	ErrNoMatch = errors.New("no change at")
	// errApplied: a run is gone because its interrupted apply has just been finished.
	errApplied = errors.New("was applied already")
	// ErrIncomplete: the record doesn't hold all changes.
	ErrIncomplete = errors.New("the run had more changes than were kept")
	// ErrDeep: some have paths that no system call takes.
	ErrDeep = errors.New("changes with paths that are too long for the system (PATH_MAX, 4096 bytes) could not be kept")
	// ErrExchanged: the tree below an overlay isn't there any more, or is another by now.
	ErrExchanged = hint.New("it was moved, removed or replaced since the sandbox was opened", "put it back, or open another sandbox")
)

// A TreeError is a tree of which it can't be told what was changed in it.
type TreeError struct {
	Path string
	Err  error
}

func (e *TreeError) Error() string {
	return "what was changed in " + strconv.Quote(e.Path) + " can't be told: " + e.Err.Error()
}

func (e *TreeError) Unwrap() error { return e.Err }

// A WallError is a change where no process of the sandbox can have written: somebody has made the layers by hand.
type WallError struct{ Path string }

func (e *WallError) Error() string {
	return strconv.Quote(e.Path) + " is where no process of the sandbox can write"
}

// A BrokenError is a kept run whose record can't be read.
type BrokenError struct {
	Run string
	Err error
}

func (e *BrokenError) Error() string {
	return hint.Text(e.Err.Error(), e.Remedy())
}

// Remedy drops the run.
func (e *BrokenError) Remedy() string { return "confine discard --run " + e.Run + " drops that run" }

func (e *BrokenError) Unwrap() error { return e.Err }

// Conflict is one path where the real tree isn't what the run began with.
type Conflict struct {
	Path   string // absolute
	Reason string
	// Hard conflicts stay conflicts with Force.
	Hard bool
}

// maxListed bounds what an error lists.
const maxListed = 100

// pathList is what an error lists.
type pathList struct {
	Paths []Conflict
	More  int // that weren't listed
}

func (l *pathList) add(c Conflict) {
	if len(l.Paths) < maxListed {
		l.Paths = append(l.Paths, c)
	} else {
		l.More++
	}
}

// text words the list; its head is for one, and for several.
func (l *pathList) text(one, several string) string {
	var b strings.Builder
	if n := len(l.Paths) + l.More; n == 1 {
		b.WriteString("1 " + one)
	} else {
		fmt.Fprintf(&b, "%d %s", n, several)
	}
	for _, c := range l.Paths {
		fmt.Fprintf(&b, "\n  %s: %s", Quote(c.Path), c.Reason)
	}
	if l.More > 0 {
		fmt.Fprintf(&b, "\n  and %d more", l.More)
	}
	return b.String()
}

// A ConflictError lists conflicts. Nothing was touched.
type ConflictError struct{ pathList }

func (e *ConflictError) orNil() error {
	if len(e.Paths) == 0 {
		return nil
	}
	return e
}

func (e *ConflictError) Error() string {
	return hint.Text(e.text("path has changed since the run", "paths have changed since the run"), e.Remedy())
}

// Remedy is to force it, where that helps.
func (e *ConflictError) Remedy() string {
	if slices.ContainsFunc(e.Paths, func(c Conflict) bool { return !c.Hard }) {
		return "--force lets the run's version win"
	}
	return "put them back as they were, or discard those paths"
}

// A RefusedError lists paths that aren't applied for what they are.
type RefusedError struct {
	pathList
	Hint string

	dropped []string // paths that can only be discarded: as many as a hint names, and one more
	asked   bool     // there is one that AllowProtected takes over
}

func (e *RefusedError) Error() string {
	return hint.Text(e.text("path can't be applied", "paths can't be applied"), e.Hint)
}

// Remedy is Hint, for who has it as an error.
func (e *RefusedError) Remedy() string { return e.Hint }

// Asked says whether there are some that AllowProtected takes over.
func (e *RefusedError) Asked() bool { return e.asked }

// mostNamed bounds what a hint names.
const mostNamed = 3

// never is about what can't be applied, whatever is asked for.
func (e *RefusedError) never(path, reason string) {
	if len(e.dropped) <= mostNamed {
		e.dropped = append(e.dropped, path)
	}
	e.add(Conflict{Path: path, Reason: reason})
}

// protected is about what isn't applied unasked.
func (e *RefusedError) protected(path, reason string) {
	e.asked = true
	e.add(Conflict{Path: path, Reason: reason})
}

// remedy says what to do about them. The paths are the run's choice, and are quoted for a shell.
func (e *RefusedError) remedy(run string) string {
	var lines []string
	if len(e.dropped) > 0 {
		line := "confine discard --run " + run
		for _, path := range e.dropped {
			line += " " + shell.Word(path)
		}
		if len(e.dropped) > mostNamed {
			line = "confine discard --run " + run + " PATH…"
		}
		lines = append(lines, line)
	}
	if e.asked {
		lines = append(lines, "look at it with confine diff --patch; then --allow-protected, or confine discard it")
	}
	return strings.Join(lines, "\n")
}

// A PathError is a system call that failed below a tree or in the store.
type PathError struct {
	Op   string
	Path string
	Err  error
}

func (e *PathError) Error() string { return e.Op + " " + Quote(e.Path) + ": " + e.Err.Error() }
func (e *PathError) Unwrap() error { return e.Err }

// treeGone says what to do about a tree that can't be opened any more.
func (r *Run) treeGone(err error) error {
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ELOOP) && !errors.Is(err, syscall.ENOTDIR) {
		return err
	}
	why := "is gone"
	if errors.Is(err, syscall.ELOOP) {
		why = "is now a symbolic link, or in one, and none is followed"
	} else if errors.Is(err, syscall.ENOTDIR) {
		why = "is no directory any more"
	}
	return hint.With(err, "the tree that the run changed "+why+": put it back, or drop the changes: confine discard --run "+r.m.ID)
}

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
	return hint.Text("an interrupted apply can't be undone at "+Quote(e.Name)+": it has been changed since", e.Remedy())
}

// Remedy names what there is to look at.
func (e *LeftError) Remedy() string { return "the other version is " + Quote(e.Path) }
