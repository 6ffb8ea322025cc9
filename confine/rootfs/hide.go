package rootfs

import (
	"path"
	"slices"

	"github.com/confine-run/confine/confine/hostfs"
)

// mask is one path inside that is hidden.
type mask struct {
	dst string
	// open: something below it is shown, so what hides it must be a directory
	// in which mount points can be made.
	open bool
	file hostfs.File // what is hidden
}

// hide takes a path inside out of what is visible. What the caller named below
// it is more specific, and stays.
func (c *compiler) hide(at, why string, by Origin) {
	if _, known := c.maskAt[at]; known {
		return
	}
	c.grants = slices.DeleteFunc(c.grants, func(g grant) bool { return g.dst == at })
	open := c.reinstate(at)
	c.ruleOf(by, at, AccessHidden, why)
	if g := nearest(c.grants, at); g == nil || g.access == private {
		return // with the grant itself gone, nothing of the caller's is there
	}
	c.maskAt[at] = len(c.masks)
	c.masks = append(c.masks, mask{at, open, c.planned(at)})
}

// planned is what is at a path inside now, so that the child can tell when it was
// replaced. An overlay gives files other numbers: there only its being there counts.
func (c *compiler) planned(at string) (f hostfs.File) {
	g := nearest(c.grants, at)
	f, err := c.host.Lstat(g.at(at))
	if err != nil || g.beneath { // which may not be there, in the end
		return hostfs.File{}
	}
	if g.access == overlay {
		f.Dev = 0
	}
	return f
}

// reinstate puts back what the caller named below a path, and what settle
// dropped because it was visible through what is hidden now.
func (c *compiler) reinstate(at string) (any bool) {
	for i := range c.asked {
		g := &c.asked[i]
		if !g.explicit || !hostfs.Below(g.dst, at) {
			continue
		}
		any = true
		if !slices.ContainsFunc(c.grants, func(k grant) bool { return k.dst == g.dst }) {
			c.grants = append(c.grants, *g)
		}
	}
	return any
}

// moot says whether nothing is left at a path that is hidden: what showed it is hidden
// itself since then, or something further up.
func (c *compiler) moot(p string) bool {
	g := nearest(c.grants, p)
	if g == nil || g.access == private {
		return true
	}
	for p != "/" {
		p = path.Dir(p)
		if _, hidden := c.maskAt[p]; hidden && len(g.dst) < len(p) {
			return true
		}
	}
	return false
}

// maskedAt says whether just this path is hidden.
func (c *compiler) maskedAt(p string) bool {
	_, hidden := c.maskAt[p]
	return hidden
}

// masked says whether a path inside is hidden: by the masks above it, of which there can be many.
func (c *compiler) masked(p string) bool {
	shown := 0
	if g := nearest(c.grants, p); g != nil {
		shown = len(g.dst)
	}
	for ; len(p) > shown; p = path.Dir(p) {
		if _, hidden := c.maskAt[p]; hidden {
			return true
		}
		if p == "/" {
			break
		}
	}
	return false
}
