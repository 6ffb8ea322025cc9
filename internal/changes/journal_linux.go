package changes

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/linux"
)

const journalVersion = 2

// What an apply has come to is the name of its journal.
const (
	journalStaging   = "journal.staging"
	journalCommitted = "journal.committed"
	journalDone      = "journal.done"
)

// tempPrefix begins every temporary name.
const tempPrefix = ".confine-apply-"

// op is what a move does to one name.
type op string

const (
	opPut    op = "put"    // Temp becomes the name
	opSwap   op = "swap"   // the two are exchanged: what was is at Temp then
	opRemove op = "remove" // the name becomes Temp
)

// move is a step that is one rename, which can be seen to be done, and undone.
type move struct {
	Tree int    `json:"tree"`
	Op   op     `json:"op"`
	Path string `json:"path"`
	Temp string `json:"temp"`         // in the path's directory
	New  ident  `json:"new,omitzero"` // of what is put
	Old  ident  `json:"old,omitzero"` // of what was there

	entry   int    // in the manifest
	members []int  // entries below it that are built with it
	was     node   // what the check saw
	content string // digest of what is copied from the real file, if not from a blob
}

// modeStep gives an object After instead of Before.
type modeStep struct {
	Tree   int    `json:"tree"`
	Path   string `json:"path"`
	Old    ident  `json:"old"` // of the object
	Before *attrs `json:"before"`
	After  *attrs `json:"after"`
}

// attrs is what a mode step sets.
type attrs struct {
	Mode   uint32            `json:"mode"`
	UID    uint32            `json:"uid"`
	GID    uint32            `json:"gid"`
	Owner  bool              `json:"owner,omitempty"` // set it
	Extend bool              `json:"extend,omitempty"`
	Xattrs map[string][]byte `json:"xattrs,omitempty"` // set them, if Extend
}

// ident tells one object from another of the same name. The number of an inode that
// was freed is soon another's, so there is the time of birth, where the file system
// knows it.
type ident struct {
	Ino  uint64 `json:"ino"`
	Born int64  `json:"born,omitempty"`
}

type journal struct {
	Version int           `json:"version"`
	Trees   []journalTree `json:"trees"`
	Moves   []*move       `json:"moves"`
	Modes   []*modeStep   `json:"modes"`   // after the moves, the deepest first: a directory may be closed by its new mode
	Applied []treePath    `json:"applied"` // leave the record when it is done
}

type journalTree struct {
	Path string `json:"path"`
	Ino  uint64 `json:"ino"` // 0: no step is in it
}

// here is the path of a mode step at the tree's own root.
const here = "."

// dirOf is the directory in which a step's name is.
func dirOf(path string) string {
	dir, _ := split(path)
	return cmp.Or(dir, here)
}

// tempPath is the path of the temporary name.
func (s *move) tempPath() string {
	dir, _ := split(s.Path)
	return join(dir, s.Temp)
}

// builds: something new is made under the step's temporary name.
func (s *move) builds() bool { return s.Op != opRemove }

// sortModes puts the deepest first.
func (j *journal) sortModes() {
	depth := func(s *modeStep) string { return strings.TrimPrefix(s.Path, here) }
	slices.SortStableFunc(j.Modes, func(x, y *modeStep) int { return cmp.Or(y.Tree-x.Tree, comparePaths(depth(y), depth(x))) })
}

// paths are those of all steps.
func (j *journal) paths() iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		for _, s := range j.Moves {
			if !yield(s.Tree, s.Path) {
				return
			}
		}
		for _, s := range j.Modes {
			if !yield(s.Tree, s.Path) {
				return
			}
		}
	}
}

func parseJournal(data []byte) (*journal, error) {
	var j journal
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := decodeNext(d, &j); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("something follows the value")
	}
	if j.Version != journalVersion {
		return nil, fmt.Errorf("version %d of the journal is not known", j.Version)
	}
	if slices.Contains(j.Moves, nil) || slices.Contains(j.Modes, nil) {
		return nil, fmt.Errorf("an empty step")
	}
	for _, s := range j.Moves {
		if s.Op != opPut && s.Op != opSwap && s.Op != opRemove || !validTemp(s.Temp) || !linux.ValidPath(s.Path) {
			return nil, fmt.Errorf("step %q at %q", s.Op, s.Path)
		}
	}
	for _, s := range j.Modes {
		if s.Before == nil || s.After == nil || !linux.ValidPath(s.Path) && s.Path != here {
			return nil, fmt.Errorf("mode at %q", s.Path)
		}
	}
	for tree, path := range j.paths() {
		if tree < 0 || tree >= len(j.Trees) {
			return nil, fmt.Errorf("step at %q", path)
		}
	}
	return &j, nil
}

