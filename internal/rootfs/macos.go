package rootfs

import (
	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/view"
)

// showMacOS adds what is visible in every run on macOS: the host's own files, since nothing can be shown in their place.
func (c *system) showMacOS() {
	for i := range macTrees {
		c.systemTree(macTrees[i].path)
	}
	c.Rule("/dev", view.RuleRead, whySystem+": null, zero, random, urandom, fd, the run's own terminal")
	for _, name := range [...]string{"/tmp", "/var", "/etc"} { // what nearly every name leads through
		if target, err := c.Host.Readlink(name); err == nil {
			c.Links = append(c.Links, hostfs.Link{At: name, Target: target})
		}
	}
}

// library is the directory of a home in which everything that other systems have in dot names is.
const library = "Library"

// homeLibrary shows the parts of it that programs are started from. The rest are credentials, letters, and what other programs keep.
func homeLibrary(c *compiler) {
	for i := range macLibrary {
		c.homeEntry(library+"/"+macLibrary[i].path, view.Read, 0, whyHome+": "+macLibrary[i].reason)
	}
	c.RuleOf(view.Origin{Option: view.FromHome}, c.Home+"/"+library, view.RulePrivate, whyHome+": what programs keep for their user")
}
