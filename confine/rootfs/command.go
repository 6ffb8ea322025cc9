package rootfs

import (
	"path"
	"strings"
)

// command makes sure that the command itself is visible, and what the links
// that it is reached through lead to.
func (c *compiler) command() error {
	name := c.in.Command
	if name == "" || c.in.Virtual || c.in.Rootfs != "" || strings.IndexByte(name, 0) >= 0 {
		return nil
	}
	const why = "the command itself"
	if strings.Contains(name, "/") {
		if !path.IsAbs(name) {
			if c.dirErr != nil {
				return nil
			}
			name = c.dir.Path + "/" + name
		}
		// One that isn't there is found out by execve, which has a status for it.
		if f, links, err := c.find(name); err == nil && f.Mode.IsRegular() {
			c.executable(f, links, why)
		}
		return nil
	}
	for i := range c.bins {
		b := &c.bins[i]
		if !c.visible(b.file.Path) {
			continue
		}
		f, err := c.host.Resolve(b.file.Path + "/" + name)
		if err != nil || !f.Mode.IsRegular() || f.Mode&0o111 == 0 {
			continue
		}
		var links []link
		if f.Path != b.file.Path+"/"+name {
			links = trace(c.host, b.file.Path+"/"+name).links
		}
		c.executable(f, links, why)
		return nil
	}
	return nil
}

// executable shows a program, and what it was installed to when that can be told.
func (c *compiler) executable(f File, links []link, why string) {
	c.links = append(c.links, links...)
	dir := path.Dir(f.Path)
	// A virtualenv's python is a link to another one, and finds itself by the
	// name that it was called by.
	for _, l := range links {
		if d := path.Dir(l.at); isBin(d) && d != dir {
			if g := nearest(c.grants, d); g == nil || !g.system || g.access == private {
				c.special(path.Dir(d), why)
			}
		}
	}
	if c.visible(f.Path) {
		return
	}
	if i := c.chainOf(f.Path); i >= 0 {
		c.useChain(i, why)
		if c.visible(f.Path) {
			return
		}
	}
	if isBin(dir) && c.special(path.Dir(dir), why) {
		return
	}
	if prefix := c.prefixOf(dir); prefix != "" && !c.inHome(dir) && c.isPrefix(prefix) {
		c.showPath(prefix, why+": installed to "+prefix)
		return
	}
	if lib := c.libraryOf(f.Path, links); lib != "" {
		c.showPath(lib, why)
		return
	}
	c.add(f, nil, read, why)
}

// libraryOf is PREFIX/lib for a program in there that PREFIX/bin has a link to,
// as npm installs them.
func (c *compiler) libraryOf(file string, links []link) string {
	for _, l := range links {
		dir := path.Dir(l.at)
		if !isBin(dir) {
			continue
		}
		for _, sign := range [...]string{"lib", "lib64", "libexec"} {
			if lib := path.Join(path.Dir(dir), sign); below(file, lib) && !c.tooBroad(path.Dir(dir)) {
				return lib
			}
		}
	}
	return ""
}
