package hide

import (
	"io/fs"
	"path"
	"slices"
	"time"

	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/view"
)

// Sockets hides those of the host's that lie in a tree which is shown: that a mount
// is read-only keeps nobody from connecting. One that the caller names itself stays.
// An overlay leads to none, since there a file is another one than below it.
//
// The kernel lists them with the names that they were bound to, and the numbers of their files.
// Mostly the file is still there by that name, and nothing is searched. What has another
// name now, or one more, is searched for by its number, first beside the old one, then in the trees
// that are shown, within bounds; there only what this user made. What is bound
// in another network namespace, or later, is not found, but by the searches
// for that, for secrets and for denied patterns, where a tree is read-only.
func (c *Hider) Sockets() error {
	if c.In.Bare {
		return nil // what is hidden there is a rule of Landlock's
	}
	c.SocketsLater = slices.ContainsFunc(c.Grants, mayHoldSockets)
	for _, name := range c.passed {
		c.hideSocket(name)
	}
	list, err := c.Host.Sockets()
	if err != nil {
		const names = "/proc/self/net/unix"
		text, err := c.Host.ReadFile(names, 16<<20)
		if err != nil {
			c.Notice("unix sockets of the host's in trees that are shown can be connected to: they can't be listed (" + names + ")")
			return nil
		}
		if list = hostfs.BoundSockets(text); len(list) > 0 {
			c.SocketsMissed = "the kernel tells only the names that they were bound to"
		}
	}
	if len(list) > 0 {
		c.listed(list)
	}
	return nil
}

// mayHoldSockets says whether a grant shows a tree of the caller's in which there may be any.
func mayHoldSockets(g view.Grant) bool {
	return !g.System && (g.Access == view.Read || g.Access == view.Write) && g.Src.Mode.IsDir()
}

// cwds are the directories that this user's processes are in, and those of others that
// can be seen: where a daemon has bound something, most stay.
func (c *Hider) cwds() map[string]bool {
	dirs := map[string]bool{}
	entries, err := c.Host.ReadDir("/proc")
	if err != nil {
		return dirs
	}
	for _, e := range entries {
		if e.Name[0] < '0' || e.Name[0] > '9' {
			continue
		}
		if dir, err := c.Host.Readlink("/proc/" + e.Name + "/cwd"); err == nil && path.IsAbs(dir) {
			dirs[dir] = true
		}
	}
	return dirs
}

// noteSocket notes a socket that a search came across. In a tree that is writable it may be a
// former one that the target means to replace: there only what the kernel lists is hidden.
func (c *Hider) noteSocket(g *view.Grant, outside string) {
	if g.Access == view.Read {
		c.passed = append(c.passed, outside)
	}
}

func (c *Hider) hideSocket(outside string) {
	for _, at := range c.ShownAt(outside) {
		g := c.Nearest(at)
		if g == nil || g.Access == view.Private || g.Access == view.Overlay || c.Named(at, view.Private) {
			continue
		}
		c.Hide(at, "a socket of the host's", view.Origin{})
		c.AcceptAny(at)
	}
}

// shownDevices are those of trees of which something is shown as itself, and of what is
// mounted in them.
func shownDevices(t hostfs.Mounts, grants []view.Grant) map[uint32]bool {
	devices := map[uint32]bool{}
	for i := range grants {
		g := &grants[i]
		if g.Access != view.Read && g.Access != view.Write || !g.Src.Mode.IsDir() {
			continue
		}
		if m := t.Covering(g.Src.Path); m != nil {
			devices[m.Dev] = true
		}
		for j := range t {
			if hostfs.Below(t[j].At, g.Src.Path) {
				devices[t[j].Dev] = true
			}
		}
	}
	return devices
}

// maxBound is how many names that were bound to sockets are looked for, of the
// relative ones together with the directories that they may be relative to.
const maxBound = 100_000

