package rootfs

import (
	"io/fs"
	"path"
	"slices"
	"time"

	"github.com/confine-run/confine/confine/hostfs"
)

// Some host has a socket at any time whose file is gone, or lies where this mount namespace
// doesn't reach: the search for it is part of every start there, and so it is kept short.
const (
	maxSocketSearch     = 5_000 // names in directories
	maxSocketSearchTime = 10 * time.Millisecond
)

// socketTree is a directory of a search.
type socketTree struct {
	g       *grant
	mount   *hostfs.Mount // nil is not known
	outside string
}

// search looks for what is left in the trees that the caller works in, what lies near their tops first; whole
// says whether nothing was left out.
func (s *bound) search() (whole bool) {
	c := s.c
	grants := slices.Clone(c.grants) // what is hidden changes them
	left := map[uint32][]*sought{}
	for _, one := range s.left {
		left[one.Ino] = append(left[one.Ino], one)
	}
	trees := s.trees(grants)
	until, seen := c.now().Add(maxSocketSearchTime), 0
	whole = true
	for len(trees) > 0 && slices.ContainsFunc(s.left, func(o *sought) bool { return !o.found() }) {
		t := trees[0]
		trees = trees[1:]
		inside := hostfs.Rebase(t.outside, t.g.src.Path, t.g.dst)
		if n := nearest(grants, inside); n == nil || n.dst != t.g.dst || c.masked(inside) {
			continue // something else is shown here
		}
		entries, err := c.host.ReadDir(t.outside)
		if err != nil {
			whole = whole && !hostfs.Denied(err) // names in it may be reached without being listed
			continue
		}
		if seen += len(entries); seen > maxSocketSearch || c.now().After(until) {
			return false
		}
		for _, e := range entries {
			at := path.Join(t.outside, e.Name)
			switch {
			case e.Type.IsDir() && !s.mounts.Point(at):
				trees = append(trees, socketTree{t.g, t.mount, at})
			case e.Type == fs.ModeSocket:
				s.came(t, at, left)
			}
		}
	}
	return whole
}

// trees are where a search begins: at the top of what the caller works in, and of what is mounted there,
// where a device is one of those that are sought.
func (s *bound) trees(grants []grant) (trees []socketTree) {
	on := func(m *hostfs.Mount) bool {
		return slices.ContainsFunc(s.left, func(o *sought) bool { return o.Dev == m.Dev })
	}
	for i := range grants {
		g := &grants[i]
		if !g.mayHoldSockets() || g.searched == 0 && !g.git {
			continue // tool chains are large, and nobody binds there
		}
		if m := s.mounts.Covering(g.src.Path); m == nil || on(m) {
			trees = append(trees, socketTree{g, m, g.src.Path})
		}
		for j := range s.mounts {
			if m := &s.mounts[j]; hostfs.Below(m.At, g.src.Path) && on(m) {
				trees = append(trees, socketTree{g, m, m.At})
			}
		}
	}
	return trees
}

// came hides a socket that the search came across, if it is one of those that are sought.
func (s *bound) came(t socketTree, at string, left map[uint32][]*sought) {
	f, err := s.c.host.Lstat(at)
	if err != nil {
		return
	}
	for _, one := range left[uint32(f.Ino)] {
		if t.mount == nil || t.mount.Dev == one.Dev {
			one.isNamed(t.mount, at, &f)
			s.c.hideSocket(at)
			return
		}
	}
	if t.g.access == read { // as for other searches
		s.c.hideSocket(at)
	}
}
