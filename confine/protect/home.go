package protect

import (
	"path"

	"github.com/confine-run/confine/confine/hostfs"
	"github.com/confine-run/confine/confine/names"
)

// protectHome protects what counts in the home directory only, wherever that is writable.
func (c *Protector) protectHome() {
	if !c.HomeGiven() {
		return
	}
	for _, p := range c.In.Protect {
		rest, ok := names.AtHome(p)
		if !ok {
			continue
		}
		searched := len(c.targets.dirs)
		c.protectNamed(path.Join(c.In.HomeDir, rest), whyProtected)
		if p == library {
			// Of its thousands of names the links lead about in it.
			c.targets.dirs = c.targets.dirs[:searched]
		}
	}
}

// AtHome gives the canonical paths of the names that count in the home directory only, and
// the links that lead there.
func (o *Trusted) AtHome() (found []string) {
	if home := o.git.Home; path.IsAbs(home) && home != "/" {
		for _, name := range o.names {
			if rest, ok := names.AtHome(name); ok {
				w := hostfs.Trace(o.git.Host, path.Join(home, rest))
				found = w.AppendTo(found)
			}
		}
	}
	return found
}
