package changes

import (
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
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

// following tells where links lead. Of trees whose roots aren't open only the changes are known.
type following struct {
	*trees
	m      *manifest
	chosen map[int]bool // what is applied; nil is all
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
	case to != "" && !ofSystem(to):
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

// real is the target of a symbolic link of the real tree, "" where none is.
func (f *following) real(tree int, path string) string {
	if f.roots[tree] < 0 {
		return ""
	}
	dir, name := split(path)
	at, err := openBeneath(f.roots[tree], dir, lookupFlags)
	if err != nil {
		return ""
	}
	defer unix.Close(at)
	target, _ := readLink(at, name)
	return target
}

// ofSystem: a file in /usr that this user can't write, nor put another in its place. Links to
// programs and libraries are common, and nothing that follows one does any harm there. Root can write
// everywhere.
func ofSystem(name string) bool {
	if isRoot() {
		return false
	}
	real, err := filepath.EvalSymlinks(name)
	if err != nil || !strings.HasPrefix(real, "/usr/") {
		return false
	}
	var st unix.Stat_t
	if unix.Lstat(real, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return false
	}
	for at := real; at != "/"; at = filepath.Dir(at) {
		if unix.Lstat(at, &st) != nil || st.Uid != 0 || unix.Faccessat(unix.AT_FDCWD, at, unix.W_OK, unix.AT_EACCESS) == nil {
			return false
		}
	}
	return true
}
