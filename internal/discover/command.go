package discover

import (
	"path"
	"strings"

	"github.com/confine-run/confine/internal/hostfs"
)

// Command makes sure that the command itself is visible, and what the links
// that it is reached through lead to.
func (c *Finder) Command() error {
	name := c.In.Command
	if name == "" || c.In.Virtual || c.In.Rootfs != "" || strings.IndexByte(name, 0) >= 0 {
		return nil
	}
	const why = "the command itself"
	if strings.Contains(name, "/") {
		name = c.commandPath()
		if name == "" {
			return nil
		}
		// One that isn't there is found out by execve, which has a status for it.
		if r, err := c.follow(name, name); err == nil && r.file.Mode.IsRegular() && c.admit(&r, name) {
			c.executable(r, why)
		}
		return nil
	}
	for i := range c.bins {
		b := &c.bins[i]
		if !c.Visible(b.file.Path) {
			continue
		}
		full := b.file.Path + "/" + name
		r, err := c.follow(full, full)
		if err != nil || !r.file.Mode.IsRegular() || r.file.Mode&0o111 == 0 {
			continue
		}
		if c.admit(&r, full) {
			c.executable(r, why)
		}
		return nil
	}
	return nil
}

// commandPath is the path that the command is named by, or empty.
func (c *Judge) commandPath() string {
	name := c.In.Command
	switch {
	case !strings.Contains(name, "/") || strings.IndexByte(name, 0) >= 0:
		return ""
	case path.IsAbs(name):
		return name
	case c.CwdErr != nil:
		return ""
	}
	return c.Cwd.Path + "/" + name
}

// executable shows a program, and what it was installed to when that can be told.
func (c *Finder) executable(r route, why string) {
	f := r.file
	c.Links = append(c.Links, r.links...)
	dir := path.Dir(f.Path)
	// A virtualenv's python is a link to another one, and finds itself by the
	// name that it was called by.
	for _, l := range r.links {
		if d := path.Dir(l.At); isBin(d) && d != dir && !c.ofSystem(d) && c.mayShow(path.Dir(d), r.work) {
			c.special(path.Dir(d), why)
		}
	}
	if c.Visible(f.Path) {
		return
	}
	if r.work != "" {
		if !isBin(dir) || !c.special(path.Dir(dir), why) || !c.Visible(f.Path) {
			c.add(f, nil, why)
		}
		return
	}
	if i := c.chainOf(f.Path); i >= 0 {
		c.useChain(i, why)
		if c.Visible(f.Path) {
			return
		}
	}
	if isBin(dir) && c.special(path.Dir(dir), why) {
		return
	}
	if prefix := c.prefixOf(dir); prefix != "" && !c.InHome(dir) && c.isPrefix(prefix) {
		c.showPrefix(prefix, why+": installed to "+prefix)
		return
	}
	if lib := c.libraryOf(f.Path, r.links); lib != "" {
		c.showPath(lib, why)
		return
	}
	c.add(f, nil, why)
}

// mayShow says whether an environment that a way leads through may be shown: that of the
// tree of work which decides about the way, or one that lies in none.
func (c *Finder) mayShow(prefix, work string) bool {
	if work == "" {
		return true
	}
	tree := c.treeOf(prefix)
	return tree == work || tree == "" && c.secretAt(prefix) == "" && !c.holdsSecrets(prefix)
}

// libraryOf is PREFIX/lib for a program in there that PREFIX/bin has a link to,
// as npm installs them.
func (c *Finder) libraryOf(file string, links []hostfs.Link) string {
	for _, l := range links {
		dir := path.Dir(l.At)
		if !isBin(dir) {
			continue
		}
		for _, sign := range [...]string{"lib", "lib64", "libexec"} {
			if lib := path.Join(path.Dir(dir), sign); hostfs.Below(file, lib) && !c.TooBroad(path.Dir(dir)) {
				return lib
			}
		}
	}
	return ""
}
