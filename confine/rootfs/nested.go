package rootfs

import (
	"slices"
	"strconv"
	"strings"

	"github.com/confine-run/confine/confine/hostfs"
)

// Nested is a tree that was to be an overlay, and is read-only because of what is
// mounted below it.
type Nested struct {
	Path  string // outside
	Mount string // the first of what is mounted there, outside
	// Asked: the caller wanted the overlay, and no discovery.
	Asked bool
}

// nested is about overlays of trees with mounts below. An overlay shows none of these:
// its lower directory is one mount. In a user namespace of the run's own the kernel
// refuses it, since what they cover would come to light; then the tree is read-only, with
// everything in it. Otherwise each is shown where it is, read-only.
func (c *compiler) nested() error {
	if c.in.Bare {
		return nil // no overlay either way
	}
	var shown []grant
	for i := range c.grants {
		g := &c.grants[i]
		if g.access != overlay {
			continue
		}
		points := c.mounts().Nested(g.src.Path)
		if len(points) == 0 {
			continue // or not known; then the child will see, and say so
		}
		if c.in.OwnUserns || c.host.Held(g.src.Path) {
			c.flatten(g, points)
			continue
		}
		if g.root {
			c.notice(g.why + ": what is mounted below it isn't shown: " + Some(points))
			continue
		}
		for _, p := range points {
			if s, ok := c.nestedGrant(g, p); ok {
				shown = append(shown, s)
				c.table.Beside = append(c.table.Beside, p)
			}
		}
	}
	if len(shown) > 0 {
		c.grants = append(c.grants, shown...)
		slices.SortStableFunc(c.grants, func(a, b grant) int { return hostfs.ComparePaths(a.dst, b.dst) })
	}
	return nil
}

// flatten makes an overlay read-only.
func (c *compiler) flatten(g *grant, points []string) {
	n := Nested{Path: g.src.Path, Mount: points[0], Asked: g.reviewed() || g.root}
	c.table.Nested = append(c.table.Nested, n)
	g.why += "; no overlay but read-only, because something is mounted below: " + Some(points)
	if g.root {
		c.table.Root.ReadOnly = true
	} else {
		g.access = read
	}
	if old, other, ok := strings.Cut(g.instead, "\x00"); ok {
		if name, value, _ := strings.Cut(old, "="); c.table.Env[name] == value {
			c.table.Env[name] = strings.TrimPrefix(other, name+"=")
		}
	}
	if n.Asked {
		c.notice(strconv.Quote(n.Path) + " is read-only and no overlay, because something is mounted below it: " + Some(points))
	}
}

// nestedGrant shows read-only what is mounted below an overlay, unless something else
// stands there that was asked for.
func (c *compiler) nestedGrant(g *grant, point string) (grant, bool) {
	dst := hostfs.Rebase(point, g.src.Path, g.dst)
	if nearest(c.grants, dst) != g {
		return grant{}, false
	}
	f, err := c.host.Lstat(point)
	if err != nil {
		return grant{}, false // out of this user's reach, and of the target's
	}
	return grant{dst: dst, src: f, access: read, optional: true, searched: g.searched,
		why: "mounted below an overlay, which has no part of it"}, true
}

// Some names the first of several paths.
func Some(paths []string) string {
	const most = 3
	text := make([]string, 0, most)
	for _, p := range paths[:min(len(paths), most)] {
		text = append(text, strconv.Quote(p))
	}
	s := strings.Join(text, ", ")
	if n := len(paths) - most; n > 0 {
		s += " and " + strconv.Itoa(n) + " more"
	}
	return s
}
