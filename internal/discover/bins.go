package discover

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/view"
)

// bin is one entry of PATH that exists on the host.
type bin struct {
	name string // as it stands in PATH
	full string // absolute
	route
}

// readPath reads PATH: what isn't there, or can't be reached, is left out.
func (c *Judge) readPath() {
	rest, more := c.In.Env("PATH"), true
	for more {
		var name string
		name, rest, more = strings.Cut(rest, ":")
		if name == "" || strings.IndexByte(name, 0) >= 0 || slices.ContainsFunc(c.bins, func(b bin) bool { return b.name == name }) {
			continue
		}
		full := name
		if !path.IsAbs(name) {
			if c.CwdErr != nil {
				continue
			}
			full = c.Cwd.Path + "/" + name
		}
		r, err := c.follow(full, "PATH")
		switch {
		case errors.Is(err, fs.ErrPermission):
			c.Rule(path.Clean(full), view.RuleHidden, "PATH: can't be reached by this user")
			continue
		case err != nil || !r.file.Mode.IsDir():
			c.mountedBin(name, full)
			continue
		}
		if r.work == "" {
			c.Links = append(c.Links, r.links...)
		}
		c.bins = append(c.bins, bin{name, path.Clean(full), r})
	}
}

// mountedBin keeps an entry of PATH that only exists inside, by a mount.
func (c *Judge) mountedBin(name, full string) {
	if g := c.Nearest(path.Clean(full)); g == nil || !g.Mount {
		return
	}
	if at, mode, found := c.Inside(full); found && mode.IsDir() {
		c.bins = append(c.bins, bin{name, path.Clean(full), route{file: hostfs.File{Path: at, Mode: mode}}})
	}
}

// CleanPath gives PATH with what can be seen inside, in its order.
func (c *Judge) CleanPath() {
	var kept []string
	for i := range c.bins {
		b := &c.bins[i]
		shown := c.Visible(b.file.Path)
		if g := c.Nearest(b.full); g != nil && g.Mount {
			shown = true
		}
		if shown && !c.Masked(b.file.Path) {
			kept = append(kept, b.name)
		}
	}
	if len(kept) > 0 {
		c.Env["PATH"] = strings.Join(kept, ":")
	}
}

// showBin shows an entry of PATH, with what its executables need.
func (c *Finder) showBin(b *bin) {
	dir, by := b.file.Path, "PATH"
	if !c.admit(&b.route, by) {
		return
	}
	if b.work != "" {
		c.Links = append(c.Links, b.links...)
	}
	if i := c.chainOf(b.full, dir); i >= 0 && !c.inSystem(dir, i) {
		c.useChain(i, by)
		if Chains[i].Name != "local" && c.Visible(dir) {
			return
		}
	}
	if c.ofSystem(dir) {
		return
	}
	if isBin(dir) && c.special(path.Dir(dir), by) {
		return
	}
	if c.TooBroad(dir) {
		if !c.Visible(dir) {
			c.Rule(dir, view.RuleHidden, "PATH: too broad to be shown")
		}
		return
	}
	why := "tool chain: " + dir + " (PATH)"
	if c.Visible(dir) {
		if c.InHome(dir) {
			c.showLinked(dir, why)
		}
		return
	}
	prefix := c.prefixOf(dir)
	switch {
	case prefix != "" && !c.InHome(dir) && c.isPrefix(prefix):
		c.showPrefix(prefix, "tool chain: "+prefix+" (PATH)")
	default:
		c.add(b.file, nil, why)
		c.showLinked(dir, why)
	}
}

// inSystem: the root of the tool chain is a directory of the system's, and only
// its variable leads there when the caller set that.
func (c *Finder) inSystem(dir string, i int) bool {
	return c.ofSystem(dir) && c.In.Env(Chains[i].env) == ""
}

// special shows a virtualenv or conda environment, wherever it is.
func (c *Finder) special(prefix, by string) bool {
	if f, err := c.Host.Resolve(prefix + "/pyvenv.cfg"); err == nil && f.Mode.IsRegular() {
		c.virtualenv(prefix, by)
		return true
	}
	if f, err := c.Host.Resolve(prefix + "/conda-meta"); err == nil && f.Mode.IsDir() && !c.TooBroad(prefix) {
		c.showPrefix(prefix, "tool chain: conda ("+by+")")
		c.Chains.Never = append(c.Chains.Never, Never{prefix, []string{".condarc", "condarc"}})
		return true
	}
	return false
}

// maxLinked bounds how many links of one directory are followed.
const maxLinked = 256

// showLinked shows what the links in a directory of executables lead to.
func (c *Finder) showLinked(dir, why string) {
	entries, err := c.Host.ReadDir(dir)
	if err != nil {
		return
	}
	followed := 0
	for _, e := range entries {
		if e.Type != fs.ModeSymlink {
			continue
		}
		if target, err := c.Host.Readlink(dir + "/" + e.Name); err != nil || !strings.Contains(target, "/") {
			continue // to its neighbour
		}
		if followed++; followed > maxLinked {
			c.Notice("not every link in " + strconv.Quote(dir) + " is followed: there are too many")
			return
		}
		name := dir + "/" + e.Name
		if r, err := c.follow(name, name); err == nil && r.file.Mode.IsRegular() && c.admit(&r, name) {
			c.executable(r, why)
		}
	}
}
