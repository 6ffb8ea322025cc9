package changes

import (
	"path"
	"slices"
	"strings"
)

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
	i, ok := slices.BinarySearchFunc(f.m.Changes, applied{tree, path}, func(e Entry, p applied) int {
		if e.Tree != p.Tree {
			return e.Tree - p.Tree
		}
		return comparePaths(e.Path, p.Path)
	})
	if !ok || f.chosen != nil && !f.chosen[i] {
		return f.real(tree, path)
	}
	if e := &f.m.Changes[i]; e.now() == Symlink {
		return e.Target
	}
	return ""
}
