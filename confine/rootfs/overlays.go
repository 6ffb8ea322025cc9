package rootfs

import (
	"github.com/confine-run/confine/confine/hostfs"
)

// overlays refuses two of them that show one tree: each would have its own changes to
// the same files, and nobody could say which of them is to be applied.
func (c *compiler) overlays() error {
	for i := range c.grants {
		g := &c.grants[i]
		if !g.reviewed() {
			continue
		}
		for j := range c.grants {
			h := &c.grants[j]
			if i == j || !h.reviewed() || !c.alsoShows(g, h) {
				continue
			}
			option, name := h.option, h.src.Path
			if option == "" {
				option, name = g.option, g.src.Path
			}
			return &Error{Option: option, Path: name, Err: ErrTwice,
				Hint: "inside it is at " + quote(g.shows(h.src.Path)) + " and at " + quote(h.dst) + ": leave one of them out, or show it read-only"}
		}
	}
	return nil
}

// reviewed: what is written to it is told, kept and applied.
func (g *grant) reviewed() bool { return g.access == overlay && (g.option != "" || g.git) }

// alsoShows says whether g shows at another place what h is about.
func (c *compiler) alsoShows(g, h *grant) bool {
	if g.src.Dev == h.src.Dev && g.src.Ino == h.src.Ino {
		return true
	}
	return hostfs.Under(h.src.Path, g.src.Path) && nearest(c.grants, g.shows(h.src.Path)).dst == g.dst
}

// shows is where g shows a path of the caller's.
func (g *grant) shows(outside string) string {
	if !hostfs.Under(outside, g.src.Path) {
		return g.dst // the same directory by another name
	}
	return hostfs.Rebase(outside, g.src.Path, g.dst)
}
