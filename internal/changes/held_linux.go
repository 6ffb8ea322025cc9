package changes

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/hint"
)

// here is the path of a step at the tree's own root.
const here = "."

// inDir is the directory in which the step's name is.
func (s *step) inDir() string {
	if dir, _ := split(s.Path); dir != "" {
		return dir
	}
	return here
}

// below is its path without that word.
func (s *step) below() string {
	if s.Path == here {
		return ""
	}
	return s.Path
}

// hold makes a step of each directory in which something is to be done and that its
// owner closed (0555): after loosen and until the modes are set it is open, as for cp and
// tar. The step's two sides are the same, and being in the journal it is closed after a crash
// too. Root needs none of this, and another user's directory stays as it is.
func (a *applying) hold() error {
	if isRoot() {
		return nil
	}
	has := map[applied]bool{}
	for _, s := range a.journal.Steps {
		if s.Op == opMode {
			has[applied{s.Tree, s.Path}] = true
		}
	}
	for _, s := range a.journal.Steps {
		at := applied{s.Tree, s.inDir()}
		if s.Op == opMode || has[at] {
			continue
		}
		has[at] = true
		dir, name, err := a.parent(at.Tree, at.Path)
		if err != nil {
			return failed("openat2", a.full(at.Tree, at.Path), err)
		}
		n, err := statAt(dir, name)
		if err != nil {
			return failed("fstatat", a.full(at.Tree, at.Path), err)
		}
		if n.typ != Dir || n.mode&0o700 == 0o700 || n.uid != uint32(os.Geteuid()) {
			continue
		}
		is := &attrs{Mode: n.mode, UID: n.uid, GID: n.gid}
		a.journal.Steps = append(a.journal.Steps, &step{Tree: at.Tree, Op: opMode, Path: at.Path, Old: ident{n.ino, born(dir, name)},
			Before: is, After: is, entry: -1, was: n})
	}
	return nil
}

// restoreModes closes what loosen opened, where nothing else was done yet.
func (a *applying) restoreModes() error {
	closed := false
	for _, s := range a.journal.Steps {
		if s.Op != opMode || s.Before.Mode&0o700 == 0o700 {
			continue
		}
		dir, name, err := a.parent(s.Tree, s.Path)
		if err != nil {
			continue // it went away
		}
		n, err := statAt(dir, name)
		if err != nil || n.typ != Dir || !n.is(s.Old) || n.mode != s.Before.Mode|0o700 {
			continue
		}
		if err := setAttrs(dir, name, s, &attrs{Mode: s.Before.Mode}); err != nil && !errors.Is(err, errForeign) {
			return a.stepError(s, err)
		}
		closed = true
	}
	if !closed {
		return nil
	}
	return a.syncModes()
}

// shut says what to do about a directory that takes nothing.
func (a *applying) shut(s *step, err error) error {
	if !errors.Is(err, unix.EACCES) {
		return err
	}
	return hint.With(err, "this user may not write to "+Quote(a.full(s.Tree, s.inDir()))+": make it writable (chmod u+w), or leave it out: confine apply PATH…")
}
