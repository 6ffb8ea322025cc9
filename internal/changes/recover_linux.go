package changes

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/hint"
)

// errTreeGone: the tree of an interrupted apply isn't there.
var errTreeGone = errors.New("the tree of an interrupted apply isn't there")

// Recover finishes or undoes what an interrupted Apply left, of every run. Apply and
// Discard begin with it. Those that it can't bring to an end matter to their own trees only.
func (s *Store) Recover() (stuck []Recovered, err error) {
	if s.empty() {
		return nil, nil
	}
	unlock, err := s.lock(nil)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return s.recoverAll()
}

// recoverAll is Recover, under the lock.
func (s *Store) recoverAll() (stuck []Recovered, err error) {
	if err := s.sweep(); err != nil {
		return nil, err
	}
	ids, err := s.ids()
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		did, err := s.recoverOne(id)
		if err != nil && did.Trees == nil {
			return nil, err // nobody knows what it was about
		}
		if err != nil {
			did.Stuck = err
			stuck = append(stuck, did)
		}
	}
	return stuck, nil
}

// InTheWay is why nothing can be done with a run, or its trees, before an interrupted apply
// has come to its end. Those of other trees are told, but for trees that aren't
// there, unmounted perhaps.
func (s *Store) InTheWay(r *Run, stuck []Recovered) error {
	for _, d := range stuck {
		gone := errors.Is(d.Stuck, errTreeGone)
		if d.Run == r.m.ID || d.overlaps(r.m.Trees) && !gone {
			return fmt.Errorf("the interrupted apply of run %s can be neither finished nor undone now: %w", d.Run, d.Stuck)
		}
		if s.Told != nil && !gone {
			s.Told(d)
		}
	}
	return nil
}

// recoverOne tells what it did once it is done.
func (s *Store) recoverOne(id string) (did Recovered, err error) {
	did.Run = id
	dir, err := unix.Openat(s.fd, id, dirFlags|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT {
		return did, nil
	}
	if err != nil {
		return did, failed("open", s.path+"/"+id, err)
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
		return did, failed("stat", s.path+"/"+id, err)
	}
	// The journal says all that is to be done: without a record none is shortened.
	r, err := s.Open(id)
	var broken *BrokenError
	if errors.As(err, &broken) {
		r, err = s.openBroken(id)
	}
	if err != nil {
		return did, err
	}
	defer r.Close()
	data, err := readAll(r.fd, state, maxManifest)
	if err != nil {
		return did, failed("read", r.path+"/"+state, err)
	}
	j, err := parseJournal(data)
	if err != nil {
		return did, failed("read", r.path+"/"+state, err)
	}
	did.Changes = len(j.Applied)
	for _, t := range j.Trees {
		if t.Ino != 0 { // else no step is in it
			did.Trees = append(did.Trees, t.Path)
		}
	}
	a := &applying{store: s, run: r, options: &Options{}, journal: j}
	defer a.close()
	if err := a.reopen(); err != nil {
		return did, err
	}
	if did.Finished, did.Why, err = a.goOn(state); err != nil {
		return did, err
	}
	if s.recovered == nil {
		s.recovered = map[string]Recovered{}
	}
	s.recovered[id] = did
	if s.Told != nil {
		s.Told(did)
	}
	return did, nil
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
		switch {
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
			return a.goneMeanwhile(fmt.Errorf("%w: %w", errTreeGone, err))
		case err != nil:
			return err // it is there, and closed
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
	return hint.With(err, "put it back where it was; is it gone for good, then remove "+Quote(a.run.path))
}

// goOn does what is left to do, from the state that the journal's name says.
func (a *applying) goOn(state string) (finished bool, why, err error) {
	switch state {
	case journalStaging:
		return false, nil, a.unstage()
	case journalUndoing:
		return false, nil, a.undo()
	case journalDone:
		return true, nil, a.finish()
	}
	err = a.loosen()
	if err == nil {
		err = a.commit()
	}
	if err == nil {
		err = a.store.renameJournal(a.run, journalCommitted, journalDone)
	}
	if err != nil {
		_ = a.store.renameJournal(a.run, journalCommitted, journalUndoing)
		return false, err, a.undo()
	}
	return true, nil, a.finish()
}
