package changes

import (
	"context"
	"strings"
)

// Options of Apply.
type Options struct {
	// Force lets the run's version win over what has changed since, what was added
	// since below a directory that the run removed included.
	Force bool
	// Protected makes the test for what later programs of the caller's run or obey: git
	// hooks, start-up files. It is given the trees of the run, the directories that hold what
	// is applied, those above included, and the names that the run's policy protects in any tree.
	// The test is asked about each path and the directories on the way, with what is to be there. Such
	// changes are refused unless AllowProtected; so are symbolic links that lead out of their tree.
	Protected      func(trees, dirs, names []string) func(path string, t Type) bool
	AllowProtected bool
	// Agreed says whether what the real tree had at a path is what an earlier apply of the same sandbox brought about: then
	// that it was changed since the run began is no conflict. nil: nothing is.
	Agreed func(path string, had Base) bool
	// Dry stops before anything is touched: the result is what would be done.
	Dry bool
	// Context, where it ends before the commit, ends all with its cause, and the tree is as it was; so it does
	// with a wait for another apply. nil: nothing stops it. Committed is told that it goes on to the end from
	// there, now or by whoever comes next.
	Context   context.Context
	Committed func()
}

// stop is asked while nothing is changed yet, for the last time before the commit.
func (o *Options) stop() error { return context.Cause(o.Context) }

// Result is what Apply did.
type Result struct {
	Applied int // changes that the tree has now
	// NoSetID counts objects that don't have the set-id bits that the run gave them; of
	// those, Nothing changes had nothing else to apply. They aren't among Applied.
	NoSetID, Nothing int
	// Parted counts files that were one of several hard links: the other names keep the
	// old content.
	Parted int
	// Copied counts hard links that became files of their own.
	Copied int
}

// protection is the test for changes that aren't taken over unasked; nil refuses none.
func (m *manifest) protection(chosen map[int]bool, o *Options) func(*Entry) bool {
	if o.AllowProtected {
		return func(*Entry) bool { return false }
	}
	test := func(string, Type) bool { return false }
	if o.Protected != nil {
		var trees []string
		for _, t := range m.Trees {
			trees = append(trees, t.Path)
		}
		test = o.Protected(trees, m.dirs(chosen), m.names())
	}
	return func(e *Entry) bool {
		t := e.now()
		for at := join(m.Trees[e.Tree].Path, e.Path); len(at) > 1; at, _ = split(at) {
			if m.protects(at, t) || test(at, t) {
				return true
			}
			t = Dir
		}
		return false
	}
}

// dirs are the directories of the trees that chosen changes, and what they are links of,
// are in, those above included.
func (m *manifest) dirs(chosen map[int]bool) (all []string) {
	seen := map[string]bool{}
	for i := range m.Changes {
		e := &m.Changes[i]
		if !chosen[i] {
			continue
		}
		top := m.Trees[e.Tree].Path
		for _, path := range append([]string{e.Path, e.Link}, m.linkedTo(e.first())...) {
			for at := join2(top, path); at != top; {
				if at, _ = split(at); seen[at] {
					break
				}
				seen[at] = true
				all = append(all, at)
			}
		}
	}
	return all
}

// names are those that the policy protects in any tree.
func (m *manifest) names() (all []string) {
	for _, p := range m.Protect {
		if !strings.HasPrefix(p, "/") {
			all = append(all, p)
		}
	}
	return all
}

// protects: the run's policy did, or a link would stand on the way there.
func (m *manifest) protects(full string, t Type) bool {
	for _, p := range m.Protect {
		if !strings.HasPrefix(p, "/") {
			p = "/" + p
			if strings.HasSuffix(full, p) {
				return true
			}
			for up, _ := split(p); t == Symlink && len(up) > 1; up, _ = split(up) {
				if strings.HasSuffix(full, up) {
					return true
				}
			}
		} else if full == p || t == Symlink && strings.HasPrefix(p, full+"/") {
			return true
		}
	}
	return false
}

// refuse collects what is never applied, or not without being asked for.
func (m *manifest) refuse(chosen map[int]bool, protects func(*Entry) bool, outside func(*Entry) string) error {
	refused := &RefusedError{}
	for i := range m.Changes {
		if !chosen[i] {
			continue
		}
		e := &m.Changes[i]
		path := m.Trees[e.Tree].Path + "/" + e.Path
		switch {
		case e.now().special():
			refused.never(path, "a "+string(e.Type)+" is never made in the real tree")
		case e.Unkept != "":
			refused.never(path, e.Unkept)
		case protects(e):
			refused.protected(path, "is protected: programs outside run or obey it")
		default:
			if how := outside(e); how != "" {
				refused.protected(path, "is a symbolic link that "+how)
			}
		}
	}
	if len(refused.Paths) > 0 {
		refused.Hint = refused.remedy(m.ID)
		return refused
	}
	return nil
}
