package changes

import "fmt"

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

// recode does f to the names of a journal, in place.
func (j *journal) recode(f func(string) (string, error)) error {
	var err error
	one := func(p *string) {
		if err == nil {
			*p, err = f(*p)
		}
	}
	for i := range j.Trees {
		one(&j.Trees[i].Path)
	}
	for i := range j.Applied {
		one(&j.Applied[i].Path)
	}
	for _, s := range j.Steps {
		one(&s.Path)
		for _, a := range []*attrs{s.Before, s.After} {
			if a == nil || a.Xattrs == nil {
				continue
			}
			x := map[string][]byte{}
			for k, v := range a.Xattrs {
				one(&k)
				x[k] = v
			}
			a.Xattrs = x
		}
	}
	return err
}

func parseJournal(data []byte) (*journal, error) {
	var j journal
	if err := parseStrict(data, &j); err != nil {
		return nil, err
	}
	if j.Version != journalVersion {
		return nil, fmt.Errorf("version %d of the journal is not known", j.Version)
	}
	for _, s := range j.Steps {
		if s == nil {
			return nil, fmt.Errorf("an empty step")
		}
	}
	if err := j.recode(decode); err != nil {
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
	return &j, nil
}

// validTemp: nothing but such a name is ever removed after a crash.
func validTemp(name string) bool {
	return len(name) > len(tempPrefix) && name[:len(tempPrefix)] == tempPrefix && validPath(name) && len(name) < 64
}
