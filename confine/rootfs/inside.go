package rootfs

import (
	"io/fs"
	"path"
	"strings"

	"github.com/confine-run/confine/confine/hostfs"
	"github.com/confine-run/confine/internal/handoff"
)

// inside follows a path as the target would, as far as the table is known. It
// gives the path that it ends at, and the type of what is there; found is
// whether anything is. A path that loops comes back empty.
func (c *compiler) inside(name string) (at string, mode fs.FileMode, found bool) {
	at, rest, followed := "/", name, 0
	mode, found = fs.ModeDir, true
	for rest != "" {
		var component string
		component, rest, _ = strings.Cut(rest, "/")
		switch component {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at)
			continue
		}
		next := path.Join(at, component)
		target, isLink := c.linkInside(next)
		if !isLink {
			at = next
			continue
		}
		if followed++; followed > hostfs.MaxLinks {
			return "", 0, false
		}
		if path.IsAbs(target) {
			at = "/"
		}
		rest = target + "/" + rest
	}
	if at != "/" {
		mode, found = c.statInside(at)
	}
	return at, mode, found
}

func (c *compiler) linkInside(p string) (target string, ok bool) {
	if g := nearest(c.grants, p); g != nil && g.access != private {
		if p == g.dst {
			return "", false
		}
		target, err := c.host.Readlink(g.at(p))
		return target, err == nil
	}
	for _, l := range c.links {
		if l.At == p {
			return l.Target, true
		}
	}
	return "", false
}

func (c *compiler) statInside(p string) (fs.FileMode, bool) {
	if c.masked(p) {
		return 0, false
	}
	if g := nearest(c.grants, p); g != nil {
		if g.access != private {
			f, err := c.host.Lstat(g.at(p))
			return f.Mode, err == nil
		}
		if g.dst == p {
			return fs.ModeDir, true
		}
	}
	for i := range c.files {
		if f := &c.files[i]; f.Dst == p && f.Kind == handoff.MountFile {
			return 0, true
		} else if f.Dst == p && f.Text == "" {
			return fs.ModeDir, true
		}
		if hostfs.Below(c.files[i].Dst, p) {
			return fs.ModeDir, true
		}
	}
	for i := range c.grants {
		if hostfs.Below(c.grants[i].dst, p) {
			return fs.ModeDir, true
		}
	}
	return 0, false
}
