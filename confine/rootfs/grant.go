package rootfs

import (
	"slices"

	"github.com/confine-run/confine/confine/hostfs"
)

// access is what can be done with a tree, in the order in which one beats the
// other at a tie.
type access uint8

const (
	private access = iota // empty and writable, nothing of the caller's
	read
	overlay
	write
)

func (a access) String() string {
	return [...]string{AccessPrivate, AccessRead, AccessOverlay, AccessWrite}[a]
}

// grant is one tree that is to be visible.
type grant struct {
	dst    string      // inside
	src    hostfs.File // outside; nothing when private
	mode   uint32      // when private
	size   int64       // when private: its own; 0 is a part of what all share
	access access
	// explicit: the caller named it. What a profile or discovery adds never
	// takes anything from that.
	explicit bool
	mount    bool // dst was chosen by the caller
	system   bool // nothing of the caller's: deny patterns aren't searched for here
	// searched says how many levels of it are searched for secrets by name; -1 is
	// all of them. What discovery adds isn't searched.
	searched int
	optional bool
	root     bool   // --rootfs
	beneath  bool   // what is made for the run at its place lies over it
	git      bool   // a git directory by itself
	ofWork   bool   // discovery found it in a tree of work
	option   string // to blame
	// instead: of an overlay, as handoff.Mount.Text.
	instead string
	why     string
	origin  Origin
}

// at is where a path inside comes from, when g is what shows it.
func (g *grant) at(inside string) string { return hostfs.Rebase(inside, g.dst, g.src.Path) }

// beats decides between two grants of the same path.
func (g *grant) beats(o *grant) bool {
	if g.mount != o.mount {
		return g.mount
	}
	if g.access != o.access {
		return g.access > o.access
	}
	return g.explicit && !o.explicit
}

// nearest is the grant that shows a path inside, or nil. Before settle, ties
// and redundant grants are still there.
func nearest(grants []grant, inside string) *grant {
	var best *grant
	for i := range grants {
		g := &grants[i]
		if !hostfs.Under(inside, g.dst) {
			continue
		}
		if best == nil || len(g.dst) > len(best.dst) || len(g.dst) == len(best.dst) && g.beats(best) {
			best = g
		}
	}
	return best
}

// visible says whether a file of the caller's is seen inside under its own name.
func (c *compiler) visible(canonical string) bool {
	g := nearest(c.grants, canonical)
	return g != nil && g.access != private && g.at(canonical) == canonical
}

// settle sorts the grants, and drops those that change nothing.
func (c *compiler) settle() error {
	slices.SortStableFunc(c.grants, func(a, b grant) int {
		if n := hostfs.ComparePaths(a.dst, b.dst); n != 0 {
			return n
		}
		switch {
		case a.beats(&b):
			return -1
		case b.beats(&a):
			return 1
		}
		return 0
	})
	c.asked = slices.Clone(c.grants)
	kept := c.grants[:0]
	var stack []int // of indices of kept, each below the one before
	for _, g := range c.grants {
		for len(stack) > 0 && !hostfs.Under(g.dst, kept[stack[len(stack)-1]].dst) {
			stack = stack[:len(stack)-1]
		}
		if len(stack) > 0 {
			parent := &kept[stack[len(stack)-1]]
			if parent.dst == g.dst {
				continue
			}
			changes, err := c.changes(parent, &g)
			if err != nil {
				return err
			}
			if !changes {
				continue
			}
		}
		stack = append(stack, len(kept))
		kept = append(kept, g)
	}
	c.grants = kept
	return nil
}

// changes says whether g makes a difference below parent, which shows what is
// around it, and whether it can be mounted there at all.
func (c *compiler) changes(parent, g *grant) (bool, error) {
	if parent.access == private || parent.root || parent.beneath && (g.explicit || g.access == private) {
		return true, nil
	}
	point := parent.at(g.dst)
	if g.access != private && point == g.src.Path {
		if g.explicit {
			return g.access != parent.access || g.src.Mode.Type()&(deviceOrSocket) != 0 && !parent.explicit, nil
		}
		return g.access > parent.access, nil
	}
	f, err := c.host.Lstat(point)
	if err == nil && f.Mode.IsDir() == (g.access == private || g.src.Mode.IsDir()) {
		return true, nil
	}
	if !g.explicit {
		return false, nil // a private place that isn't there on the host either
	}
	return false, &Error{Option: g.option, Path: g.dst, Err: ErrNoTarget,
		Hint: "make " + quote(point) + " yourself, or choose a place outside of " + quote(parent.dst)}
}
