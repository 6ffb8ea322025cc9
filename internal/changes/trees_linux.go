package changes

import (
	"golang.org/x/sys/unix"
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
	if t.dir, err = openBeneath(t.roots[tree], at, dirFlags); err == unix.EACCES {
		// What is in it can be looked at; loosen opens it before anything is done.
		t.dir, err = openBeneath(t.roots[tree], at, lookupFlags)
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
		fd, err := openBeneath(root, join2(place, rel), dirFlags)
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
