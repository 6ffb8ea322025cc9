package changes

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/confine-run/confine/internal/hint"
)

// match gives the indices of the changes at and below paths, of all without paths.
// A path is absolute, or relative to a tree.
func (m *manifest) match(paths []string) (map[int]bool, error) {
	chosen := map[int]bool{}
	if len(paths) == 0 {
		for i := range m.Changes {
			chosen[i] = true
		}
	}
	for _, p := range paths {
		found := false
		for t := range m.Trees {
			rel, ok := relative(m.Trees[t].Path, p)
			if !ok {
				continue
			}
			for i := range m.Changes {
				if e := &m.Changes[i]; e.Tree == t && below(e.Path, rel) {
					chosen[i], found = true, true
				}
			}
		}
		if !found {
			return nil, hint.With(fmt.Errorf("%w %s", ErrNoMatch, Quote(p)), "confine diff lists them")
		}
	}
	return chosen, nil
}

// relative is p below a tree, "" for the tree itself.
func relative(tree, p string) (rel string, ok bool) {
	if !path.IsAbs(p) {
		rel = path.Clean(p)
		if rel == "." {
			rel = ""
		}
		return rel, rel != ".." && !strings.HasPrefix(rel, "../")
	}
	p = path.Clean(p)
	switch {
	case p == tree:
		return "", true
	case tree == "/":
		return p[1:], true
	case strings.HasPrefix(p, tree+"/"):
		return p[len(tree)+1:], true
	}
	return "", false
}

// addParents adds the directories that the chosen changes need and that the run made,
// and tells which those are.
func (m *manifest) addParents(chosen map[int]bool) map[int]bool {
	parents := map[int]bool{}
	for i := range chosen {
		e := &m.Changes[i]
		for dir, _ := split(e.Path); dir != ""; dir, _ = split(dir) {
			at, ok := m.find(treePath{e.Tree, dir})
			if ok && (chosen[at] || parents[at]) {
				break // what it is in was looked at, or will be
			}
			if ok && m.Changes[at].now() == Dir && m.Changes[at].Was != Dir {
				parents[at] = true
			}
		}
	}
	for i := range parents {
		chosen[i] = true
	}
	return parents
}

// Names of one file that are applied at different times are linked as well: what was
// applied leaves the record, so what is left of the file remembers its name.

// maxLinked bounds how many are remembered of a file: more than one, for it may be gone or
// changed when the next name comes.
const maxLinked = 8

// first names the object that e is, one of several hard links perhaps.
func (e *Entry) first() treePath {
	if e.Link == "" {
		return treePath{e.Tree, e.Path}
	}
	return treePath{e.Tree, e.Link}
}

// linkedTo are the names of an object that were applied before.
func (m *manifest) linkedTo(object treePath) []string {
	if m.linked == nil {
		m.linked = map[treePath][]string{}
		for i := range m.Changes {
			if e := &m.Changes[i]; len(e.Linked) > 0 {
				m.linked[e.first()] = e.Linked
			}
		}
	}
	return m.linked[object]
}

// linkOf is the name that e becomes a hard link of, as far as the record knows.
func (m *manifest) linkOf(e *Entry) string {
	if e.Link != "" || e.now() != File {
		return e.Link
	}
	if names := m.linkedTo(e.first()); len(names) > 0 {
		return names[0]
	}
	return ""
}

// without is the record's changes but those that drop says. Were these applied, the first that is left
// of the same file remembers their names.
func (m *manifest) without(drop func(i int) bool, wereApplied bool) (left []Entry) {
	names := map[treePath][]string{}
	for i := range m.Changes {
		e := &m.Changes[i]
		if e.now() != File {
			continue
		}
		of := e.first()
		if _, ok := names[of]; !ok {
			names[of] = slices.Clone(m.linkedTo(of))
		}
		// The first name is the Link of the others.
		if wereApplied && drop(i) && e.Path != of.Path && len(names[of]) < maxLinked {
			names[of] = append(names[of], e.Path)
		}
	}
	for i, e := range m.Changes {
		if drop(i) {
			continue
		}
		e.Linked = nil
		if e.now() == File {
			e.Linked = names[e.first()]
			names[e.first()] = nil
		}
		left = append(left, e)
	}
	return left
}

// find is the index of what is at a path in the record.
func (m *manifest) find(at treePath) (i int, ok bool) {
	return slices.BinarySearchFunc(m.Changes, at, func(e Entry, at treePath) int {
		return cmp.Or(e.Tree-at.Tree, comparePaths(e.Path, at.Path))
	})
}

// comesLater: the first name of e's object is still in the record, and not chosen.
func (m *manifest) comesLater(e *Entry, chosen map[int]bool) bool {
	i, ok := m.find(e.first())
	return ok && e.Link != "" && !chosen[i] && m.Changes[i].now() == File
}

// setID are the bits that lend the rights of a file's owner or group to whoever runs
// it. On a directory the second makes what is made in it the directory's group's, and
// lends nothing.
const setID = 0o6000

// wanted is the mode of what the run made, or gave new content: a file without set-id
// bits, whoever had them before, a directory without the one that means nothing there.
func (e *Entry) wanted() uint32 {
	if e.Type == Dir {
		return e.Mode & 0o3777
	}
	return e.Mode &^ setID
}

// given is the mode that is applied to what has the mode old. Where content and owner stay,
// so do the set-id bits that it has, unless the run took them off.
func (e *Entry) given(old uint32, reowned bool) uint32 {
	mode := e.wanted()
	if e.Kind == ModeOnly && !reowned {
		mode |= e.Mode & old & setID
	}
	return mode
}

// reowned: apply gives it another owner or group than it has.
func (e *Entry) reowned(uid, gid uint32) bool {
	return os.Geteuid() == 0 && (uid != e.UID || gid != e.GID)
}

// leftOut: the run gave it a set-id bit that apply doesn't.
func (e *Entry) leftOut(old uint32, reowned bool) bool {
	if t := e.now(); t != File && t != Dir {
		return false
	}
	return e.Mode&^e.given(old, reowned)&setID != 0
}

// shownLeftOut is leftOut for what the real tree had.
func (e *Entry) shownLeftOut() bool {
	return e.leftOut(e.OldMode, e.reowned(e.OldUID, e.OldGID))
}
