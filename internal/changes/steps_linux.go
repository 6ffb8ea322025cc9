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
	for _, s := range a.journal.Moves {
		if err := a.forward(s); err != nil {
			return a.stepError(string(s.Op), s.Tree, s.Path, err)
		}
	}
	if err := a.recheck(); err != nil {
		return err
	}
	if err := a.syncTrees(); err != nil {
		return err
	}
	// A directory may not be readable any more with its new mode: nothing below it
	// is opened after this.
	for _, s := range a.journal.Modes {
		err := a.store.at("mode")
		if err == nil {
			err = a.set(s, s.after)
		}
		if err != nil {
			return a.stepError("mode", s.Tree, s.Path, err)
		}
	}
	if err := a.syncModes(); err != nil {
		return err
	}
	return a.store.journalDone(a.run)
}

// syncModes has the modes on the disk, as far as they are on the file system of the
// tree's root.
func (a *applying) syncModes() error {
	modes := a.journal.Modes
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

func (a *applying) stepError(op string, tree int, path string, err error) error {
	if errors.Is(err, errForeign) {
		return &ConflictError{pathList{Paths: []Conflict{{Path: a.full(tree, path), Reason: err.Error(), Hard: true}}}}
	}
	return failed(op, a.full(tree, path), a.notWritable(tree, path, err))
}

// notWritable says what to do about a directory that takes nothing.
func (a *applying) notWritable(tree int, path string, err error) error {
	if !errors.Is(err, unix.EACCES) {
		return err
	}
	return hint.With(err, "this user may not write to "+Quote(a.full(tree, dirOf(path)))+": make it writable (chmod u+w), or leave it out: confine apply PATH…")
}

// both opens the directory of a move, and looks at its two names.
func (a *applying) both(s *move) (dir int, name string, at, temp node, err error) {
	if dir, name, err = a.parent(s.Tree, s.Path); err == nil {
		at, err = statAt(dir, name)
	}
	if err == nil {
		temp, err = statAt(dir, s.Temp)
	}
	return dir, name, at, temp, err
}

// forward takes a step.
func (a *applying) forward(s *move) error {
	if err := a.store.at(string(s.Op)); err != nil {
		return err
	}
	dir, name, at, temp, err := a.both(s)
	if err != nil {
		return err
	}
	staged, before := temp.is(s.New), s.unchanged(at)
	from, to, how := s.Temp, name, uint(unix.RENAME_NOREPLACE)
	switch s.Op {
	case opPut:
		before = at.typ == Absent
	case opSwap:
		how = unix.RENAME_EXCHANGE
	case opRemove:
		staged = temp.typ == Absent
		from, to = name, s.Temp
	}
	if !staged || !before {
		return errForeign
	}
	if err := unix.Renameat2(dir, from, dir, to, how); err != nil || s.Op == opPut {
		return err
	}
	// The name can have changed between look and rename.
	if temp, err = statAt(dir, s.Temp); err == nil && !temp.is(s.Old) {
		err = errForeign
	}
	return err
}

// unchanged: n is still what the check saw.
func (s *move) unchanged(n node) bool {
	if !n.is(s.Old) || n.typ == Dir {
		return n.is(s.Old) // what is in a directory is looked at by recheck
	}
	// A link of it that another step moved has changed the time of both.
	return n.typ == s.was.typ && n.size == s.was.size && n.mtime == s.was.mtime && (n.ctime == s.was.ctime || n.nlink > 1)
}

// set gives the object of a mode step what want says; nothing where want gives nil.
func (a *applying) set(s *modeStep, want func(n node) *attrs) error {
	dir, name, err := a.parent(s.Tree, s.Path)
	if err != nil {
		return err
	}
	fd, n, err := openPath(dir, name)
	if err == unix.ENOENT || err == nil && !n.is(s.Old) {
		err = errForeign
	}
	if fd >= 0 {
		defer unix.Close(fd)
	}
	if err != nil {
		return err
	}
	to := want(n)
	if to == nil {
		return nil
	}
	if to.Owner && (n.uid != to.UID || n.gid != to.GID) {
		if err := unix.Fchownat(fd, "", int(to.UID), int(to.GID), unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
	}
	if n.typ == Symlink {
		return nil
	}
	if to.Extend {
		if err := unix.Chmod(linux.FDPath(fd), to.Mode|0o600); err != nil {
			return err
		}
		if err := setXattrs(fd, to.Xattrs); err != nil {
			return err
		}
	}
	return unix.Chmod(linux.FDPath(fd), to.Mode)
}

func (s *modeStep) before(node) *attrs { return s.Before }

// after leaves out the set-id bits of a file whose owner has taken them off since the check.
func (s *modeStep) after(n node) *attrs {
	to := *s.After
	if n.typ == File {
		to.Mode &^= setID &^ n.mode
	}
	return &to
}

// recheck looks once more into the directories that were moved away, now that
// nobody finds them by their names: what came into them since the check isn't to go.
func (a *applying) recheck() error {
	conflicts := &ConflictError{}
	for _, s := range a.journal.Moves {
		if s.was.typ != Dir || a.options.Force {
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
	return conflicts.orNil()
}

// openDirs lets the owner into the directories whose modes are steps: those may have
// been taken already, and what is below is still to be reached. Whoever calls it
// sets the modes afterwards. Root needs no permission.
func (a *applying) openDirs() error {
	if isRoot() {
		return nil
	}
	return a.adjustDirs(slices.Backward(a.journal.Modes), func(_ *modeStep, n node) *attrs { // the top first
		if n.mode&0o700 == 0o700 {
			return nil
		}
		return &attrs{Mode: n.mode | 0o700}
	})
}

// closeDirs closes what openDirs opened, where nothing else was done yet.
func (a *applying) closeDirs() error {
	return a.adjustDirs(slices.All(a.journal.Modes), func(s *modeStep, n node) *attrs {
		if s.Before.Mode&0o700 == 0o700 || n.mode != s.Before.Mode|0o700 {
			return nil
		}
		return &attrs{Mode: s.Before.Mode}
	})
}

// adjustDirs sets what want says at the directories of these steps, as far as they still stand.
func (a *applying) adjustDirs(steps iter.Seq2[int, *modeStep], want func(s *modeStep, n node) *attrs) error {
	for _, s := range steps {
		tried := false
		err := a.set(s, func(n node) *attrs {
			if n.typ != Dir {
				return nil
			}
			tried = true
			return want(s, n)
		})
		// What failed before that, its own step will say; or it went away.
		if err != nil && tried && err != unix.EPERM {
			return a.stepError("mode", s.Tree, s.Path, err)
		}
	}
	return nil
}

// undo removes what was built. Once the moves may have begun (committed), it first takes every step back
// that was taken. What somebody else has put in the way stays, and is named. The journal stays where
// something fails: another attempt may do.
func (a *applying) undo(committed bool) error {
	if err := a.openDirs(); err != nil {
		return err
	}
	var left []error
	if committed {
		for _, s := range slices.Backward(a.journal.Moves) {
			err := a.back(s)
			if errors.As(err, new(*LeftError)) {
				left = append(left, err)
			} else if err != nil {
				return a.stepError(string(s.Op), s.Tree, s.Path, err)
			}
		}
		if err := a.syncTrees(); err != nil {
			return err
		}
	}
	for _, s := range a.journal.Moves {
		if s.builds() {
			if err := a.removeTemp(s, s.New.Ino); err != nil { // while staging its inode isn't known: 0
				return err
			}
		}
	}
	// A directory may be closed by the mode that it had: nothing below it is opened after this.
	if err := a.modesBack(committed); err != nil {
		return err
	}
	if err := a.syncModes(); err != nil {
		return err
	}
	return errors.Join(append(left, a.store.dropJournal(a.run))...)
}

func (a *applying) modesBack(committed bool) error {
	if !committed {
		return a.closeDirs()
	}
	for _, s := range a.journal.Modes {
		err := a.store.at("undo mode")
		if err == nil {
			err = a.set(s, s.before)
		}
		if err != nil && !gone(err) && err != errForeign {
			return a.stepError("mode", s.Tree, s.Path, inTheWay(err))
		}
	}
	return nil
}

// back undoes a step, if it was taken.
func (a *applying) back(s *move) error {
	if err := a.store.at("undo " + string(s.Op)); err != nil {
		return err
	}
	dir, name, at, temp, err := a.both(s)
	switch {
	case gone(err):
		return nil // somebody took the directory away, and all in it
	case err != nil:
		return inTheWay(err)
	case s.Op == opPut && at.is(s.New) && temp.typ == Absent:
		return unix.Renameat2(dir, name, dir, s.Temp, unix.RENAME_NOREPLACE)
	case s.Op == opPut, temp.typ == Absent, temp.is(s.New):
		return nil
	case s.Op == opSwap && at.is(s.New):
		return unix.Renameat2(dir, s.Temp, dir, name, unix.RENAME_EXCHANGE)
	case at.typ == Absent:
		return unix.Renameat2(dir, s.Temp, dir, name, unix.RENAME_NOREPLACE)
	}
	return &LeftError{Path: a.full(s.Tree, s.tempPath()), Name: a.full(s.Tree, s.Path)}
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
func (a *applying) removeTemp(s *move, ino uint64) error {
	if err := a.store.at("clean"); err != nil {
		return err
	}
	dir, _, err := a.parent(s.Tree, s.Path)
	if gone(err) {
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

// finish removes what was replaced, and takes what is applied out of the record.
func (a *applying) finish() error {
	if err := a.openDirs(); err != nil {
		return err
	}
	for _, s := range a.journal.Moves {
		if s.Op == opPut {
			continue
		}
		if err := a.removeTemp(s, s.Old.Ino); err != nil {
			return err
		}
	}
	for _, s := range a.journal.Modes { // of what openDirs may have opened
		if err := a.set(s, s.after); err != nil && err != unix.ENOENT && err != errForeign {
			return a.stepError("mode", s.Tree, s.Path, err)
		}
	}
	if err := a.syncModes(); err != nil {
		return err
	}
	done := map[treePath]bool{}
	for _, p := range a.journal.Applied {
		done[p] = true
	}
	all := a.run.m.Changes
	drop := func(i int) bool { return done[treePath{all[i].Tree, all[i].Path}] }
	left := 0
	for i := range all {
		if !drop(i) {
			left++
		}
	}
	if left < len(all) {
		if err := a.store.shorten(a.run, drop, true); err != nil || left == 0 {
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
	many := a.objects > fewFiles || len(a.journal.Moves)+len(a.journal.Modes) > fewFiles
	done, devs := map[treePath]bool{}, map[uint64]bool{}
	for tree, path := range a.journal.paths() {
		at, _ := split(path)
		if done[treePath{tree, at}] {
			continue
		}
		done[treePath{tree, at}] = true
		dir, _, err := a.parent(tree, path)
		if gone(err) {
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
			return failed("sync", a.full(tree, at), err)
		}
	}
	return nil
}
