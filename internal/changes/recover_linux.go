package changes

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// errTreeGone: the tree of an interrupted apply isn't there.
var errTreeGone = errors.New("the tree of an interrupted apply isn't there")

// Recover finishes or undoes what an interrupted Apply left, of every run. Apply and
// Discard begin with it.
func (s *Store) Recover() error {
	if s.empty() {
		return nil
	}
	unlock, err := s.lock(nil)
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

// recoverOne tells what it did once it is done.
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
	// The journal says all that is to be done: without a record none is shortened.
	r, err := s.Open(id)
	var broken *BrokenError
	if errors.As(err, &broken) {
		r, err = s.openBroken(id)
	}
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
	did, err := a.goOn(state)
	if err != nil {
		return err
	}
	if s.recovered == nil {
		s.recovered = map[string]Recovered{}
	}
	s.recovered[id] = did
	if s.Told != nil {
		s.Told(did)
	}
	return nil
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
			return a.goneMeanwhile(fmt.Errorf("%w: %w", errTreeGone, err))
		}
		a.roots[i] = fd
		n, err := statFD(fd)
		if err != nil {
			return failed("fstat", t.Path, err)
		}
		if n.ino != t.Ino {
			return a.goneMeanwhile(failed("open", t.Path, errTreeGone))
		}
	}
	a.makeParents()
	return nil
}

// goneMeanwhile says what to do: the journal is all that knows what was moved to where.
func (a *applying) goneMeanwhile(err error) error {
	return fmt.Errorf("%w\nhint: put it back where it was; is it gone for good, then remove %s", err, Quote(a.run.path))
}

// goOn does what is left to do, from the state that the journal's name says.
func (a *applying) goOn(state string) (Recovered, error) {
	did := Recovered{Run: a.run.m.ID, Changes: len(a.journal.Applied)}
	switch state {
	case journalStaging:
		return did, a.unstage()
	case journalUndoing:
		return did, a.undo()
	case journalDone:
		did.Finished = true
		return did, a.finish()
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
		did.Why = err
		return did, a.undo()
	}
	did.Finished = true
	return did, a.finish()
}
