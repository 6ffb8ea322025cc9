package rootfs

import (
	"slices"
	"strconv"
	"strings"

	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/quote"
	"github.com/confine-run/confine/internal/view"
)

// overlays refuses two of them that show one tree: each would have its own changes to
// the same files, and nobody could say which of them is to be applied.
func (c *compiler) overlays() error {
	for i := range c.Grants {
		g := &c.Grants[i]
		if !g.Reviewed() {
			continue
		}
		for j := range c.Grants {
			h := &c.Grants[j]
			if i == j || !h.Reviewed() || !c.alsoShows(g, h) {
				continue
			}
			option, name := h.Option, h.Src.Path
			if option == "" {
				option, name = g.Option, g.Src.Path
			}
			return &view.Error{Option: option, Path: name, Err: view.ErrTwice,
				Hint: "inside it is at " + strconv.Quote(g.Shows(h.Src.Path)) + " and at " + strconv.Quote(h.Dst) + ": leave one of them out, or show it read-only"}
		}
	}
	return nil
}

// alsoShows says whether g shows at another place what h is about.
func (c *compiler) alsoShows(g, h *view.Grant) bool {
	if g.Src.Dev == h.Src.Dev && g.Src.Ino == h.Src.Ino {
		return true
	}
	return hostfs.Under(h.Src.Path, g.Src.Path) && c.Nearest(g.Shows(h.Src.Path)).Dst == g.Dst
}

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
	if c.In.Bare {
		return nil // no overlay either way
	}
	var shown []view.Grant
	for i := range c.Grants {
		g := &c.Grants[i]
		if g.Access != view.Overlay {
			continue
		}
		points := c.HostMounts().Nested(g.Src.Path)
		if len(points) == 0 {
			continue // or not known; then the child will see, and say so
		}
		if c.In.OwnUserns || c.Host.Held(g.Src.Path) {
			c.flatten(g, points)
			continue
		}
		if g.Root {
			c.Notice(g.Why + ": what is mounted below it isn't shown: " + quote.Some(points))
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
		c.Grants = append(c.Grants, shown...)
		slices.SortStableFunc(c.Grants, func(a, b view.Grant) int { return hostfs.ComparePaths(a.Dst, b.Dst) })
	}
	return nil
}

// flatten makes an overlay read-only.
func (c *compiler) flatten(g *view.Grant, points []string) {
	n := Nested{Path: g.Src.Path, Mount: points[0], Asked: g.Reviewed() || g.Root}
	c.table.Nested = append(c.table.Nested, n)
	g.Why += "; no overlay but read-only, because something is mounted below: " + quote.Some(points)
	if g.Root {
		c.RootReadOnly = true
	} else {
		g.Access = view.Read
	}
	if old, other, ok := strings.Cut(g.Instead, "\x00"); ok {
		if name, value, _ := strings.Cut(old, "="); c.Env[name] == value {
			c.Env[name] = strings.TrimPrefix(other, name+"=")
		}
	}
	if n.Asked {
		c.Notice(strconv.Quote(n.Path) + " is read-only and no overlay, because something is mounted below it: " + quote.Some(points))
	}
}

// nestedGrant shows read-only what is mounted below an overlay, unless something else
// stands there that was asked for.
func (c *compiler) nestedGrant(g *view.Grant, point string) (view.Grant, bool) {
	dst := hostfs.Rebase(point, g.Src.Path, g.Dst)
	if c.Nearest(dst) != g {
		return view.Grant{}, false
	}
	f, err := c.Host.Lstat(point)
	if err != nil {
		return view.Grant{}, false // out of this user's reach, and of the target's
	}
	return view.Grant{Dst: dst, Src: f, Access: view.Read, Optional: true, Searched: g.Searched,
		Why: "mounted below an overlay, which has no part of it"}, true
}
