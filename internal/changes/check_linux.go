package changes

import (
	"cmp"
	"crypto/rand"
	"slices"

	"golang.org/x/sys/unix"
)

// checking goes through the chosen changes of one tree in their order.
type checking struct {
	*applying
	tree      int
	known     map[string]bool // chosen paths
	conflicts *ConflictError
	unit      *step // what follows below it is built, or goes, with it
}

// check looks at every chosen path, and makes the steps.
func (a *applying) check() error {
	conflicts := &ConflictError{}
	for t := range a.roots {
		c := &checking{applying: a, tree: t, known: map[string]bool{}, conflicts: conflicts}
		var mine []int
		for i := range a.run.m.Changes {
			if e := &a.run.m.Changes[i]; e.Tree == t && a.chosen[i] {
				mine = append(mine, i)
				c.known[e.Path] = true
			}
		}
		for _, i := range mine {
			if err := a.options.stop(); err != nil {
				return err
			}
			if err := c.one(i); err != nil {
				return err
			}
		}
	}
	if len(conflicts.Conflicts) > 0 {
		return conflicts
	}
	a.countParted()
	if err := a.hold(); err != nil {
		return err
	}
	a.orderSteps()
	return nil
}

// orderSteps puts the modes last, the deepest first: a directory may be closed by
// its new one.
func (a *applying) orderSteps() {
	slices.SortStableFunc(a.journal.Steps, func(x, y *step) int {
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

func (c *checking) conflict(path, reason string, hard bool) {
	if hard || !c.options.Force {
		c.conflicts.add(Conflict{Path: c.full(c.tree, path), Reason: reason, Hard: hard})
	}
}

// one compares a change with the real tree.
func (c *checking) one(i int) error {
	e := &c.run.m.Changes[i]
	inUnit := c.unit != nil && below(e.Path, c.unit.Path)
	if !inUnit {
		c.unit = nil
	}
	var real Base
	var n node
	dir, name, err := c.parent(c.tree, e.Path)
	switch {
	case err == nil:
		real, n, err = look(dir, name)
		if err != nil {
			return failed("read", c.full(c.tree, e.Path), err)
		}
	case err == unix.ENOENT || err == unix.ENOTDIR || err == unix.ELOOP && inUnit:
		if !inUnit && e.Kind != Deleted {
			c.conflict(e.Path, "its directory is gone", true)
			return nil
		}
	case err == unix.ELOOP:
		c.conflict(e.Path, "there is a symbolic link in its path now", true)
		return nil
	default:
		return failed("openat2", c.full(c.tree, e.Path), err)
	}
	already, err := c.already(e, i, real, n, dir, name)
	if err != nil {
		return failed("read", c.full(c.tree, e.Path), err)
	}
	if why := differs(e, real); !already && why != "" {
		c.conflict(e.Path, why, false)
	}
	if inUnit {
		c.unit.members = append(c.unit.members, i)
		if e.leftOut(n.mode, true) {
			c.result.NoSetID++
		}
		return nil
	}
	left := e.leftOut(n.mode, e.reowned(n.uid, n.gid))
	if left {
		c.result.NoSetID++
	}
	if already && left && e.Kind == ModeOnly {
		c.result.Nothing++
		return nil
	}
	if already {
		c.result.Already++
		return nil
	}
	return c.step(i, real, n, dir, name)
}

// already: the real tree has what the run left.
func (c *checking) already(e *Entry, i int, real Base, n node, dir int, name string) (bool, error) {
	if real.Type != e.now() {
		return false, nil
	}
	switch {
	case real.Type == Absent:
		return true, nil
	case e.Kind == ModeOnly:
		before, after, err := c.attrsOf(e, n, dir, name)
		if err != nil {
			return false, err
		}
		return before.Mode == after.Mode && !after.Extend && (!after.Owner || before.UID == after.UID && before.GID == after.GID), nil
	case real.Type == Symlink:
		return real.Target == e.Target, nil
	case real.Type == Dir:
		return real.Mode == e.wanted() || c.brought[i], nil
	}
	return real.Type == File && e.Digest != "" && real.Digest == e.Digest && real.Mode == e.wanted(), nil
}

// differs says how the real tree is no longer what it was, "" if it still is.
func differs(e *Entry, real Base) string {
	b := &e.Base
	switch {
	case b.Raced:
		return "was changed while the command ran"
	case real.Type == b.Type && real.Digest == b.Digest && real.Mode == b.Mode && real.Target == b.Target && real.Stamp == b.Stamp:
		return ""
	case b.Type == Absent:
		return "there is a " + string(real.Type) + " now"
	case real.Type == Absent:
		return "is gone"
	case real.Type != b.Type:
		return "is a " + string(real.Type) + " now, and was a " + string(b.Type)
	case real.Mode != b.Mode:
		return "has another mode"
	}
	return "has other content"
}

// step makes the step that turns what is there into what the run left.
func (c *checking) step(i int, real Base, n node, dir int, name string) error {
	e := &c.run.m.Changes[i]
	s := &step{Tree: c.tree, Path: e.Path, was: n, entry: i}
	if n.typ != Absent {
		s.Old = ident{n.ino, born(dir, name)}
	}
	what := e.now()
	switch {
	case e.Kind == ModeOnly && real.Type != e.Type:
		c.conflict(e.Path, "is no "+string(e.Type)+" any more", true)
		return nil
	case e.Kind == ModeOnly && real.Type == File && (n.nlink > 1 || c.relinks(e, real, n)):
		// Its other names, who knows where, aren't part of the change: as in the
		// overlay, it becomes a file of its own, or one with those that were applied.
		s.Op, s.content = opSwap, real.Digest
	case e.Kind == ModeOnly, what == Dir && real.Type == Dir:
		s.Op = opMode
		var err error
		if s.Before, s.After, err = c.attrsOf(e, n, dir, name); err != nil {
			return failed("getxattr", c.full(c.tree, e.Path), err)
		}
	case what == Absent:
		s.Op = opRemove
	case real.Type == Absent:
		s.Op = opPut
	default:
		s.Op = opSwap
	}
	if s.Op == opSwap && (real.Type == File || real.Type == Dir) {
		c.attributes(e, dir, name)
	}
	if s.Op != opMode {
		s.Temp = tempPrefix + rand.Text()[:16]
		if what == Dir || real.Type == Dir {
			c.unit = s
		}
		if real.Type == Dir {
			if err := c.unknown(c.tree, c.roots[c.tree], e.Path, e.Path, c.known, c.conflict); err != nil {
				return err
			}
		}
	}
	c.journal.Steps = append(c.journal.Steps, s)
	return nil
}

// attributes makes it a conflict that an object which is replaced by one of its type has
// other attributes than it had, and than the new one has: these would be lost.
func (c *checking) attributes(e *Entry, dir int, name string) {
	if e.Base.Type != e.Type {
		return
	}
	if now := attributesAt(dir, name); now != e.Base.Xattrs && now != digestXattrs(e.Xattrs) {
		c.conflict(e.Path, "has other attributes", false)
	}
}

// attrsOf is what a mode step finds, and what it sets.
func (c *checking) attrsOf(e *Entry, n node, dir int, name string) (before, after *attrs, err error) {
	before = &attrs{Mode: n.mode, UID: n.uid, GID: n.gid, Owner: isRoot()}
	after = &attrs{Mode: e.given(n.mode, e.reowned(n.uid, n.gid)), UID: e.UID, GID: e.GID, Owner: isRoot()}
	if n.typ == Symlink {
		before.Mode, after.Mode = 0, 0
		return before, after, nil
	}
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	defer unix.Close(fd)
	have, err := xattrs(fd)
	if err != nil && err != unix.EACCES {
		return nil, nil, err
	}
	if err == nil && !sameXattrs(have, e.Xattrs) {
		before.Extend, after.Extend = true, true
		before.Xattrs, after.Xattrs = have, e.Xattrs
	}
	return before, after, nil
}

// unknown calls conflict with what is below the directory at place, known by the
// name path, and isn't known; and with what is on another file system.
func (a *applying) unknown(tree, root int, place, path string, known map[string]bool, conflict func(path, reason string, hard bool)) error {
	var dev uint64
	for todo := []string{""}; len(todo) > 0; {
		rel := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		fd, err := openBeneath(root, join2(place, rel), dirFlags)
		if err != nil {
			return failed("openat2", a.full(tree, join2(path, rel)), err)
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
			return failed("readdir", a.full(tree, join2(path, rel)), err)
		}
	}
	return nil
}
