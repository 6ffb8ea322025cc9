package changes

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/hint"
)

const journalVersion = 1

// What an apply has come to is the name of its journal.
const (
	journalStaging   = "journal.staging"
	journalCommitted = "journal.committed"
	journalUndoing   = "journal.undoing"
	journalDone      = "journal.done"
)

// tempPrefix begins every temporary name.
const tempPrefix = ".confine-apply-"

// op is what a step does to one name.
type op string

const (
	opPut    op = "put"    // Temp becomes the name
	opSwap   op = "swap"   // the two are exchanged: what was is at Temp then
	opRemove op = "remove" // the name becomes Temp
	opMode   op = "mode"   // After instead of Before
)

// step is one thing that is done at once, can be seen to be done, and can be
// undone.
type step struct {
	Tree   int    `json:"tree"`
	Op     op     `json:"op"`
	Path   string `json:"path"`
	Temp   string `json:"temp,omitempty"` // in the path's directory
	New    ident  `json:"new,omitzero"`   // of what is put
	Old    ident  `json:"old,omitzero"`   // of what was there
	Before *attrs `json:"before,omitempty"`
	After  *attrs `json:"after,omitempty"`

	entry   int    // in the manifest; -1 after a crash
	members []int  // entries below it that are built with it
	was     node   // what the check saw
	content string // digest of what is copied from the real file, if not from a blob
}

// here is the path of a step at the tree's own root.
const here = "."

// inDir is the directory in which the step's name is.
func (s *step) inDir() string {
	if dir, _ := split(s.Path); dir != "" {
		return dir
	}
	return here
}

// below is its path without that word.
func (s *step) below() string {
	if s.Path == here {
		return ""
	}
	return s.Path
}

// ident tells one object from another of the same name. The number of an inode that
// was freed is soon another's, so there is the time of birth, where the file system
// knows it.
type ident struct {
	Ino  uint64 `json:"ino"`
	Born int64  `json:"born,omitempty"`
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

type journal struct {
	Version int           `json:"version"`
	Trees   []journalTree `json:"trees"`
	Steps   []*step       `json:"steps"`
	Applied []applied     `json:"applied"` // leave the record when it is done
}

type journalTree struct {
	Path string `json:"path"`
	Ino  uint64 `json:"ino"`
}

// moves are the steps that move something, and come first.
func (j *journal) moves() []*step { return j.Steps[:j.firstMode()] }

// modes are those that set something, the deepest first: a directory may be closed by its new mode.
func (j *journal) modes() []*step { return j.Steps[j.firstMode():] }

func (j *journal) firstMode() int {
	if i := slices.IndexFunc(j.Steps, func(s *step) bool { return s.Op == opMode }); i >= 0 {
		return i
	}
	return len(j.Steps)
}

// order puts the modes last.
func (j *journal) order() {
	slices.SortStableFunc(j.Steps, func(x, y *step) int {
		switch xm, ym := x.Op == opMode, y.Op == opMode; {
		case xm && ym:
			return cmp.Or(y.Tree-x.Tree, comparePaths(y.below(), x.below()))
		case xm:
			return 1
		case ym:
			return -1
		}
		return 0
	})
}

// tempPath is the path of the temporary name.
func (s *step) tempPath() string {
	dir, _ := split(s.Path)
	return join(dir, s.Temp)
}

// builds: something new is made under the step's temporary name.
func (s *step) builds() bool { return s.Op == opPut || s.Op == opSwap }

func parseJournal(data []byte) (*journal, error) {
	var j journal
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&j); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("something follows the value")
	}
	if j.Version != journalVersion {
		return nil, fmt.Errorf("version %d of the journal is not known", j.Version)
	}
	for _, s := range j.Steps {
		if s == nil {
			return nil, fmt.Errorf("an empty step")
		}
	}
	if err := recode(reflect.ValueOf(&j).Elem(), decode); err != nil {
		return nil, err
	}
	for _, s := range j.Steps {
		s.entry = -1
		if s.Tree < 0 || s.Tree >= len(j.Trees) || !validPath(s.Path) && (s.Path != here || s.Op != opMode) {
			return nil, fmt.Errorf("step at %q", s.Path)
		}
		mode := s.Op == opMode && s.Before != nil && s.After != nil && s.Temp == ""
		move := (s.Op == opPut || s.Op == opSwap || s.Op == opRemove) && validTemp(s.Temp)
		if !mode && !move {
			return nil, fmt.Errorf("step %q at %q", s.Op, s.Path)
		}
	}
	j.order()
	return &j, nil
}

// validTemp: nothing but such a name is ever removed after a crash.
func validTemp(name string) bool {
	return len(name) > len(tempPrefix) && name[:len(tempPrefix)] == tempPrefix && validPath(name) && len(name) < 64
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
	var paths []string
	for _, t := range j.Trees {
		paths = append(paths, t.Path)
	}
	a := &applying{trees: newTrees(paths), store: s, run: r, options: &Options{Context: context.Background()}, journal: j}
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
	for i, t := range a.journal.Trees {
		if t.Ino == 0 {
			continue // no step in it
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
	if why, err = a.finishOrUndo(a.loosen()); why != nil {
		return false, why, err
	}
	return true, nil, a.finish()
}