// listed hides what the kernel lists.
func (c *Hider) listed(list []hostfs.Socket) {
	s := bound{c: c, mounts: c.HostMounts(), dirs: map[string]string{}}
	shown, known := shownDevices(s.mounts, c.Grants), map[[2]uint32]bool{}
	relative := false
	for i := range list {
		one := &sought{Socket: list[i]}
		if one.Ino != 0 {
			// Of those who were accepted the kernel tells the name and the file of who did.
			numbers := [2]uint32{one.Dev, one.Ino}
			if s.mounts != nil && !shown[one.Dev] || known[numbers] {
				continue
			}
			known[numbers] = true
		}
		s.left = append(s.left, one)
		if path.IsAbs(one.Name) {
			s.byName(one)
		} else {
			relative = true
		}
	}
	if relative {
		s.relative()
	}
	s.left = slices.DeleteFunc(s.left, (*sought).found)
	if len(s.left) == 0 || c.In.SocketsHeld {
		return
	}
	s.beside()
	s.left = slices.DeleteFunc(s.left, (*sought).found)
	if c.In.AccessUID != 0 && slices.ContainsFunc(s.left, s.foreign) {
		s.left = slices.DeleteFunc(s.left, s.foreign)
		c.SocketsMissed = "what another user has bound, and is not where it was bound, is not searched for"
	}
	if !s.search() {
		c.SocketsMissed = "one is not where it was bound, and not all that is shown could be searched for it"
	}
}

// sought is a socket, and which of its file's names were seen.
type sought struct {
	hostfs.Socket
	seen  []string // on its device
	names uint64   // that there are
	shut  bool     // where this user can't get
}

// isNamed notes a name, which may be one that was seen already.
func (o *sought) isNamed(m *hostfs.Mount, at string, f *hostfs.File) {
	o.names = max(f.Names, 1)
	if of := m.Of(at); !slices.Contains(o.seen, of) {
		o.seen = append(o.seen, of)
	}
}

// found says whether it has no other name, as far as anybody can tell.
func (o *sought) found() bool {
	return o.Ino == 0 || o.shut || len(o.seen) > 0 && uint64(len(o.seen)) >= o.names
}

// bound is what the kernel lists, while it is looked for.
type bound struct {
	c      *Hider
	mounts hostfs.Mounts
	dirs   map[string]string // canonical names of directories; "" if out of reach
	left   []*sought
}

// foreign: somebody else made it, who can't have put it into most trees of this user's.
func (s *bound) foreign(one *sought) bool {
	return one.UID >= 0 && one.UID != int64(s.c.In.AccessUID)
}

// beside looks in the directory that a socket was bound in: some bind to a name of their own first,
// and give the file another one then.
func (s *bound) beside() {
	done := map[string]bool{}
	for _, one := range s.left {
		dir, _ := path.Split(one.Name)
		at := s.dirs[dir]
		if at == "" || at == shut || done[at] {
			continue
		}
		done[at] = true
		entries, err := s.c.Host.ReadDir(at)
		if err != nil || len(entries) > MaxSocketSearch {
			continue
		}
		for _, e := range entries {
			if e.Type == fs.ModeSocket {
				s.at(path.Join(at, e.Name))
			}
		}
	}
}

// at holds a socket's file against all that are sought.
func (s *bound) at(name string) {
	for _, one := range s.left {
		if one.Ino != 0 {
			s.is(one, name)
		}
	}
}

// byName hides what has the name that a socket was bound to, and whatever it is: the
// socket may have been bound anew since it was listed.
func (s *bound) byName(one *sought) {
	if hostfs.Under(one.Name, "/proc") { // of which each process has its own
		return
	}
	dir, base := path.Split(one.Name)
	at, asked := s.dirs[dir]
	if !asked {
		f, err := s.c.Host.Resolve(dir)
		switch {
		case err == nil:
			at = f.Path
		case hostfs.Denied(err):
			at = shut
		}
		s.dirs[dir] = at
	}
	switch at {
	case "":
	case shut:
		one.shut = true
	default:
		at = path.Join(at, base)
		s.c.hideSocket(at)
		s.is(one, at)
	}
}

// shut is a directory that this user can't search. What was bound there is taken for being there.
const shut = "\x00"

// is says whether a canonical path is a name of the file that a socket was bound to, and
// hides it then, also where other mounts show it.
func (s *bound) is(one *sought, at string) {
	f, err := s.c.Host.Lstat(at)
	if hostfs.Denied(err) {
		one.shut = true
		return
	}
	if err != nil || f.Mode.Type() != fs.ModeSocket {
		return
	}
	m := s.mounts.Covering(at)
	if one.Ino != 0 && (m != nil && m.Dev != one.Dev || (m == nil || m.Numbered) && uint32(f.Ino) != one.Ino) {
		return
	}
	one.isNamed(m, at, &f)
	s.c.hideSocket(at)
	for _, other := range s.mounts.Aliases(m, at) {
		if o, err := s.c.Host.Lstat(other); err == nil && o.Dev == f.Dev && o.Ino == f.Ino {
			s.c.hideSocket(other)
		}
	}
}

