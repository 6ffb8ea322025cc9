package changes

import (
	"errors"

	"golang.org/x/sys/unix"
)

// errForeign: what stands there is neither what was nor what is to be.
var errForeign = errors.New("was changed at this moment")

// commit takes all steps, looks whether what they replaced is what was checked, and
// has it all on the disk.
func (a *applying) commit() error {
	if err := a.take(func(s *step) bool { return s.Op != opMode }); err != nil {
		return err
	}
	if err := a.recheck(); err != nil {
		return err
	}
	if err := a.syncTrees(); err != nil {
		return err
	}
	// A directory may not be readable any more with its new mode: nothing below it
	// is opened after this.
	if err := a.take(func(s *step) bool { return s.Op == opMode }); err != nil {
		return err
	}
	return a.syncModes()
}

func (a *applying) take(which func(*step) bool) error {
	for _, s := range a.journal.Steps {
		if !which(s) {
			continue
		}
		if err := a.forward(s); err != nil {
			return a.stepError(s, err)
		}
	}
	return nil
}

// syncModes has the modes on the disk, as far as they are on the file system of the
// tree's root.
func (a *applying) syncModes() error {
	done := map[int]bool{}
	for _, s := range a.journal.Steps {
		if s.Op != opMode || done[s.Tree] {
			continue
		}
		done[s.Tree] = true
		if err := unix.Syncfs(a.roots[s.Tree]); err != nil {
			return failed("syncfs", a.full(s.Tree, s.Path), err)
		}
	}
	return nil
}

func (a *applying) stepError(s *step, err error) error {
	if errors.Is(err, errForeign) {
		return &ConflictError{Conflicts: []Conflict{{Path: a.full(s.Tree, s.Path), Reason: err.Error(), Hard: true}}}
	}
	return failed(string(s.Op), a.full(s.Tree, s.Path), a.shut(s, err))
}

// forward takes a step, if it wasn't taken before.
func (a *applying) forward(s *step) error {
	if err := a.store.at(string(s.Op)); err != nil {
		return err
	}
	dir, name, err := a.parent(s.Tree, s.Path)
	if err != nil {
		return err
	}
	at, temp, err := twoNodes(dir, name, s.Temp)
	if err != nil {
		return err
	}
	switch s.Op {
	case opPut:
		if temp.typ == Absent && at.is(s.New) {
			return nil
		}
		if !temp.is(s.New) || at.typ != Absent {
			return errForeign
		}
		return unix.Renameat2(dir, s.Temp, dir, name, unix.RENAME_NOREPLACE)
	case opSwap:
		if at.is(s.New) && temp.is(s.Old) {
			return nil
		}
		if !temp.is(s.New) || !s.unchanged(at) {
			return errForeign
		}
		if err := unix.Renameat2(dir, s.Temp, dir, name, unix.RENAME_EXCHANGE); err != nil {
			return err
		}
		return a.replaced(s, dir)
	case opRemove:
		if temp.is(s.Old) {
			return nil
		}
		if temp.typ != Absent || !s.unchanged(at) {
			return errForeign
		}
		if err := unix.Renameat2(dir, name, dir, s.Temp, unix.RENAME_NOREPLACE); err != nil {
			return err
		}
		return a.replaced(s, dir)
	case opMode:
		if !at.is(s.Old) {
			return errForeign
		}
		return setAttrs(dir, name, s, s.After)
	}
	return unix.EINVAL
}

func twoNodes(dir int, name, temp string) (at, t node, err error) {
	if at, err = statAt(dir, name); err == nil && temp != "" {
		t, err = statAt(dir, temp)
		t.born = born(dir, temp)
	}
	at.born = born(dir, name)
	return at, t, err
}

// unchanged: n is still what the check saw. After a crash there is only the inode.
func (s *step) unchanged(n node) bool {
	if !n.is(s.Old) || n.typ == Absent {
		return false
	}
	if s.entry < 0 || n.typ == Dir {
		return true // what is in a directory is looked at by recheck
	}
	// A link of it that another step moved has changed the time of both.
	return n.typ == s.was.typ && n.size == s.was.size && n.mtime == s.was.mtime && (n.ctime == s.was.ctime || n.nlink > 1)
}

