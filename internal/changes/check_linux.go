package changes

import (
	"crypto/rand"
	"os"

	"golang.org/x/sys/unix"
)

// checking goes through the chosen changes of one tree in their order.
type checking struct {
	*applying
	tree      int
	known     map[string]bool // chosen paths
	conflicts *ConflictError
	unit      *move // what follows below it is built, or goes, with it
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
	if err := conflicts.orNil(); err != nil {
		return err
	}
	a.countParted()
	err := a.addClosedDirs()
	a.journal.sortModes()
	return err
}

// addClosedDirs makes a step of each directory in which something is to be done and that its
// owner closed (0555): after openDirs and until the modes are set it is open, as for cp and
// tar. The step's two sides are the same, and being in the journal it is closed after a crash
// too. Root needs none of this, and another user's directory stays as it is.
func (a *applying) addClosedDirs() error {
	if isRoot() {
		return nil
	}
	has := map[treePath]bool{}
	for _, s := range a.journal.Modes {
		has[treePath{s.Tree, s.Path}] = true
	}
	for _, s := range a.journal.Moves {
		at := treePath{s.Tree, dirOf(s.Path)}
		if has[at] {
			continue
		}
		has[at] = true
		dir, name, err := a.parent(at.Tree, at.Path)
		var n node
		if err == nil {
			n, err = statAt(dir, name)
		}
		if err != nil {
			return failed("statx", a.full(at.Tree, at.Path), err)
		}
		if n.typ != Dir || n.mode&0o700 == 0o700 || n.uid != uint32(os.Geteuid()) {
			continue
		}
		is := &attrs{Mode: n.mode, UID: n.uid, GID: n.gid}
		a.journal.Modes = append(a.journal.Modes, &modeStep{Tree: at.Tree, Path: at.Path, Old: n.ident(), Before: is, After: is})
	}
	return nil
}

func (c *checking) conflict(path, reason string, hard bool) {
	if hard || !c.options.Force {
		c.conflicts.add(Conflict{Path: c.full(c.tree, path), Reason: reason, Hard: hard})
	}
}

// found is what the real tree has at the path of a change.
type found struct {
	Base
	node
	dir  int
	name string
}

// one compares a change with the real tree.
func (c *checking) one(i int) error {
	e := &c.run.m.Changes[i]
	inUnit := c.unit != nil && below(e.Path, c.unit.Path)
	if !inUnit {
		c.unit = nil
	}
	var real found
	var err error
	real.dir, real.name, err = c.parent(c.tree, e.Path)
	switch {
	case err == nil:
		real.Base, real.node, err = look(real.dir, real.name)
		if err != nil {
			return failed("read", c.full(c.tree, e.Path), err)
		}
	case gone(err) || err == unix.ELOOP && inUnit:
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
	already, err := c.already(e, i, &real)
	if err != nil {
		return failed("read", c.full(c.tree, e.Path), err)
	}
	if why := differs(e, real.Base); !already && why != "" {
		c.conflict(e.Path, why, false)
	}
	left := e.leftOut(real.mode, inUnit || e.reowned(real.uid, real.gid))
	if left {
		c.result.NoSetID++
	}
	switch {
	case inUnit:
		c.unit.members = append(c.unit.members, i)
	case already && left && e.Kind == ModeOnly:
		c.result.Nothing++
	case !already:
		return c.step(i, &real)
	}
	return nil
}

// already: the real tree has what the run left.
func (c *checking) already(e *Entry, i int, real *found) (bool, error) {
	if real.Type != e.now() {
		return false, nil
	}
	switch {
	case real.Type == Absent:
		return true, nil
	case e.Kind == ModeOnly:
		before, after, err := attrsOf(e, real)
		if err != nil {
			return false, err
		}
		return before.Mode == after.Mode && !after.Extend && (!after.Owner || before.UID == after.UID && before.GID == after.GID), nil
	case real.Type == Symlink:
		return real.Target == e.Target, nil
	case real.Type == Dir:
		return real.Mode == e.wanted() || c.parents[i], nil
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
func (c *checking) step(i int, real *found) error {
	e := &c.run.m.Changes[i]
	s := &move{Tree: c.tree, Path: e.Path, was: real.node, entry: i}
	if real.typ != Absent {
		s.Old = real.ident()
	}
	what := e.now()
	switch {
	case e.Kind == ModeOnly && real.Type != e.Type:
		c.conflict(e.Path, "is no "+string(e.Type)+" any more", true)
		return nil
	case e.Kind == ModeOnly && real.Type == File && (real.nlink > 1 || c.relinks(e, real)):
		// Its other names, who knows where, aren't part of the change: as in the
		// overlay, it becomes a file of its own, or one with those that were applied.
		s.Op, s.content = opSwap, real.Digest
	case e.Kind == ModeOnly, what == Dir && real.Type == Dir:
		before, after, err := attrsOf(e, real)
		c.journal.Modes = append(c.journal.Modes, &modeStep{Tree: c.tree, Path: e.Path, Old: s.Old, Before: before, After: after})
		return failed("getxattr", c.full(c.tree, e.Path), err)
	case what == Absent:
		s.Op = opRemove
	case real.Type == Absent:
		s.Op = opPut
	default:
		s.Op = opSwap
	}
	if s.Op == opSwap && real.Type == File && e.Base.Type == File && e.Type == File {
		// Attributes that it has got since, and that the new one hasn't, would be lost.
		if now := attributesAt(real.dir, real.name); now != e.Base.Xattrs && now != digestXattrs(e.Xattrs) {
			c.conflict(e.Path, "has other attributes", false)
		}
	}
	s.Temp = tempPrefix + rand.Text()[:16]
	if what == Dir || real.Type == Dir {
		c.unit = s
	}
	if real.Type == Dir {
		if err := c.unknown(c.tree, c.roots[c.tree], e.Path, e.Path, c.known, c.conflict); err != nil {
			return err
		}
	}
	c.journal.Moves = append(c.journal.Moves, s)
	return nil
}

// attrsOf is what a mode step finds, and what it sets.
func attrsOf(e *Entry, real *found) (before, after *attrs, err error) {
	before = &attrs{Mode: real.mode, UID: real.uid, GID: real.gid, Owner: isRoot()}
	after = &attrs{Mode: e.given(real.mode, e.reowned(real.uid, real.gid)), UID: e.UID, GID: e.GID, Owner: isRoot()}
	if real.typ == Symlink {
		before.Mode, after.Mode = 0, 0
		return before, after, nil
	}
	fd, _, err := openPath(real.dir, real.name)
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

// countParted counts the files with several names of which not all are replaced or
// removed: the others, outside the tree perhaps, keep the old content, as they did in
// the overlay. To write in place instead would change names that the run never saw
// changed, and couldn't be undone.
func (a *applying) countParted() {
	names := map[inode]uint64{}
	for _, s := range a.journal.Moves {
		if s.was.typ == File {
			names[s.was.inode()]++
		}
	}
	for _, s := range a.journal.Moves {
		if s.Op == opSwap && s.was.typ == File && a.entry(s).now() == File && s.was.nlink > names[s.was.inode()] {
			a.result.Parted++
		}
	}
}

// relinks: a file that gets another mode alone, where another name of it was applied before
// with that mode. It becomes a link of that.
func (c *checking) relinks(e *Entry, real *found) bool {
	if e.given(real.mode, e.reowned(real.uid, real.gid)) != e.wanted() {
		return false
	}
	for _, path := range c.run.m.linkedTo(e.first()) {
		if fd, err := c.linkable(e, path, real.Digest, nil); err == nil {
			_ = unix.Close(fd)
			return true
		}
	}
	return false
}
