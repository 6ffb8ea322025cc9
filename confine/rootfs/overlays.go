package rootfs

import (
	"strconv"

	"github.com/confine-run/confine/confine/hostfs"
	"github.com/confine-run/confine/confine/view"
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
