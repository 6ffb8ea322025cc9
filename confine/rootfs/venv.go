package rootfs

import (
	"path"
	"strings"
)

const maxVenvConfig = 8 << 10

// installation shows what a variable says is one installed tool chain.
func (c *compiler) installation(variable, dir string) {
	f, links, err := c.find(dir)
	if err != nil || !f.Mode.IsDir() {
		return
	}
	if i := c.chainOf(path.Clean(dir), f.Path); i >= 0 && !c.inSystem(f.Path, i) {
		c.useChain(i, variable)
	}
	c.links = append(c.links, links...)
	if !c.special(f.Path, variable) && !c.visible(f.Path) {
		if c.tooBroad(f.Path) || !c.isPrefix(f.Path) {
			return // whatever that is, it is no tool chain
		}
		c.add(f, nil, read, "tool chain: "+f.Path+" ("+variable+")")
	}
	if c.visible(f.Path) {
		c.table.Env[variable] = path.Clean(dir)
	}
}

// virtualenv shows a Python environment and the Python that it is made from.
func (c *compiler) virtualenv(prefix, by string) {
	why := "tool chain: virtualenv (" + by + ")"
	for i := range c.grants {
		if c.grants[i].why == why && c.grants[i].dst == prefix {
			return
		}
	}
	if !c.tooBroad(prefix) {
		c.showPath(prefix, why)
	}
	text, err := c.host.ReadFile(prefix+"/pyvenv.cfg", maxVenvConfig)
	if err != nil {
		return
	}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, "=")
		if strings.TrimSpace(key) != "home" {
			continue
		}
		if home := strings.TrimSpace(value); path.IsAbs(home) {
			c.interpreter(home, why)
		}
	}
}

// interpreter shows a Python by the directory that its executable is in.
func (c *compiler) interpreter(dir, why string) {
	f, links, err := c.find(dir)
	if err != nil {
		return
	}
	c.links = append(c.links, links...)
	if i := c.chainOf(path.Clean(dir), f.Path); i >= 0 {
		c.useChain(i, why)
	}
	if c.visible(f.Path) {
		c.pythonIn(f.Path, why)
		return
	}
	// Unlike an entry of PATH this is surely an interpreter, at home too.
	if prefix := c.prefixOf(f.Path); prefix != "" && c.isPrefix(prefix) {
		c.showPath(prefix, why)
		return
	}
	if !c.tooBroad(f.Path) {
		c.add(f, nil, read, why)
		c.pythonIn(f.Path, why)
	}
}

// pythonIn follows the links that an interpreter is reached through.
func (c *compiler) pythonIn(dir, why string) {
	if g := nearest(c.grants, dir); g != nil && g.system && g.access != private {
		return
	}
	for _, name := range [...]string{"python3", "python"} {
		if f, links, err := c.find(dir + "/" + name); err == nil && f.Mode.IsRegular() && f.Path != dir+"/"+name {
			c.links = append(c.links, links...)
			if !c.visible(f.Path) {
				c.interpreter(path.Dir(f.Path), why)
			}
			return
		}
	}
}
