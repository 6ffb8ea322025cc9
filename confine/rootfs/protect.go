package rootfs

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/confine-run/confine/internal/handoff"
)

const whyProtected = "protected"

// protect holds paths that later, unconfined programs obey against writable
// trees. In overlays and private places nothing needs it: they are thrown away.
func (c *compiler) protect() error {
	trees := make(map[string]bool)
	for i := range c.asked { // a tree inside another one was named, and is a root of its own
		g := c.asked[i]
		if g.access != write || trees[g.dst] {
			continue
		}
		trees[g.dst] = true
		if !g.src.Mode.IsDir() || g.git { // that one is protected with the tree that it belongs to
			continue
		}
		for _, p := range c.in.Protect {
			if rel := path.Clean("/" + p); rel != "/" {
				c.shield(g.src.Path, rel[1:], whyProtected)
			}
		}
		c.protectGit(g.src.Path)
	}
	if len(trees) == 0 {
		return nil
	}
	for _, p := range c.in.ConfigFiles {
		c.shieldFile(p, "policy file in use")
	}
	c.protectOwn()
	c.pinNested()
	return nil
}

// OwnDirs are where confine keeps what it goes by: policies and what is trusted, what
// runs changed, unpacked images.
func OwnDirs(env func(string) string, home string) (all []string) {
	for _, d := range [...]struct{ variable, below string }{
		{"XDG_CONFIG_HOME", ".config"}, {"XDG_DATA_HOME", ".local/share"}, {"XDG_STATE_HOME", ".local/state"}, {"XDG_CACHE_HOME", ".cache"},
	} {
		base := env(d.variable)
		if !path.IsAbs(base) {
			if base = path.Join(home, d.below); !path.IsAbs(base) {
				continue
			}
		}
		all = append(all, path.Join(base, "confine"))
	}
	return all
}

// protectOwn protects what confine itself keeps of the caller's. Whoever could write there would
// decide about later runs, or have apply write anywhere.
func (c *compiler) protectOwn() {
	for _, own := range OwnDirs(c.in.Env, c.in.HomeDir) {
		root, rel := path.Dir(own), path.Base(own)
		for { // as far as it is there
			f, err := c.host.Resolve(root)
			if err == nil {
				c.shield(f.Path, rel, whyPolicy)
				break
			}
			if !absent(err) || root == "/" {
				break
			}
			root, rel = path.Dir(root), path.Join(path.Base(root), rel)
		}
	}
}

// shieldFile protects a file of the caller's, by its name and by what it leads to.
func (c *compiler) shieldFile(name, why string) {
	if !path.IsAbs(name) {
		if c.dirErr != nil {
			return
		}
		name = path.Join(c.dir.Path, name)
	}
	if dir, err := c.host.Resolve(path.Dir(name)); err == nil {
		c.shield(dir.Path, path.Base(name), why)
	}
	if f, err := c.host.Resolve(name); err == nil {
		c.shield(path.Dir(f.Path), path.Base(f.Path), why)
	}
}

// shield protects rel below root, both of the caller's, wherever it is writable
// inside. root is canonical.
func (c *compiler) shield(root, rel, why string) {
	for i := range c.grants {
		g := &c.grants[i]
		if g.access != write || !g.src.Mode.IsDir() {
			continue
		}
		switch {
		case under(root, g.src.Path):
			c.shieldAt(g, rebase(root, g.src.Path, g.dst), rel, why)
		case under(path.Join(root, rel), g.src.Path):
			// The tree begins on the way.
			full := path.Join(root, rel)
			if full != g.src.Path {
				c.shieldAt(g, g.dst, full[len(g.src.Path)+1:], why)
			}
		}
	}
}

// shieldAt walks down from dir, which g shows, to rel.
func (c *compiler) shieldAt(g *grant, dir, rel, why string) {
	at := dir
	c.pins(g, at)
	for rest := rel; rest != ""; {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		at = path.Join(at, name)
		n := nearest(c.grants, at)
		if n == nil || n.access != write || c.masked(at) {
			return // not writable here
		}
		if rest == "" && c.namedWritable(at) {
			return
		}
		outside := n.at(at)
		f, err := c.host.Lstat(outside)
		mode := f.Mode
		switch {
		case absent(err):
			c.keepAbsent(path.Join(outside, rest), path.Join(at, rest), why)
			c.keepClear(outside, rest)
			return
		case err == nil && mode.Type() == fs.ModeSymlink:
			c.shieldLink(n, at, rest, why)
			return
		case rest == "":
			c.close(handoff.MountReadOnly, at)
			c.mustBe(at, f.Ino)
			c.reinstate(at)
			c.rule(at, AccessProtected, why)
			return
		case err == nil && !mode.IsDir():
			c.keepAbsent(path.Join(outside, rest), path.Join(at, rest), why)
			return
		}
		c.close(handoff.MountPin, at)
	}
}

