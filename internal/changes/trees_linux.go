package changes

import (
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

// trees are the real trees of a run or a journal, by their index, as far as they are open.
type trees struct {
	paths []string
	roots []int // -1: not open
	dir   int   // the last of parent; -1: none
}

func newTrees(paths []string) *trees {
	t := &trees{paths: paths, roots: make([]int, len(paths)), dir: -1}
	for i := range t.roots {
		t.roots[i] = -1
	}
	return t
}

// trees are the run's, none of them open.
func (r *Run) trees() *trees { return newTrees(r.Info().Trees) }

// open opens one.
func (t *trees) open(tree int) (n node, err error) {
	if t.roots[tree], err = openTree(t.paths[tree]); err != nil {
		return n, err
	}
	n, err = statFD(t.roots[tree])
	return n, failed("fstat", t.paths[tree], err)
}

func (t *trees) close() {
	for _, fd := range append(t.roots, t.dir) {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// parent opens the directory of path, anew: what it was a moment ago doesn't count. It is open until the next
// call.
func (t *trees) parent(tree int, path string) (dir int, name string, err error) {
	if t.dir >= 0 {
		_ = unix.Close(t.dir)
		t.dir = -1
	}
	at, name := split(path)
	if t.roots[tree] < 0 {
		return -1, name, unix.ENOENT
	}
	if t.dir, err = linux.OpenBeneath(t.roots[tree], at, dirFlags); err == unix.EACCES {
		// What is in it can be looked at; loosen opens it before anything is done.
		t.dir, err = linux.OpenBeneath(t.roots[tree], at, lookupFlags)
	}
	return t.dir, name, err
}

func (t *trees) full(tree int, path string) string {
	if path == here {
		return t.paths[tree]
	}
	return t.paths[tree] + "/" + path
}

// unknown calls conflict with what is below the directory at place, known by the
// name path, and isn't known; and with what is on another file system.
func (t *trees) unknown(tree, root int, place, path string, known map[string]bool, conflict func(path, reason string, hard bool)) error {
	var dev uint64
	for todo := []string{""}; len(todo) > 0; {
		rel := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		fd, err := linux.OpenBeneath(root, join2(place, rel), dirFlags)
		if err != nil {
			return failed("openat2", t.full(tree, join2(path, rel)), err)
		}
		n, err := statFD(fd)
		if err == nil && dev == 0 {
			dev = n.dev
		}
		if err == nil && n.dev != dev {
			conflict(join2(path, rel), "is on another file system", true)
			_ = unix.Close(fd)
			continue
		}
		if err == nil {
			err = names(fd, func(name string) error {
				n, err := statAt(fd, name)
				if err != nil {
					return err
				}
				at := join(rel, name)
				if !known[join2(path, at)] {
					conflict(join2(path, at), "is in a directory that would go, and not in the run's record", false)
				}
				if n.typ == Dir {
					todo = append(todo, at)
				}
				return nil
			})
		}
		_ = unix.Close(fd)
		if err != nil {
			return failed("readdir", t.full(tree, join2(path, rel)), err)
		}
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
	i, ok := f.m.find(treePath{tree, path})
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
	at, err := linux.OpenBeneath(f.roots[tree], dir, lookupFlags)
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
