package changes

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/hint"
)

// Apply copies the changes at and below paths, all without paths, to the real
// trees: all of them or, with an error, none. What is applied leaves the record;
// a run without changes goes away.
//
// A tree's root has to be the directory that the run began with, by its inode
// number, unless Force; it is reached through no symbolic link in any case.
func (s *Store) Apply(r *Run, paths []string, o Options) (Result, error) {
	unlock, err := s.lock(o.Stopped)
	if err == errStopped {
		err = cmp.Or(o.stop(), err)
	}
	if err != nil {
		return Result{}, err
	}
	defer unlock()
	stuck, err := s.recoverAll()
	if err == nil {
		err = s.InTheWay(r, stuck)
	}
	if err != nil {
		return Result{}, err
	}
	// Another apply may have shortened it since it was opened.
	fresh, err := s.Open(r.m.ID)
	if err != nil {
		return Result{}, err
	}
	defer fresh.Close()
	r.m = fresh.m
	if !o.Force && r.Truncated() > 0 {
		return Result{}, hint.With(fmt.Errorf("%w: %d are missing", ErrIncomplete, r.Truncated()), "--force applies the others")
	}
	if !o.Force && r.missesDeep(paths) {
		return Result{}, hint.With(fmt.Errorf("%w: at least %d, all below %s", ErrDeep, r.Deep(), Quote(r.deepIn())),
			"--force applies the others, and so does naming paths that those aren't in: confine apply PATH…")
	}
	chosen, err := r.m.match(paths)
	if err != nil {
		return Result{}, err
	}
	brought := r.m.bring(chosen)
	a := &applying{store: s, run: r, options: &o, chosen: chosen, brought: brought, journal: &journal{Version: journalVersion}}
	defer a.close()
	// First, for what isn't the tree any more has no protected paths either.
	if err := a.openTrees(); err != nil {
		return Result{}, err
	}
	a.protects = r.m.protection(chosen, &o)
	outside := func(*Entry) string { return "" }
	if !o.AllowProtected {
		f := r.following(a.roots, chosen)
		f.protected = func(tree int, path string) bool {
			_, name := split(path)
			return name == ".git" || a.protects(&Entry{Change: Change{Tree: tree, Path: path, Type: File}})
		}
		outside = f.outside
	}
	if err := r.m.refuse(chosen, a.protects, outside); err != nil {
		return Result{}, err
	}
	return a.apply()
}

type applying struct {
	store   *Store
	run     *Run
	options *Options
	// protects: a change isn't taken over unasked.
	protects func(*Entry) bool
	chosen   map[int]bool
	brought  map[int]bool // directories that were not asked for but are needed
	result   Result
	journal  *journal
	roots    []int
	parents  []parent
	blobs    int
	objects  int // that were staged
	stopped  error
	staged   map[applied]stagedAt
	steps    map[applied]*step // see stepAt
}

