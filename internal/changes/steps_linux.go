package changes

import (
	"errors"
	"iter"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/linux"
)

// errForeign: what stands there is neither what was nor what is to be.
var errForeign = errors.New("was changed at this moment")

// commit takes all steps, looks whether what they replaced is what was checked, and
// has it all on the disk.
func (a *applying) commit() error {
	if err := a.take(a.journal.moves()); err != nil {
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
	if err := a.take(a.journal.modes()); err != nil {
		return err
	}
	return a.syncModes()
}

func (a *applying) take(steps []*step) error {
	for _, s := range steps {
		if err := a.forward(s); err != nil {
			return a.stepError(s, err)
		}
	}
	return nil
}

// syncModes has the modes on the disk, as far as they are on the file system of the
// tree's root.
func (a *applying) syncModes() error {
	modes := a.journal.modes()
	for i, s := range modes {
		if i > 0 && modes[i-1].Tree == s.Tree {
			continue // they are in the order of the trees
		}
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
		return s.replaced(dir)
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
		return s.replaced(dir)
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
func (s *step) replaced(dir int) error {
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
	for _, s := range a.journal.moves() {
		if s.entry < 0 || s.was.typ != Dir || a.options.Force {
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

// adjust sets what want says at the directories of these steps, as far as they still stand. Where want has
// nothing, nothing is done.
func (a *applying) adjust(steps iter.Seq2[int, *step], want func(s *step, n node) *attrs) error {
	for _, s := range steps {
		dir, name, err := a.parent(s.Tree, s.Path)
		if err != nil {
			continue // its own step will say so, or it went away
		}
		n, err := statAt(dir, name)
		if err != nil || n.typ != Dir || !n.is(s.Old) {
			continue
		}
		if to := want(s, n); to != nil {
			if err := setAttrs(dir, name, s, to); err != nil && !errors.Is(err, unix.EPERM) && !errors.Is(err, errForeign) {
				return a.stepError(s, err)
			}
		}
	}
	return nil
}

// loosen lets the owner into the directories whose modes are steps: those may have
// been taken already, and what is below is still to be reached. Whoever calls it
// sets the modes afterwards.
func (a *applying) loosen() error {
	return a.adjust(slices.Backward(a.journal.modes()), func(_ *step, n node) *attrs { // the top first
		if n.mode&0o700 == 0o700 {
			return nil
		}
		return &attrs{Mode: n.mode | 0o700}
	})
}

// restoreModes closes what loosen opened, where nothing else was done yet.
func (a *applying) restoreModes() error {
	err := a.adjust(slices.All(a.journal.modes()), func(s *step, n node) *attrs {
		if s.Before.Mode&0o700 == 0o700 || n.mode != s.Before.Mode|0o700 {
			return nil
		}
		return &attrs{Mode: s.Before.Mode}
	})
	if err != nil {
		return err
	}
	return a.syncModes()
}

// setModes sets what loosen may have changed.
func (a *applying) setModes() error {
	for _, s := range a.journal.modes() {
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

// shut says what to do about a directory that takes nothing.
func (a *applying) shut(s *step, err error) error {
	if !errors.Is(err, unix.EACCES) {
		return err
	}
	return hint.With(err, "this user may not write to "+Quote(a.full(s.Tree, s.inDir()))+": make it writable (chmod u+w), or leave it out: confine apply PATH…")
}

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
	for _, s := range slices.Backward(a.journal.moves()) {
		if err := back(s); err != nil {
			return err
		}
	}
	if err := a.syncTrees(); err != nil {
		return err
	}
	if err := a.removeBuilt(func(s *step) uint64 { return s.New.Ino }); err != nil {
		return err
	}
	// A directory may be closed by the mode that it had: nothing below it is opened after this.
	for _, s := range a.journal.modes() {
		if err := back(s); err != nil {
			return err
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
	left := &LeftError{Path: a.full(s.Tree, s.tempPath()), Name: a.full(s.Tree, s.Path)}
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
	return failed("remove", a.full(s.Tree, s.tempPath()), err)
}

// removeBuilt removes what was built, and isn't what the tree has.
func (a *applying) removeBuilt(ino func(*step) uint64) error {
	for _, s := range a.journal.moves() {
		if s.builds() {
			if err := a.removeTemp(s, ino(s)); err != nil {
				return err
			}
		}
	}
	return nil
}

// unstage removes what was built, when nothing was moved yet.
func (a *applying) unstage() error {
	if !isRoot() { // who needs no way in
		if err := a.loosen(); err != nil {
			return err
		}
	}
	if err := a.removeBuilt(func(*step) uint64 { return 0 }); err != nil { // its inode isn't known
		return err
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
	for _, s := range a.journal.moves() {
		if s.Op == opPut {
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

// syncTrees has the names in all directories of the steps on the disk: directory by
// directory, or the file systems if there are many.
func (a *applying) syncTrees() error {
	if err := a.store.at("sync"); err != nil {
		return err
	}
	many := a.objects > fewFiles || len(a.journal.Steps) > fewFiles
	done, devs := map[applied]bool{}, map[uint64]bool{}
	for _, s := range a.journal.Steps {
		at, _ := split(s.Path)
		if done[applied{s.Tree, at}] {
			continue
		}
		done[applied{s.Tree, at}] = true
		dir, _, err := a.parent(s.Tree, s.Path)
		if err == unix.ENOENT || err == unix.ENOTDIR {
			continue
		}
		var n node
		if err == nil {
			n, err = statFD(dir)
		}
		switch {
		case err != nil:
		case !many:
			err = unix.Fsync(dir)
		case !devs[n.dev]:
			devs[n.dev] = true
			err = unix.Syncfs(dir)
		}
		if err != nil {
			return failed("sync", a.full(s.Tree, at), err)
		}
	}
	return nil
}