// replaced looks at what a step moved away: a name can change between look and
// rename.
func (a *applying) replaced(s *step, dir int) error {
	n, err := statAt(dir, s.Temp)
	if err != nil {
		return err
	}
	if !n.is(s.Old) {
		return errForeign
	}
	return nil
}

// setAttrs sets what a mode step says at one name, if that is the object it is for.
func setAttrs(dir int, name string, s *step, want *attrs) error {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	n, err := statFD(fd)
	if err != nil {
		return err
	}
	n.born = born(fd, "")
	if !n.is(s.Old) {
		return errForeign
	}
	if want.Owner && (n.uid != want.UID || n.gid != want.GID) {
		if err := unix.Fchownat(fd, "", int(want.UID), int(want.GID), unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
	}
	if n.typ == Symlink {
		return nil
	}
	mode := want.Mode
	if want == s.After && n.typ == File {
		mode &^= setID &^ n.mode // its owner may have taken them off since
	}
	if want.Extend {
		if err := unix.Chmod(procPath(fd), mode|0o600); err != nil {
			return err
		}
		if err := setXattrs(fd, want.Xattrs); err != nil {
			return err
		}
	}
	return unix.Chmod(procPath(fd), mode)
}

// recheck looks once more into the directories that were moved away, now that
// nobody finds them by their names: what came into them since the check isn't to go.
func (a *applying) recheck() error {
	conflicts := &ConflictError{}
	for _, s := range a.journal.Steps {
		if s.entry < 0 || s.was.typ != Dir || s.Op == opMode || a.options.Force {
			continue
		}
		known := map[string]bool{}
		for _, i := range s.members {
			known[a.run.m.Changes[i].Path] = true
		}
		dir, _, err := a.parent(s.Tree, s.Path)
		if err != nil {
			return failed("openat2", a.full(s.Tree, s.Path), err)
		}
		err = a.unknown(s.Tree, dir, s.Temp, s.Path, known, func(path, reason string, hard bool) {
			conflicts.add(Conflict{Path: a.full(s.Tree, path), Reason: reason, Hard: hard})
		})
		if err != nil {
			return err
		}
	}
	if len(conflicts.Conflicts) > 0 {
		return conflicts
	}
	return nil
}

// loosen lets the owner into the directories whose modes are steps: those may have
// been taken already, and what is below is still to be reached. Whoever calls it
// sets the modes afterwards.
func (a *applying) loosen() error {
	// The deepest stand first in the list.
	for i := len(a.journal.Steps) - 1; i >= 0 && a.journal.Steps[i].Op == opMode; i-- {
		s := a.journal.Steps[i]
		dir, name, err := a.parent(s.Tree, s.Path)
		if err != nil {
			continue // its own step will say so
		}
		n, err := statAt(dir, name)
		if err != nil || n.typ != Dir || !n.is(s.Old) || n.mode&0o700 == 0o700 {
			continue
		}
		if err := setAttrs(dir, name, s, &attrs{Mode: n.mode | 0o700}); err != nil && !errors.Is(err, unix.EPERM) {
			return a.stepError(s, err)
		}
	}
	return nil
}

// loosenHeld is loosen before anything else is done. Root needs no way in.
func (a *applying) loosenHeld() error {
	if isRoot() {
		return nil
	}
	return a.loosen()
}

// setModes sets what loosen may have changed.
func (a *applying) setModes() error {
	for _, s := range a.journal.Steps {
		if s.Op != opMode {
			continue
		}
		dir, name, err := a.parent(s.Tree, s.Path)
		if err == nil {
			err = setAttrs(dir, name, s, s.After)
		}
		if err != nil && err != unix.ENOENT && !errors.Is(err, errForeign) {
			return a.stepError(s, err)
		}
	}
	return nil
}
