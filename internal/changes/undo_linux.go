package changes

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/linux"
)

// undo takes every step back that was taken, and removes what was built. What
// somebody else has put in the way stays, and is named.
func (a *applying) undo() error {
	if err := a.loosen(); err != nil {
		return err
	}
	var all []error
	back := func(s *step) error {
		err := a.back(s)
		var left *LeftError
		if errors.As(err, &left) {
			all = append(all, err)
			return nil
		}
		if err != nil {
			return a.stepError(s, err) // the journal stays: another attempt may do
		}
		return nil
	}
	for i := len(a.journal.Steps) - 1; i >= 0; i-- {
		if s := a.journal.Steps[i]; s.Op != opMode {
			if err := back(s); err != nil {
				return err
			}
		}
	}
	if err := a.syncTrees(); err != nil {
		return err
	}
	for _, s := range a.journal.Steps {
		if s.Op != opPut && s.Op != opSwap {
			continue
		}
		if err := a.removeTemp(s, s.New.Ino); err != nil {
			return err
		}
	}
	// A directory may be closed by the mode that it had: nothing below it is opened after this.
	for _, s := range a.journal.Steps {
		if s.Op == opMode {
			if err := back(s); err != nil {
				return err
			}
		}
	}
	if err := a.syncModes(); err != nil {
		return err
	}
	return errors.Join(append(all, a.store.dropJournal(a.run))...)
}

// back undoes a step, if it was taken.
func (a *applying) back(s *step) error {
	if err := a.store.at("undo " + string(s.Op)); err != nil {
		return err
	}
	dir, name, err := a.parent(s.Tree, s.Path)
	if err == unix.ENOENT || err == unix.ENOTDIR {
		return nil // somebody took the directory away, and all in it
	}
	if err != nil {
		return inTheWay(err)
	}
	at, temp, err := twoNodes(dir, name, s.Temp)
	if err != nil {
		return err
	}
	left := &LeftError{Path: a.full(s.Tree, join(pathDir(s.Path), s.Temp)), Name: a.full(s.Tree, s.Path)}
	switch s.Op {
	case opPut:
		if at.typ == Absent || !at.is(s.New) || temp.typ != Absent {
			return nil
		}
		return unix.Renameat2(dir, name, dir, s.Temp, unix.RENAME_NOREPLACE)
	case opSwap:
		switch {
		case temp.typ == Absent || temp.is(s.New):
			return nil
		case at.is(s.New) && at.typ != Absent:
			return unix.Renameat2(dir, s.Temp, dir, name, unix.RENAME_EXCHANGE)
		case at.typ == Absent:
			return unix.Renameat2(dir, s.Temp, dir, name, unix.RENAME_NOREPLACE)
		}
		return left
	case opRemove:
		switch {
		case temp.typ == Absent:
			return nil
		case at.typ == Absent:
			return unix.Renameat2(dir, s.Temp, dir, name, unix.RENAME_NOREPLACE)
		}
		return left
	case opMode:
		if !at.is(s.Old) {
			return nil
		}
		return setAttrs(dir, name, s, s.Before)
	}
	return unix.EINVAL
}

// inTheWay says what to do about a link where a directory was: its journal stays until
// that is back, or gone.
func inTheWay(err error) error {
	if err != unix.ELOOP {
		return err
	}
	return hint.With(err, "a directory in this path was replaced by a symbolic link while changes were applied: "+
		"put it back, or remove the link; the next apply tidies up")
}

func pathDir(path string) string {
	dir, _ := split(path)
	return dir
}

// removeTemp removes what is under a step's temporary name, if it is the right thing:
// the inode, if that was known already.
func (a *applying) removeTemp(s *step, ino uint64) error {
	if err := a.store.at("clean"); err != nil {
		return err
	}
	dir, _, err := a.parent(s.Tree, s.Path)
	if err == unix.ENOENT || err == unix.ENOTDIR {
		return nil
	}
	if err != nil {
		return failed("openat2", a.full(s.Tree, s.Path), inTheWay(err))
	}
	n, err := statAt(dir, s.Temp)
	if err == nil && n.typ != Absent && (ino == 0 || n.ino == ino) {
		err = linux.RemoveAll(dir, s.Temp, ino)
	}
	return failed("remove", a.full(s.Tree, join(pathDir(s.Path), s.Temp)), err)
}

// unstage removes what was built, when nothing was moved yet.
func (a *applying) unstage() error {
	if err := a.loosenHeld(); err != nil {
		return err
	}
	for _, s := range a.journal.Steps {
		if s.Op != opPut && s.Op != opSwap {
			continue
		}
		if err := a.removeTemp(s, 0); err != nil {
			return err
		}
	}
	if err := a.restoreModes(); err != nil {
		return err
	}
	return a.store.dropJournal(a.run)
}

// finish removes what was replaced, and takes what is applied out of the record.
func (a *applying) finish() error {
	if err := a.loosen(); err != nil {
		return err
	}
	for _, s := range a.journal.Steps {
		if s.Op != opSwap && s.Op != opRemove {
			continue
		}
		if err := a.removeTemp(s, s.Old.Ino); err != nil {
			return err
		}
	}
	if err := a.setModes(); err != nil {
		return err
	}
	if err := a.syncModes(); err != nil {
		return err
	}
	done := map[applied]bool{}
	for _, p := range a.journal.Applied {
		done[p] = true
	}
	all, left := a.run.m.Changes, 0
	for _, e := range all {
		if !done[applied{e.Tree, e.Path}] {
			left++
		}
	}
	if left < len(all) {
		err := a.store.shorten(a.run, func(i int) bool { return done[applied{all[i].Tree, all[i].Path}] }, true)
		if err != nil || left == 0 {
			return err // without a change left, the journal went with the run
		}
	}
	return a.store.dropJournal(a.run)
}
