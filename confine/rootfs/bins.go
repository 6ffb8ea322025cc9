package rootfs

import (
	"errors"
	"io/fs"
	"path"
	"strings"
)

// bin is one entry of PATH that exists on the host.
type bin struct {
	name string // as it stands in PATH
	full string // absolute
	file File
}

// readPath reads PATH: what isn't there, or can't be reached, is left out.
func (c *compiler) readPath() {
	rest, more := c.in.Env("PATH"), true
	for more {
		var name string
		name, rest, more = strings.Cut(rest, ":")
		if name == "" || strings.IndexByte(name, 0) >= 0 || c.hasBin(name) {
			continue
		}
		full := name
		if !path.IsAbs(name) {
			if c.dirErr != nil {
				continue
			}
			full = c.dir.Path + "/" + name
		}
		f, links, err := c.find(full)
		switch {
		case errors.Is(err, fs.ErrPermission):
			c.rule(path.Clean(full), AccessHidden, "PATH: can't be reached by this user")
			continue
		case err != nil || !f.Mode.IsDir():
			c.insideBin(name, full)
			continue
		}
		c.links = append(c.links, links...)
		c.bins = append(c.bins, bin{name, path.Clean(full), f})
	}
}

func (c *compiler) hasBin(name string) bool {
	for i := range c.bins {
		if c.bins[i].name == name {
			return true
		}
	}
	return false
}

// insideBin keeps an entry that only a mount brings about.
func (c *compiler) insideBin(name, full string) {
	if g := nearest(c.grants, path.Clean(full)); g == nil || !g.mount {
		return
	}
	if at, mode, found := c.inside(full); found && mode.IsDir() {
		c.bins = append(c.bins, bin{name, path.Clean(full), File{Path: at, Mode: mode}})
	}
}

// cleanPath gives PATH with what can be seen inside, in its order.
func (c *compiler) cleanPath() {
	var kept []string
	for i := range c.bins {
		b := &c.bins[i]
		shown := c.visible(b.file.Path)
		if g := nearest(c.grants, b.full); g != nil && g.mount {
			shown = true
		}
		if shown && !c.masked(b.file.Path) {
			kept = append(kept, b.name)
		}
	}
	if len(kept) > 0 {
		c.table.Env["PATH"] = strings.Join(kept, ":")
	}
}

// showBin shows an entry of PATH, with what its executables need.
func (c *compiler) showBin(b *bin) {
	dir, by := b.file.Path, "PATH"
	if i := c.chainOf(b.full, dir); i >= 0 && !c.inSystem(dir, i) {
		c.useChain(i, by)
		if chains[i].name != "local" && c.visible(dir) {
			return
		}
	}
	if g := nearest(c.grants, dir); g != nil && g.system && g.access != private {
		return
	}
	if isBin(dir) && c.special(path.Dir(dir), by) {
		return
	}
	if c.tooBroad(dir) {
		if !c.visible(dir) {
			c.rule(dir, AccessHidden, "PATH: too broad to be shown")
		}
		return
	}
	why := "tool chain: " + dir + " (PATH)"
	if c.visible(dir) {
		if c.inHome(dir) {
			c.showLinked(dir, why)
		}
		return
	}
	prefix := c.prefixOf(dir)
	switch {
	case prefix != "" && !c.inHome(dir) && c.isPrefix(prefix):
		c.showPath(prefix, "tool chain: "+prefix+" (PATH)")
	default:
		c.add(b.file, nil, read, why)
		c.showLinked(dir, why)
	}
}

// inSystem: the root of the tool chain is a directory of the system's, and only
// its variable leads there when the caller set that.
func (c *compiler) inSystem(dir string, i int) bool {
	g := nearest(c.grants, dir)
	return g != nil && g.system && g.access != private && c.in.Env(chains[i].env) == ""
}

// special shows a virtualenv or conda environment, wherever it is.
func (c *compiler) special(prefix, by string) bool {
	if _, err := c.host.Lstat(prefix + "/pyvenv.cfg"); err == nil {
		c.virtualenv(prefix, by)
		return true
	}
	if _, err := c.host.Lstat(prefix + "/conda-meta"); err == nil && !c.tooBroad(prefix) {
		c.showPath(prefix, "tool chain: conda ("+by+")")
		c.chains.never = append(c.chains.never, never{prefix, []string{".condarc", "condarc"}})
		return true
	}
	return false
}

// maxLinked bounds how many links of one directory are followed.
const maxLinked = 256

// showLinked shows what the links in a directory of executables lead to.
func (c *compiler) showLinked(dir, why string) {
	entries, err := c.host.ReadDir(dir)
	if err != nil {
		return
	}
	followed := 0
	for _, e := range entries {
		if e.Type != fs.ModeSymlink {
			continue
		}
		if target, err := c.host.Readlink(dir + "/" + e.Name); err != nil || !strings.Contains(target, "/") {
			continue // to its neighbour
		}
		if followed++; followed > maxLinked {
			c.notice("not every link in " + quote(dir) + " is followed: there are too many")
			return
		}
		if f, links, err := c.find(dir + "/" + e.Name); err == nil && f.Mode.IsRegular() {
			c.executable(f, links, why)
		}
	}
}
