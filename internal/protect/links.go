package protect

import (
	"io/fs"
	"path"
	"strconv"
	"syscall"

	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/quote"
)

const (
	// MaxLinksBelow is how many names of one protected directory are looked at.
	MaxLinksBelow = 2000
	// MaxTargets is how many names are looked at in all of a plan because of links: those in
	// protected directories, and those on the ways that the links lead. A way counts
	// LeastWay at least, so that there are never more than MaxTargets/LeastWay of them: each makes
	// mounts, and the tree's owner could otherwise make a start take minutes.
	MaxTargets = 20000
	LeastWay   = 10
)

// linkTargets are what protected links lead to. Whoever fills the tree decides how much that is, so it is bounded.
type linkTargets struct {
	looked int             // names so far
	links  map[string]bool // names through links that are protected by now, outside
	ways   map[string]bool // names that were followed
	dirs   []linkDir       // that are to be searched for links
	seen   map[string]bool // those that were
	told   bool            // that it was too much
	hidden []string        // links inside that had to be
}

type linkDir struct{ path, why string }

func newLinkTargets() linkTargets {
	return linkTargets{links: map[string]bool{}, ways: map[string]bool{}, seen: map[string]bool{}}
}

// spend takes n names off what may be looked at; false when there are no more.
func (l *linkTargets) spend(n int) bool {
	l.looked += n
	return l.looked <= MaxTargets
}

// measured counts what trace asks of the host.
type measured struct {
	hostfs.Host
	asked, most int
}

func (m *measured) Readlink(name string) (string, error) {
	// The kernel walks the whole name: those of a deep way count for more.
	if m.asked += 1 + len(name)/256; m.asked > m.most {
		return "", syscall.ELOOP // the trace comes to an end soon, and isn't used
	}
	return m.Host.Readlink(name)
}

// protectTarget is protectNamed for the target of a link.
func (c *Protector) protectTarget(name, why string) {
	if c.targets.ways[name] {
		return
	}
	c.targets.ways[name] = true
	if c.targets.looked > MaxTargets {
		c.tellTooMany()
		return
	}
	m := &measured{Host: c.Host, most: MaxTargets - c.targets.looked}
	w := hostfs.Trace(m, name)
	if !c.targets.spend(max(m.asked, LeastWay)) {
		c.tellTooMany()
		return
	}
	c.protectWay(&w, why)
}

// tellTooMany says so, once: whatever comes after it is left out too.
func (c *Protector) tellTooMany() {
	if !c.targets.told {
		c.targets.told = true
		c.protectsLess("not all that links in protected directories lead to is protected: there is too much of it (" + strconv.Itoa(MaxTargets) + " names)")
	}
}

// protectTargets protects what links in protected directories lead to: hooks often are some.
// It comes after what is protected by its own name, which is never too much. Those directories
// that were found last are first: the caller's own, then git's, then those of the trees.
func (c *Protector) protectTargets() {
	for len(c.targets.dirs) > 0 {
		last := len(c.targets.dirs) - 1
		d := c.targets.dirs[last]
		c.targets.dirs = c.targets.dirs[:last]
		if c.targets.seen[d.path] {
			continue
		}
		c.targets.seen[d.path] = true
		if c.targets.looked > MaxTargets {
			c.tellTooMany()
			return
		}
		links, names, complete := linksBelow(c.Host, d.path)
		if !complete {
			c.protectsLess("not all that links in " + strconv.Quote(d.path) + " lead to is protected: there are too many names in it")
		}
		c.targets.spend(names)
		for _, l := range links {
			c.protectTarget(l, d.why)
		}
	}
}

// tellHidden says which links couldn't be made read-only: the first few, for a tree can have thousands.
func (c *Protector) tellHidden() {
	switch len(c.targets.hidden) {
	case 0:
	case 1:
		c.Notice(strconv.Quote(c.targets.hidden[0]) + " is hidden: it is protected, and a symbolic link to no visible file can't be made read-only")
	default:
		c.Notice(quote.Some(c.targets.hidden) + " are hidden: they are protected, and symbolic links to no visible file can't be made read-only")
	}
}

// linksBelow are the symbolic links in a directory and those below, of which it looked at
// so many names.
func linksBelow(h hostfs.Host, dir string) (links []string, names int, complete bool) {
	for queue := []string{dir}; len(queue) > 0; queue = queue[1:] {
		entries, err := h.ReadDir(queue[0])
		if err != nil {
			continue
		}
		if names+len(entries) > MaxLinksBelow {
			return links, MaxLinksBelow, false
		}
		names += len(entries)
		for _, e := range entries {
			switch at := path.Join(queue[0], e.Name); e.Type {
			case fs.ModeDir:
				queue = append(queue, at)
			case fs.ModeSymlink:
				links = append(links, at)
			}
		}
	}
	return links, names, true
}