// validTemp: nothing but such a name is ever removed after a crash.
func validTemp(name string) bool {
	return len(name) > len(tempPrefix) && strings.HasPrefix(name, tempPrefix) && linux.ValidPath(name) && !strings.Contains(name, "/") && len(name) < 64
}

func (a *applying) writeJournal(name string) error {
	data, err := json.Marshal(encoded(*a.journal))
	if err == nil {
		err = a.store.writeFile(a.run.fd, name, func(w io.Writer) error { _, err := w.Write(data); return err })
	}
	return failed("write", a.run.path+"/"+name, err)
}

// journalDone ends the time in which a crash undoes what was committed.
func (s *Store) journalDone(r *Run) error {
	err := s.at("rename " + journalDone)
	if err == nil {
		err = unix.Renameat(r.fd, journalCommitted, r.fd, journalDone)
	}
	if err == nil {
		if err = unix.Fsync(r.fd); err != nil {
			_ = unix.Renameat(r.fd, journalDone, r.fd, journalCommitted)
		}
	}
	return failed("rename", r.path+"/"+journalCommitted, err)
}

// dropJournal ends it: the newest name last, since it is the one that counts.
func (s *Store) dropJournal(r *Run) error {
	for _, name := range []string{journalStaging + ".new", journalCommitted + ".new", journalStaging, journalCommitted, journalDone} {
		if err := s.at("drop " + name); err != nil {
			return err
		}
		if err := unix.Unlinkat(r.fd, name, 0); err != nil && err != unix.ENOENT {
			return failed("unlink", r.path+"/"+name, err)
		}
	}
	return failed("fsync", r.path, unix.Fsync(r.fd))
}

// errTreeGone: the tree of an interrupted apply isn't there.
var errTreeGone = errors.New("the tree of an interrupted apply isn't there")

// Recover finishes or undoes what an interrupted Apply left, of every run. Apply and
// Discard begin with it. Those that it can't bring to an end matter to their own trees only.
func (s *Store) Recover() (stuck []Recovered, err error) {
	if s.empty() {
		return nil, nil
	}
	unlock, err := s.lock(context.Background())
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
		if s.OnRecovered != nil && !gone {
			s.OnRecovered(d)
		}
	}
	return nil
}

// recoverOne tells what it did once it is done.
func (s *Store) recoverOne(id string) (did Recovered, err error) {
	did.Run = id
	r, err := s.open(id, nil)
	if errors.Is(err, ErrNoRun) {
		return did, nil
	}
	if err != nil {
		return did, err
	}
	defer r.Close()
	var data []byte
	state := ""
	for _, state = range []string{journalDone, journalCommitted, journalStaging} {
		if data, err = readFile(r.fd, state, maxManifest); err != unix.ENOENT {
			break
		}
	}
	if err == unix.ENOENT {
		return did, nil
	}
	// The journal says all that is to be done: without a record none is shortened.
	m, unread := readRecord(r.fd, parseManifest)
	if unread == nil {
		r.m = m
	}
	var j *journal
	if err == nil {
		j, err = parseJournal(data)
	}
	if err != nil {
		return did, failed("read", r.path+"/"+state, err)
	}
	did.Changes, did.Finished = len(j.Applied), state == journalDone
	var paths []string
	for _, t := range j.Trees {
		paths = append(paths, t.Path)
		if t.Ino != 0 {
			did.Trees = append(did.Trees, t.Path)
		}
	}
	a := &applying{trees: newTrees(paths), store: s, run: r, options: &Options{Context: context.Background()}, journal: j}
	defer a.close()
	err = a.reopen()
	if err == nil && did.Finished {
		err = a.finish()
	} else if err == nil {
		err = a.undo(state == journalCommitted)
	}
	if err != nil {
		return did, err
	}
	if s.recovered == nil {
		s.recovered = map[string]Recovered{}
	}
	s.recovered[id] = did
	if s.OnRecovered != nil {
		s.OnRecovered(did)
	}
	return did, nil
}

// reopen opens the trees of a journal.
func (a *applying) reopen() error {
	for i, t := range a.journal.Trees {
		if t.Ino == 0 {
			continue
		}
		n, err := a.open(i)
		switch {
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
			err = fmt.Errorf("%w: %w", errTreeGone, err)
		case err != nil:
			return err // it is there, and closed
		case n.ino != t.Ino:
			err = failed("open", t.Path, errTreeGone)
		}
		if err != nil { // and the journal is all that knows what was moved to where
			return hint.With(err, "put it back where it was; is it gone for good, then remove "+Quote(a.run.path))
		}
	}
	return nil
}
