package changes

import (
	"errors"

	"golang.org/x/sys/unix"
)

// errTreeGone: the tree of an interrupted apply isn't there.
var errTreeGone = errors.New("the tree of an interrupted apply isn't there")

// Recover finishes or undoes what an interrupted Apply left, of every run. Apply and
// Discard begin with it.
func (s *Store) Recover() error {
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	return s.recoverAll("")
}

// recoverAll is Recover, under the lock. A tree that isn't there, unmounted perhaps,
// matters only to its own run.
func (s *Store) recoverAll(id string) error {
	if err := s.sweep(); err != nil {
		return err
	}
	ids, err := s.ids()
	if err != nil {
		return err
	}
	for _, other := range ids {
		err := s.recoverOne(other)
		if err != nil && (!errors.Is(err, errTreeGone) || other == id) {
			return err
		}
	}
	return nil
}

func (s *Store) recoverOne(id string) error {
	dir, err := unix.Openat(s.fd, id, dirFlags|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return failed("open", s.path+"/"+id, err)
	}
	state := ""
	for _, name := range []string{journalDone, journalUndoing, journalCommitted, journalStaging} {
		n, err2 := statAt(dir, name)
		if err = err2; err != nil || n.typ != Absent {
			state = name
			break
		}
	}
	_ = unix.Close(dir)
	if err != nil || state == "" {
		return failed("stat", s.path+"/"+id, err)
	}
	r, err := s.Open(id)
	if err != nil {
		return err
	}
	defer r.Close()
	data, err := readAll(r.fd, state, maxManifest)
	if err != nil {
		return failed("read", r.path+"/"+state, err)
	}
	j, err := parseJournal(data)
	if err != nil {
		return failed("read", r.path+"/"+state, err)
	}
	a := &applying{store: s, run: r, options: &Options{}, journal: j}
	defer a.close()
	if err := a.reopen(); err != nil {
		return err
	}
	return a.goOn(state)
}

// reopen opens the trees of a journal.
func (a *applying) reopen() error {
	a.roots = make([]int, len(a.journal.Trees))
	for i := range a.roots {
		a.roots[i] = -1
	}
	a.makeParents()
	for i, t := range a.journal.Trees {
		if t.Ino == 0 {
			continue // no step in it
		}
		fd, err := openTree(t.Path)
		if err != nil {
			return errors.Join(errTreeGone, err)
		}
		a.roots[i] = fd
		n, err := statFD(fd)
		if err != nil {
			return failed("fstat", t.Path, err)
		}
		if n.ino != t.Ino {
			return failed("open", t.Path, errTreeGone)
		}
	}
	a.makeParents()
	return nil
}

// goOn does what is left to do, from the state that the journal's name says.
func (a *applying) goOn(state string) error {
	switch state {
	case journalStaging:
		return a.unstage()
	case journalUndoing:
		return a.undo()
	case journalDone:
		return a.finish()
	}
	err := a.loosen()
	if err == nil {
		err = a.commit()
	}
	if err == nil {
		err = a.store.renameJournal(a.run, journalCommitted, journalDone)
	}
	if err != nil {
		_ = a.store.renameJournal(a.run, journalCommitted, journalUndoing)
		return a.undo()
	}
	return a.finish()
}