// namedWritable: the caller named just this path as writable.
func (c *compiler) namedWritable(at string) bool {
	for i := range c.asked {
		if g := &c.asked[i]; g.dst == at && g.explicit && g.access == write {
			return true
		}
	}
	return false
}

// shieldLink protects a symbolic link itself: a mount on it can't be replaced.
// A link to a file shows that file, read-only. Where the link is on the way, or
// leads to a directory or nowhere, something empty hides it.
func (c *compiler) shieldLink(g *grant, at, rest, why string) {
	f, err := c.host.Resolve(g.at(at))
	if err == nil && rest == "" && f.Mode.IsRegular() {
		c.shut = append(c.shut, handoff.Mount{Kind: handoff.MountBind, Dst: at, Src: f.Path, Dev: f.Dev, Ino: f.Ino, ReadOnly: true})
		c.rule(at, AccessProtected, why)
		if f.Path != g.at(at) {
			c.shield(path.Dir(f.Path), path.Base(f.Path), why)
		}
		return
	}
	c.close(handoff.MountMask, at)
	c.rule(at, AccessHidden, why+": a symbolic link that a mount can't make read-only")
	c.notice(quote(at) + " is hidden: it is protected, and a symbolic link to no file can't be made read-only")
	if err == nil && f.Mode.IsDir() {
		c.shield(path.Dir(f.Path), path.Join(path.Base(f.Path), rest), why)
	}
}

// pins keeps what leads to a protected path from being renamed away with it.
func (c *compiler) pins(g *grant, dir string) {
	for ; below(dir, g.dst); dir = path.Dir(dir) {
		c.close(handoff.MountPin, dir)
	}
}

// pinNested keeps mounts of less access in their place in a writable tree: with
// a directory above one renamed, something else could be put at its path.
func (c *compiler) pinNested() {
	for i := range c.grants {
		g := &c.grants[i]
		if g.access != read && g.access != overlay {
			continue
		}
		if up := nearest(c.grants, path.Dir(g.dst)); up != nil && up.access == write {
			c.pins(up, path.Dir(g.dst))
		}
	}
}

// close adds one entry, once for each path; a stricter one takes the place of a pin.
func (c *compiler) close(kind handoff.MountKind, at string) {
	for i := range c.shut {
		if c.shut[i].Dst == at {
			if c.shut[i].Kind == handoff.MountPin {
				c.shut[i].Kind = kind
			}
			return
		}
	}
	if kind == handoff.MountPin {
		for i := range c.grants {
			if c.grants[i].dst == at {
				return // a mount point already
			}
		}
	}
	c.shut = append(c.shut, handoff.Mount{Kind: kind, Dst: at})
}

// mustBe: what is protected because it is there has to be there for the child too.
// Otherwise somebody moved it away meanwhile, and another would take its place.
func (c *compiler) mustBe(at string, ino uint64) {
	for i := range c.shut {
		if c.shut[i].Dst == at && c.shut[i].Kind == handoff.MountReadOnly {
			c.shut[i].Ino = ino
		}
	}
}

// keepClear notes the directories that are missing on the way to a protected path:
// a link or a file planted in their place would lead around the protection.
func (c *compiler) keepClear(outside, rest string) {
	for rest != "" {
		if !slices.Contains(c.table.KeepClear, outside) {
			c.table.KeepClear = append(c.table.KeepClear, outside)
		}
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		outside = path.Join(outside, name)
	}
}

func (c *compiler) keepAbsent(outside, inside, why string) {
	for _, p := range c.table.KeepAbsent {
		if p == outside {
			return
		}
	}
	c.table.KeepAbsent = append(c.table.KeepAbsent, outside)
	c.rule(inside, AccessProtected, why+": kept absent")
}
