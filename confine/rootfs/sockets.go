package rootfs

import (
	"path"
	"slices"
	"strings"
)

// sockets hides those of the host's that lie in a tree which is shown: that a mount
// is read-only keeps nobody from connecting. One that the caller names itself stays.
// An overlay leads to none, since there a file is another one than below it.
//
// The kernel lists them by the names that they were bound to. Those with a relative
// name or one by way of /proc, of another network namespace, or bound later are not found.
func (c *compiler) sockets() error {
	if c.in.Bare {
		return nil // no rule of Landlock's is about connecting
	}
	const list = "/proc/self/net/unix"
	text, err := c.host.ReadFile(list, 16<<20)
	if err != nil {
		c.notice("unix sockets of the host's in trees that are shown can be connected to: they can't be listed (" + list + ")")
		return nil
	}
	dirs := map[string]string{} // canonical; "" if out of reach
	for line := range strings.Lines(text) {
		name := boundTo(line)
		if name == "" {
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
	return nil
}

// boundTo is the absolute name in a line of the kernel's list, or "".
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
	if !path.IsAbs(name) || under(name, "/proc") { // of which each process has its own
		return ""
	}
	return name
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
