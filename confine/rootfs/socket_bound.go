package rootfs

import (
	"io/fs"
	"path"
	"slices"

	"github.com/confine-run/confine/confine/hostfs"
)

// maxBound is how many names that were bound to sockets are looked for, of the
// relative ones together with the directories that they may be relative to.
const maxBound = 100_000

// listed hides what the kernel lists.
func (c *compiler) listed(list []hostfs.Socket) {
	s := bound{c: c, mounts: c.mounts(), dirs: map[string]string{}}
	shown, known := shownDevices(s.mounts, c.grants), map[[2]uint32]bool{}
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
	if len(s.left) == 0 || c.in.SocketsHeld {
		return
	}
	s.beside()
	s.left = slices.DeleteFunc(s.left, (*sought).found)
	if c.in.AccessUID != 0 && slices.ContainsFunc(s.left, s.foreign) {
		s.left = slices.DeleteFunc(s.left, s.foreign)
		c.table.SocketsMissed = "what another user has bound, and is not where it was bound, is not searched for"
	}
	if !s.search() {
		c.table.SocketsMissed = "one is not where it was bound, and not all that is shown could be searched for it"
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
	c      *compiler
	mounts hostfs.Mounts
	dirs   map[string]string // canonical names of directories; "" if out of reach
	left   []*sought
}

// foreign: somebody else made it, who can't have put it into most trees of this user's.
func (s *bound) foreign(one *sought) bool {
	return one.UID >= 0 && one.UID != int64(s.c.in.AccessUID)
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
		entries, err := s.c.host.ReadDir(at)
		if err != nil || len(entries) > maxSocketSearch {
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
		f, err := s.c.host.Resolve(dir)
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
	f, err := s.c.host.Lstat(at)
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
		if o, err := s.c.host.Lstat(other); err == nil && o.Dev == f.Dev && o.Ino == f.Ino {
			s.c.hideSocket(other)
		}
	}
}

// relative looks for what was bound by a name that doesn't say where: in the directories
// that processes are in now, and at the top of what is shown.
func (s *bound) relative() {
	c := s.c
	dirs := c.cwds()
	for i := range c.grants {
		if g := &c.grants[i]; g.access != private && !g.system {
			dirs[g.src.Path] = true
		}
	}
	names := map[string][]*sought{}
	for _, one := range s.left {
		if !path.IsAbs(one.Name) {
			names[one.Name] = append(names[one.Name], one)
		}
	}
	if len(dirs)*len(names) > maxBound {
		c.notice("unix sockets of the host's that were bound by relative names are not looked for by these: there are too many")
		return
	}
	for dir := range dirs {
		for name, all := range names {
			at := path.Join(dir, name)
			if f, err := c.host.Lstat(at); err != nil || f.Mode.Type() != fs.ModeSocket {
				continue
			}
			f, err := c.host.Resolve(at) // its directory may be reached by a link
			if err != nil {
				continue
			}
			for _, one := range all {
				s.is(one, f.Path)
			}
		}
	}
}
