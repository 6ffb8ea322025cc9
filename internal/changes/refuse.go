package changes

import (
	"context"
	"path"
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
	Already int // of those, what it had before
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

// A symbolic link that a run has left decides where later programs of the caller's read and write.
// One that leads out of its tree, or to what is protected, is not applied unasked.
//
// A link stays in the tree if its target, walked from where the link stands through the tree as it
// will be, never goes above the tree's root, and has no ".." behind a name: what that name is can
// change later. Links that all stay don't lead out together either, in whatever order they are
// applied. What the caller's own links lead to that have a ".." behind a name is not looked at again.

// maxFollowed bounds how many components are looked at for all links of one apply or diff.
const maxFollowed = 1_000_000

// following tells where links lead.
type following struct {
	m      *manifest
	chosen map[int]bool // what is applied; nil is all
	// real is the target of a symbolic link of the real tree, "" where none is.
	real func(tree int, path string) string
	// system says that a path outside of the tree is one of the system's, which this user can't write.
	system func(path string) bool
	// protected says that a path in a tree is. nil: that isn't asked.
	protected func(tree int, path string) bool
	looked    int
}

// outside says how a link which the change makes leads out of its tree, or to what is protected in it. "": it
// does neither.
func (f *following) outside(e *Entry) string {
	if e.now() != Symlink || e.Kind == ModeOnly {
		return ""
	}
	dir, _ := split(e.Path)
	switch to, in := f.walk(e.Tree, dir, e.Target); {
	case to != "" && !f.system(to):
		return "leads out of the tree, to " + Quote(to)
	case to == "" && turns(e.Target):
		return "can be made to lead out of the tree: " + Quote(e.Target) + " goes up from a name"
	case to == "" && f.protected != nil && f.protected(e.Tree, in):
		return "leads to " + Quote(in) + ", which is protected"
	}
	return ""
}

// turns: there is a ".." behind a name.
func turns(target string) bool {
	names := false
	for _, c := range strings.Split(target, "/") {
		if c == ".." && names {
			return true
		}
		names = names || c != "" && c != "." && c != ".."
	}
	return false
}

// walk follows rest from a directory of a tree, and gives where it leaves that, or where in it it ends. A link
// that leads nowhere, or in a circle, stays.
func (f *following) walk(tree int, at, rest string) (out, in string) {
	top := f.m.Trees[tree].Path
	const most = 40 // as many links as the kernel follows
	for links := 0; ; {
		if strings.HasPrefix(rest, "/") {
			below, ok := strings.CutPrefix(rest, strings.TrimSuffix(top, "/")+"/")
			if !ok && rest != top {
				return rest, ""
			}
			if at, rest = "", below; !ok {
				return "", ""
			}
		}
		if rest == "" {
			return "", at
		}
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		rest = strings.TrimLeft(rest, "/")
		if f.looked++; f.looked > maxFollowed {
			return join2(path.Join(top, at, name), rest), "" // it can't be told
		}
		switch {
		case name == "." || name == "":
		case name == ".." && at == "":
			if top != "/" {
				return join2(path.Dir(top), rest), ""
			}
		case name == "..":
			at, _ = split(at)
		default:
			at = join(at, name)
			target := f.target(tree, at)
			if target == "" {
				continue
			}
			if links++; links > most {
				return "", ""
			}
			at, _ = split(at)
			rest = join2(target, rest)
		}
	}
}

// target is that of the symbolic link at a path in the tree as it will be, "" where none is.
func (f *following) target(tree int, path string) string {
	i, ok := f.m.find(applied{tree, path})
	if !ok || f.chosen != nil && !f.chosen[i] {
		return f.real(tree, path)
	}
	if e := &f.m.Changes[i]; e.now() == Symlink {
		return e.Target
	}
	return ""
}
