package rootfs

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// maxBound is how many names that were bound to sockets are looked for, of the
// relative ones together with the directories that they may be relative to.
const maxBound = 100_000

// sockets hides those of the host's that lie in a tree which is shown: that a mount
// is read-only keeps nobody from connecting. One that the caller names itself stays.
// An overlay leads to none, since there a file is another one than below it.
//
// The kernel lists them by the names that they were bound to. A relative one is looked
// for in the directories that processes are in now, and at the top of what is shown.
// Those bound by way of /proc, in another network namespace, or later are not found, but by
// the search for secrets and denied patterns, where a tree is read-only and searched anyway.
func (c *compiler) sockets() error {
	if c.in.Bare {
		return nil // what is hidden there is a rule of Landlock's
	}
	c.table.SocketsLater = slices.ContainsFunc(c.grants, func(g grant) bool {
		return !g.system && (g.access == read || g.access == write) && g.src.Mode.IsDir()
	})
	for _, name := range c.lying {
		c.hideSocket(name)
	}
	const list = "/proc/self/net/unix"
	text, err := c.host.ReadFile(list, 16<<20)
	if err != nil {
		c.notice("unix sockets of the host's in trees that are shown can be connected to: they can't be listed (" + list + ")")
		return nil
	}
	dirs := map[string]string{} // canonical; "" if out of reach
	relative := map[string]bool{}
	for line := range strings.Lines(text) {
		name := boundTo(line)
		switch {
		case name == "":
			continue
		case !path.IsAbs(name):
			relative[name] = true
			continue
		}
		dir, base := path.Split(name)
		at, known := dirs[dir]
		if !known {
			if f, err := c.host.Resolve(dir); err == nil {
				at = f.Path
			}
			dirs[dir] = at
		}
		if at != "" {
			c.hideSocket(path.Join(at, base))
		}
	}
	if len(relative) > 0 {
		c.relativeSockets(relative)
	}
	return nil
}

// boundTo is the name of a file in a line of the kernel's list, or "".
func boundTo(line string) string {
	const columns = 7 // before the name
	rest := line
	for range columns {
		rest = strings.TrimLeft(rest, " ")
		i := strings.IndexByte(rest, ' ')
		if i < 0 {
			return ""
		}
		rest = rest[i:]
	}
	name := strings.TrimSuffix(strings.TrimPrefix(rest, " "), "\n")
	if strings.HasPrefix(name, "@") || path.IsAbs(name) && under(name, "/proc") { // of which each process has its own
		return ""
	}
	return name
}

// relativeSockets hides what was bound by a name that doesn't say where.
func (c *compiler) relativeSockets(names map[string]bool) {
	dirs := c.cwds()
	for i := range c.grants {
		if g := &c.grants[i]; g.access != private && !g.system {
			dirs[g.src.Path] = true
		}
	}
	if len(dirs)*len(names) > maxBound {
		c.notice("unix sockets of the host's that were bound by relative names are not hidden: there are too many")
		return
	}
	for dir := range dirs {
		for name := range names {
			at := path.Join(dir, name)
			if len(c.shownAt(at)) == 0 {
				continue
			}
			// Its directory may be reached by a link, and what is there be something else.
			if f, err := c.host.Resolve(at); err == nil && f.Mode.Type() == fs.ModeSocket {
				c.hideSocket(f.Path)
			}
		}
	}
}

// cwds are the directories that this user's processes are in, and those of others that
// can be seen: where a daemon has bound something, most stay.
func (c *compiler) cwds() map[string]bool {
	dirs := map[string]bool{}
	entries, err := c.host.ReadDir("/proc")
	if err != nil {
		return dirs
	}
	for _, e := range entries {
		if e.Name[0] < '0' || e.Name[0] > '9' {
			continue
		}
		if dir, err := c.host.Readlink("/proc/" + e.Name + "/cwd"); err == nil && path.IsAbs(dir) {
			dirs[dir] = true
		}
	}
	return dirs
}

// lies notes a socket that a search came across. In a tree that is writable it may be a
// former one that the target means to replace: there only what the kernel lists is hidden.
func (c *compiler) lies(g *grant, outside string) {
	if g.access == read {
		c.lying = append(c.lying, outside)
	}
}

func (c *compiler) hideSocket(outside string) {
	for _, at := range c.shownAt(outside) {
		g := nearest(c.grants, at)
		named := slices.ContainsFunc(c.asked, func(g grant) bool { return g.explicit && g.dst == at })
		if g == nil || g.access == private || g.access == overlay || named {
			continue
		}
		c.hide(at, "a socket of the host's")
		for i := range c.masks {
			if c.masks[i].dst == at {
				c.masks[i].file = File{} // whatever is there when the child gets there, if anything
			}
		}
	}
}