func (a *applying) close() {
	for i := range a.parents {
		a.parents[i].close()
	}
	for _, fd := range a.roots {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	if a.blobs > 0 {
		_ = unix.Close(a.blobs)
	}
}

// openTrees opens the roots of the trees that the chosen changes are in.
func (a *applying) openTrees() error {
	a.journal.Trees = make([]journalTree, len(a.run.m.Trees))
	a.roots = make([]int, len(a.run.m.Trees))
	for i, t := range a.run.m.Trees {
		a.roots[i] = -1
		a.journal.Trees[i] = journalTree{Path: t.Path}
	}
	for i := range a.chosen {
		t := a.run.m.Changes[i].Tree
		if a.roots[t] >= 0 {
			continue
		}
		fd, err := openTree(a.run.m.Trees[t].Path)
		if err != nil {
			return a.run.treeGone(err)
		}
		a.roots[t] = fd
		n, err := statFD(fd)
		if err != nil {
			return failed("fstat", a.run.m.Trees[t].Path, err)
		}
		if n.ino != a.run.m.Trees[t].Ino && !a.options.Force {
			return failed("open", a.run.m.Trees[t].Path, hint.New("it is not the directory that the run began with", "--force takes it for that one"))
		}
		a.journal.Trees[t].Ino = n.ino
	}
	a.makeParents()
	fd, err := unix.Openat(a.run.fd, blobsName, dirFlags|unix.O_CLOEXEC, 0)
	if err != nil {
		return failed("open", a.run.path+"/"+blobsName, err)
	}
	a.blobs = fd
	return nil
}

func (a *applying) makeParents() {
	a.parents = make([]parent, len(a.roots))
	for t, root := range a.roots {
		a.parents[t].open = func(path string) (int, error) {
			if root < 0 {
				return -1, unix.ENOENT
			}
			fd, err := openBeneath(root, path, dirFlags)
			if err == unix.EACCES {
				// What is in it can be looked at; loosen opens it before anything is done.
				fd, err = openBeneath(root, path, placeFlags)
			}
			return fd, err
		}
	}
}

// parent opens the directory of path, anew: what it was a moment ago doesn't count.
func (a *applying) parent(tree int, path string) (dir int, name string, err error) {
	at, name := split(path)
	a.parents[tree].close()
	dir, err = a.parents[tree].at(at)
	return dir, name, err
}

func (a *applying) full(tree int, path string) string {
	if path == here {
		return a.journal.Trees[tree].Path
	}
	return a.journal.Trees[tree].Path + "/" + path
}

func (a *applying) apply() (Result, error) {
	if err := a.check(); err != nil {
		return Result{}, err
	}
	a.result.Applied = len(a.chosen) - a.result.Nothing
	for i := range a.run.m.Changes {
		if a.chosen[i] {
			e := &a.run.m.Changes[i]
			a.journal.Applied = append(a.journal.Applied, applied{e.Tree, e.Path})
		}
	}
	if len(a.journal.Steps) == 0 {
		return a.result, a.store.shorten(a.run, func(i int) bool { return a.chosen[i] }, true)
	}
	if err := a.writeJournal(journalStaging); err != nil {
		return Result{}, err
	}
	err := a.loosenHeld()
	if err == nil {
		err = a.stage()
	}
	if err == nil {
		err = a.options.stop()
	}
	if err == nil {
		err = a.writeJournal(journalCommitted)
	}
	if a.stopped != nil {
		err = a.stopped // and not which path was its turn
	}
	if err != nil {
		if left := a.unstage(); left != nil {
			err = errors.Join(err, left)
		}
		return Result{}, err
	}
	if a.options.Committed != nil {
		a.options.Committed()
	}
	err = a.commit()
	if err == nil {
		err = a.store.renameJournal(a.run, journalCommitted, journalDone)
	}
	if err != nil {
		// Should the journal's name not change, a crash would make the next one go
		// on with what is being undone: whole in that case too.
		_ = a.store.renameJournal(a.run, journalCommitted, journalUndoing)
		return Result{}, errors.Join(err, a.undo())
	}
	return a.result, a.finish()
}

func (a *applying) writeJournal(name string) error {
	// Names are encoded for writing, and decoded again.
	if err := a.journal.recode(func(s string) (string, error) { return encode(s), nil }); err != nil {
		return err
	}
	data, err := json.Marshal(a.journal)
	if err2 := a.journal.recode(decode); err == nil {
		err = err2
	}
	if err == nil {
		err = a.store.writeWhole(a.run.fd, name, data)
	}
	return failed("write", a.run.path+"/"+name, err)
}

func (s *Store) renameJournal(r *Run, from, to string) error {
	err := s.at("rename " + to)
	if err == nil {
		err = unix.Renameat(r.fd, from, r.fd, to)
	}
	if err == nil {
		err = unix.Fsync(r.fd)
	}
	return failed("rename", r.path+"/"+from, err)
}

// dropJournal ends it: the newest name last, since it is the one that counts.
func (s *Store) dropJournal(r *Run) error {
	for _, name := range []string{journalStaging + ".new", journalCommitted + ".new", journalStaging, journalCommitted, journalUndoing, journalDone} {
		if err := s.at("drop " + name); err != nil {
			return err
		}
		if err := unix.Unlinkat(r.fd, name, 0); err != nil && err != unix.ENOENT {
			return failed("unlink", r.path+"/"+name, err)
		}
	}
	return failed("fsync", r.path, unix.Fsync(r.fd))
}