// relative looks for what was bound by a name that doesn't say where: in the directories
// that processes are in now, and at the top of what is shown.
func (s *bound) relative() {
	c := s.c
	dirs := c.cwds()
	for i := range c.Grants {
		if g := &c.Grants[i]; g.Access != view.Private && !g.System {
			dirs[g.Src.Path] = true
		}
	}
	names := map[string][]*sought{}
	for _, one := range s.left {
		if !path.IsAbs(one.Name) {
			names[one.Name] = append(names[one.Name], one)
		}
	}
	if len(dirs)*len(names) > maxBound {
		c.Notice("unix sockets of the host's that were bound by relative names are not looked for by these: there are too many")
		return
	}
	for dir := range dirs {
		for name, all := range names {
			at := path.Join(dir, name)
			if f, err := c.Host.Lstat(at); err != nil || f.Mode.Type() != fs.ModeSocket {
				continue
			}
			f, err := c.Host.Resolve(at) // its directory may be reached by a link
			if err != nil {
				continue
			}
			for _, one := range all {
				s.is(one, f.Path)
			}
		}
	}
}

// Some host has a socket at any time whose file is gone, or lies where this mount namespace
// doesn't reach: the search for it is part of every start there, and so it is kept short.
const (
	MaxSocketSearch     = 5_000 // names in directories
	maxSocketSearchTime = 10 * time.Millisecond
)

// socketTree is a directory of a search.
type socketTree struct {
	g       *view.Grant
	mount   *hostfs.Mount // nil is not known
	outside string
}

// search looks for what is left in the trees that the caller works in, what lies near their tops first; whole
// says whether nothing was left out.
func (s *bound) search() (whole bool) {
	c := s.c
	grants := slices.Clone(c.Grants) // what is hidden changes them
	left := map[uint32][]*sought{}
	for _, one := range s.left {
		left[one.Ino] = append(left[one.Ino], one)
	}
	trees := s.trees(grants)
	until, seen := c.now().Add(maxSocketSearchTime), 0
	whole = true
	for len(trees) > 0 && slices.ContainsFunc(s.left, func(o *sought) bool { return !o.found() }) {
		t := trees[0]
		trees = trees[1:]
		inside := hostfs.Rebase(t.outside, t.g.Src.Path, t.g.Dst)
		if n := view.Nearest(grants, inside); n == nil || n.Dst != t.g.Dst || c.Masked(inside) {
			continue // something else is shown here
		}
		entries, err := c.Host.ReadDir(t.outside)
		if err != nil {
			whole = whole && !hostfs.Denied(err) // names in it may be reached without being listed
			continue
		}
		if seen += len(entries); seen > MaxSocketSearch || c.now().After(until) {
			return false
		}
		for _, e := range entries {
			at := path.Join(t.outside, e.Name)
			switch {
			case e.Type.IsDir() && !s.mounts.Point(at):
				trees = append(trees, socketTree{t.g, t.mount, at})
			case e.Type == fs.ModeSocket:
				s.came(t, at, left)
			}
		}
	}
	return whole
}

// trees are where a search begins: at the top of what the caller works in, and of what is mounted there,
// where a device is one of those that are sought.
func (s *bound) trees(grants []view.Grant) (trees []socketTree) {
	on := func(m *hostfs.Mount) bool {
		return slices.ContainsFunc(s.left, func(o *sought) bool { return o.Dev == m.Dev })
	}
	for i := range grants {
		g := &grants[i]
		if !mayHoldSockets(*g) || g.Searched == 0 && !g.Git {
			continue // tool chains are large, and nobody binds there
		}
		if m := s.mounts.Covering(g.Src.Path); m == nil || on(m) {
			trees = append(trees, socketTree{g, m, g.Src.Path})
		}
		for j := range s.mounts {
			if m := &s.mounts[j]; hostfs.Below(m.At, g.Src.Path) && on(m) {
				trees = append(trees, socketTree{g, m, m.At})
			}
		}
	}
	return trees
}

// came hides a socket that the search came across, if it is one of those that are sought.
func (s *bound) came(t socketTree, at string, left map[uint32][]*sought) {
	f, err := s.c.Host.Lstat(at)
	if err != nil {
		return
	}
	for _, one := range left[uint32(f.Ino)] {
		if t.mount == nil || t.mount.Dev == one.Dev {
			one.isNamed(t.mount, at, &f)
			s.c.hideSocket(at)
			return
		}
	}
	if t.g.Access == view.Read { // as for other searches
		s.c.hideSocket(at)
	}
}
