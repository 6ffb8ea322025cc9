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
	a.journal.order()
	err := a.hold()
	a.journal.order()
	return err
}

// hold makes a step of each directory in which something is to be done and that its
// owner closed (0555): after loosen and until the modes are set it is open, as for cp and
// tar. The step's two sides are the same, and being in the journal it is closed after a crash
// too. Root needs none of this, and another user's directory stays as it is.
func (a *applying) hold() error {
	if isRoot() {
		return nil
	}
	has := map[applied]bool{}
	for _, s := range a.journal.modes() {
		has[applied{s.Tree, s.Path}] = true
	}
	for _, s := range a.journal.moves() {
		at := applied{s.Tree, s.inDir()}
		if has[at] {
			continue
		}
		has[at] = true
		dir, name, err := a.parent(at.Tree, at.Path)
		if err != nil {
			return failed("openat2", a.full(at.Tree, at.Path), err)
		}
		n, err := statAt(dir, name)
		if err != nil {
			return failed("fstatat", a.full(at.Tree, at.Path), err)
		}
		if n.typ != Dir || n.mode&0o700 == 0o700 || n.uid != uint32(os.Geteuid()) {
			continue
		}
		is := &attrs{Mode: n.mode, UID: n.uid, GID: n.gid}
		a.journal.Steps = append(a.journal.Steps, &step{Tree: at.Tree, Op: opMode, Path: at.Path, Old: ident{n.ino, born(dir, name)},
			Before: is, After: is, entry: -1, was: n})
	}
	return nil
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

// countParted counts the files with several names of which not all are replaced or
// removed: the others, outside the tree perhaps, keep the old content, as they did in
// the overlay. To write in place instead would change names that the run never saw
// changed, and couldn't be undone.
func (a *applying) countParted() {
	names := map[inode]uint64{}
	for _, s := range a.journal.Steps {
		if (s.Op == opSwap || s.Op == opRemove) && s.was.typ == File {
			names[inode{s.was.dev, s.was.ino}]++
		}
	}
	for _, s := range a.journal.Steps {
		if s.Op == opSwap && s.was.typ == File && a.run.m.Changes[s.entry].now() == File && s.was.nlink > names[inode{s.was.dev, s.was.ino}] {
			a.result.Parted++
		}
	}
}

// relinks: a file that gets another mode alone, where another name of it was applied before
// with that mode. It becomes a link of that.
func (c *checking) relinks(e *Entry, real Base, n node) bool {
	if e.Kind != ModeOnly || real.Type != File || e.given(n.mode, e.reowned(n.uid, n.gid)) != e.wanted() {
		return false
	}
	for _, path := range c.run.m.linkedTo(e.first()) {
		if fd, _, err := c.linkable(e, path, real.Digest, nil); err == nil {
			_ = unix.Close(fd)
			return true
		}
	}
	return false
}
