package changes

import (
	"context"
	"errors"
	"fmt"

	"github.com/confine-run/confine/internal/hint"
)

// Apply copies the changes at and below paths, all without paths, to the real
// trees: all of them or, with an error, none. What is applied leaves the record;
// a run without changes goes away.
//
// A tree's root has to be the directory that the run began with, by its inode
// number, unless Force; it is reached through no symbolic link in any case.
func (s *Store) Apply(r *Run, paths []string, o Options) (Result, error) {
	if o.Context == nil {
		o.Context = context.Background()
	}
	unlock, err := s.lock(o.Context)
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
	for i := range chosen {
		if e := &r.m.Changes[i]; e.Base.Raced && o.Agreed != nil && o.Agreed(join2(r.m.Trees[e.Tree].Path, e.Path), e.Base) {
			e.Base.Raced = false
		}
	}
	parents := r.m.addParents(chosen)
	a := &applying{trees: r.trees(), store: s, run: r, options: &o, chosen: chosen, parents: parents, journal: &journal{Version: journalVersion, Moves: []*move{}, Modes: []*modeStep{}}}
	defer a.close()
	// First, for what isn't the tree any more has no protected paths either.
	if err := a.openTrees(); err != nil {
		return Result{}, err
	}
	a.protects = r.m.protection(chosen, &o)
	outside := func(*Entry) string { return "" }
	if !o.AllowProtected {
		outside = (&following{trees: a.trees, m: r.m, chosen: chosen, protected: func(tree int, path string) bool {
			_, name := split(path)
			return name == ".git" || a.protects(&Entry{Change: Change{Tree: tree, Path: path, Type: File}})
		}}).outside
	}
	if err := r.m.refuse(chosen, a.protects, outside); err != nil {
		return Result{}, err
	}
	return a.apply()
}

// applying is one apply, or the end of one that was interrupted: of that there are only the trees, the run and
// the journal.
type applying struct {
	*trees
	store   *Store
	run     *Run
	journal *journal
	options *Options
	// protects: a change isn't taken over unasked.
	protects func(*Entry) bool
	chosen   map[int]bool
	parents  map[int]bool // directories that were not asked for but are needed
	result   Result
	objects  int // that are staged
}

// entry is the change that a step brings about.
func (a *applying) entry(s *move) *Entry { return &a.run.m.Changes[s.entry] }

// openTrees opens the roots of the trees that the chosen changes are in.
func (a *applying) openTrees() error {
	a.journal.Trees = make([]journalTree, len(a.paths))
	for i, path := range a.paths {
		a.journal.Trees[i].Path = path
	}
	for i := range a.chosen {
		t := a.run.m.Changes[i].Tree
		if a.roots[t] >= 0 {
			continue
		}
		n, err := a.open(t)
		if err != nil {
			return a.run.treeGone(err)
		}
		if n.ino != a.run.m.Trees[t].Ino && !a.options.Force {
			return failed("open", a.paths[t], hint.New("it is not the directory that the run began with", "--force takes it for that one"))
		}
		a.journal.Trees[t].Ino = n.ino
	}
	return nil
}

func (a *applying) apply() (Result, error) {
	if err := a.check(); err != nil {
		return Result{}, err
	}
	a.result.Applied = len(a.chosen) - a.result.Nothing
	if a.options.Dry {
		return a.result, nil
	}
	for i := range a.run.m.Changes {
		if a.chosen[i] {
			e := &a.run.m.Changes[i]
			a.journal.Applied = append(a.journal.Applied, treePath{e.Tree, e.Path})
		}
	}
	if len(a.journal.Moves)+len(a.journal.Modes) == 0 {
		return a.result, a.store.shorten(a.run, func(i int) bool { return a.chosen[i] }, true)
	}
	if err := a.writeJournal(journalStaging); err != nil {
		return Result{}, err
	}
	err := a.openDirs()
	if err == nil {
		err = stage(a)
	}
	if err == nil {
		err = a.options.stop()
	}
	if err == nil {
		err = a.writeJournal(journalCommitted)
	}
	if err != nil {
		return Result{}, joined(err, a.undo(false))
	}
	if a.options.Committed != nil {
		a.options.Committed()
	}
	if err := a.commit(); err != nil {
		return Result{}, joined(err, a.undo(true))
	}
	return a.result, a.finish()
}

// joined is why something was undone, and what went wrong with that, if anything did.
func joined(err, undone error) error {
	if undone == nil {
		return err
	}
	return errors.Join(err, undone)
}
