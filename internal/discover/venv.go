package discover

import (
	"path"
	"slices"
	"strings"
)

const MaxVenvConfig = 8 << 10

// installation shows what a variable says is one installed tool chain.
func (c *Finder) installation(variable, dir string) {
	r, err := c.follow(dir, variable)
	f := &r.file
	if err != nil || !f.Mode.IsDir() || !c.admit(&r, variable) {
		return
	}
	if i := c.chainOf(path.Clean(dir), f.Path); i >= 0 && !c.inSystem(f.Path, i) {
		c.useChain(i, variable)
	}
	c.Links = append(c.Links, r.links...)
	if !c.special(f.Path, variable) && !c.Visible(f.Path) {
		if c.TooBroad(f.Path) || !c.isPrefix(f.Path) {
			return // whatever that is, it is no tool chain
		}
		c.add(*f, nil, "tool chain: "+f.Path+" ("+variable+")")
	}
	if c.Visible(f.Path) || c.special(f.Path, variable) {
		c.Env[variable] = path.Clean(dir)
	}
}

// virtualenv shows a Python environment and the Python that it is made from.
func (c *Finder) virtualenv(prefix, by string) {
	if slices.Contains(c.found.venvs, prefix) {
		return
	}
	c.found.venvs = append(c.found.venvs, prefix)
	why := "tool chain: virtualenv (" + by + ")"
	if !c.TooBroad(prefix) {
		c.showPrefix(prefix, why)
	}
	config := prefix + "/pyvenv.cfg"
	text, err := c.Host.ReadFile(config, MaxVenvConfig)
	if err != nil {
		return
	}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, "=")
		if !strings.EqualFold(strings.TrimSpace(key), "home") {
			continue
		}
		if home := strings.TrimSpace(value); path.IsAbs(home) {
			c.interpreter(home, config, why)
		}
		return // Python takes the first, too
	}
}

// interpreter shows a Python by the directory that its executable is in, if it is one: who
// names it, in a file or by a link, may want to see something else. by is that.
func (c *Finder) interpreter(dir, by, why string) {
	if c.found.interpreters++; c.found.interpreters > maxInterpreters {
		c.leaveOut(path.Clean(dir), by)
		return
	}
	r, err := c.follow(dir, by)
	if err != nil {
		return
	}
	at := r.file.Path
	if !c.Visible(at) && !c.python(at, by, why) {
		c.leaveOut(at, by)
		return
	}
	c.Links = append(c.Links, r.links...)
	c.pythonIn(at, by, why)
}

// python shows what a canonical directory of Python's executables belongs to: a known
// manager, an installed Python, or one in the tree of work that by lies in. False: it is none.
func (c *Finder) python(dir, by, why string) bool {
	exe := c.pythonAt(dir)
	if exe == "" || c.secretAt(dir) != "" {
		return false
	}
	if tree := c.treeOf(dir); tree != "" {
		if tree != c.treeOf(by) || !isBin(dir) || !c.isToolChain(path.Dir(dir)) {
			return false
		}
		c.showPrefix(path.Dir(dir), why)
		return true
	}
	if place := c.managerDir(dir); place != "" {
		if i := c.chainOf(dir); i >= 0 {
			c.useChain(i, why)
		}
	}
	if c.Visible(dir) || c.installed(dir, by) {
		return true
	}
	// The executable may be a link into one that is.
	r, err := c.follow(exe, by)
	return err == nil && r.file.Path != exe && (c.Visible(r.file.Path) || c.installed(r.file.Path, by))
}

// pythonAt is an executable of Python's in a directory, or empty.
func (c *Finder) pythonAt(dir string) string {
	entries, err := c.Host.ReadDir(dir)
	if err != nil {
		return ""
	}
	for _, e := range entries {
		if !slices.ContainsFunc(pythons[:], func(name string) bool { return strings.HasPrefix(e.Name, name) }) {
			continue
		}
		if f, err := c.Host.Resolve(dir + "/" + e.Name); err == nil && f.Mode.IsRegular() && f.Mode&0o111 != 0 {
			return dir + "/" + e.Name
		}
	}
	return ""
}

// pythonIn follows the links that an interpreter is reached through.
func (c *Finder) pythonIn(dir, by, why string) {
	if c.ofSystem(dir) {
		return
	}
	for _, name := range [...]string{"python3", "python"} {
		name = dir + "/" + name
		if r, err := c.follow(name, by); err == nil && r.file.Mode.IsRegular() && r.file.Path != name {
			if !c.Visible(r.file.Path) {
				c.interpreter(path.Dir(r.file.Path), by, why)
			}
			if c.Visible(r.file.Path) {
				c.Links = append(c.Links, r.links...)
			}
			return
		}
	}
}
