package rootfs

import (
	"path"
	"strings"

	"github.com/confine-run/confine/confine/hostfs"
	"github.com/confine-run/confine/confine/secrets"
)

// AtHome cuts the "~/" off a protected name that counts in the caller's home directory only.
func AtHome(name string) (rest string, ok bool) { return strings.CutPrefix(name, secrets.InHomes) }

// protectHome protects what counts in the home directory only, wherever that is writable.
func (c *protector) protectHome() {
	if !c.homeGiven() {
		return
	}
	for _, p := range c.In.Protect {
		rest, ok := AtHome(p)
		if !ok {
			continue
		}
		searched := len(c.led.dirs)
		c.shieldNamed(path.Join(c.In.HomeDir, rest), whyProtected)
		if p == library {
			// Of its thousands of names the links lead about in it.
			c.led.dirs = c.led.dirs[:searched]
		}
	}
}

// AtHome gives the canonical paths of the names that count in the home directory only, and
// the links that lead there.
func (o *Obeyed) AtHome() (found []string) {
	if home := o.git.Home; path.IsAbs(home) && home != "/" {
		for _, name := range o.names {
			if rest, ok := AtHome(name); ok {
				w := hostfs.Trace(o.git.Host, path.Join(home, rest))
				found = w.AppendTo(found)
			}
		}
	}
	return found
}
