package rootfs

import (
	"path"
	"slices"

	"github.com/confine-run/confine/confine/hostfs"
)

// sockets hides those of the host's that lie in a tree which is shown: that a mount
// is read-only keeps nobody from connecting. One that the caller names itself stays.
// An overlay leads to none, since there a file is another one than below it.
//
// The kernel lists them with the names that they were bound to, and the numbers of their files.
// Mostly the file is still there by that name, and nothing is searched. What has another
// name now, or one more, is searched for by its number, first beside the old one, then in the trees
// that are shown, within bounds; there only what this user made. What is bound
// in another network namespace, or later, is not found, but by the searches
// for that, for secrets and for denied patterns, where a tree is read-only.
func (c *compiler) sockets() error {
	if c.in.Bare {
		return nil // what is hidden there is a rule of Landlock's
	}
	c.table.SocketsLater = slices.ContainsFunc(c.grants, grant.mayHoldSockets)
	for _, name := range c.lying {
		c.hideSocket(name)
	}
	list, err := c.host.Sockets()
	if err != nil {
		const names = "/proc/self/net/unix"
		text, err := c.host.ReadFile(names, 16<<20)
		if err != nil {
			c.notice("unix sockets of the host's in trees that are shown can be connected to: they can't be listed (" + names + ")")
			return nil
		}
		if list = hostfs.BoundSockets(text); len(list) > 0 {
			c.table.SocketsMissed = "the kernel tells only the names that they were bound to"
		}
	}
	if len(list) > 0 {
		c.listed(list)
	}
	return nil
}

// mayHoldSockets says whether it shows a tree of the caller's in which there may be any.
func (g grant) mayHoldSockets() bool {
	return !g.system && (g.access == read || g.access == write) && g.src.Mode.IsDir()
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
		c.hide(at, "a socket of the host's", Origin{})
		if i, hidden := c.maskAt[at]; hidden {
			c.masks[i].file = hostfs.File{} // whatever is there when the child gets there, if anything
		}
	}
}
