package rootfs

import (
	"io/fs"
	"slices"
	"strings"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/plan"
)

// emit makes the table: directories before what is in them, and at one path
// what shows something before what restricts it. Directories on the way to a
// mount point need no entry.
func (c *compiler) emit() error {
	t := &c.table
	if c.in.Rootfs != "" && (nearest(c.grants, "/") == nil || c.masked("/")) {
		return &Error{Option: optRootfs, Path: c.in.Rootfs, Err: ErrInvalid, Hint: "a deny pattern hides all of it"}
	}
	t.Mounts = make([]handoff.Mount, 0, len(c.grants)+len(c.files)+len(c.links)+len(c.shut)+len(c.masks))
	for i := range c.grants {
		g := &c.grants[i]
		if !g.root {
			t.Mounts = append(t.Mounts, g.entry())
		}
		c.rule(g.dst, g.access.String(), g.why)
		if g.reviewed() {
			t.Overlays = append(t.Overlays, plan.Overlay{Dst: g.dst, Path: g.src.Path, Dev: g.src.Dev, Ino: g.src.Ino})
		}
	}
	for i := range c.files {
		if !c.occupied(&c.files[i]) {
			t.Mounts = append(t.Mounts, c.files[i])
		}
	}
	c.emitLinks()
	for _, m := range c.masks {
		switch {
		case c.moot(m.dst):
			continue // nothing of it is left to be hidden
		case m.open:
			t.Mounts = append(t.Mounts, handoff.Mount{Kind: handoff.MountScratch, Dst: m.dst, Mode: 0o555})
		default:
			t.Mounts = append(t.Mounts, handoff.Mount{Kind: handoff.MountMask, Dst: m.dst, Dev: m.file.Dev, Ino: m.file.Ino})
		}
	}
	for i := range c.shut {
		if !c.masked(c.shut[i].Dst) {
			t.Mounts = append(t.Mounts, c.shut[i])
		}
	}
	c.finish()
	return nil
}

func (g *grant) entry() handoff.Mount {
	if g.access == private {
		if g.size > 0 {
			return handoff.Mount{Kind: handoff.MountTmpfs, Dst: g.dst, Mode: g.mode, Size: g.size}
		}
		return handoff.Mount{Kind: handoff.MountScratch, Dst: g.dst, Mode: g.mode, Optional: g.optional}
	}
	m := handoff.Mount{Kind: handoff.MountBind, Dst: g.dst, Src: g.src.Path, Dev: g.src.Dev, Ino: g.src.Ino,
		ReadOnly: g.access == read, Optional: g.optional}
	if g.access == overlay {
		m.Kind, m.Text = handoff.MountOverlay, g.instead
	}
	if g.src.Mode.Type()&(fs.ModeDevice|fs.ModeSocket|fs.ModeNamedPipe) != 0 {
		// Data goes through a node of a read-only mount all the same; what this
		// stops is an owner's chmod of it.
		m.ReadOnly = true
		m.Device = g.src.Mode.Type()&fs.ModeDevice != 0
	}
	return m
}

// occupied: the place of a file that is made belongs to a tree that is shown.
func (c *compiler) occupied(f *handoff.Mount) bool {
	g := nearest(c.grants, f.Dst)
	switch {
	case g == nil || g.access == private || g.root:
		return false
	case f.Kind == handoff.MountDir || f.Kind == handoff.MountFile || f.Kind == handoff.MountSymlink:
		return true
	}
	return g.dst == f.Dst
}

// emitLinks makes the symbolic links that names lead through, where a shown
// tree doesn't have them already.
func (c *compiler) emitLinks() {
	slices.SortStableFunc(c.links, func(a, b link) int { return comparePaths(a.at, b.at) })
	last := ""
next:
	for _, l := range c.links {
		if l.at == last || strings.IndexByte(l.target, 0) >= 0 || c.anyUnder(l.at) {
			continue
		}
		if g := nearest(c.grants, l.at); g != nil && g.access != private {
			continue
		}
		for i := range c.files {
			if under(c.files[i].Dst, l.at) && c.files[i].Kind != handoff.MountDir {
				continue next
			}
		}
		for i := range c.files { // one that is only a directory gives way
			if c.files[i].Dst == l.at {
				c.dropDir(l.at)
			}
		}
		last = l.at
		c.table.Mounts = append(c.table.Mounts, handoff.Mount{Kind: handoff.MountSymlink, Dst: l.at, Text: l.target})
	}
}

func (c *compiler) dropDir(at string) {
	c.table.Mounts = slices.DeleteFunc(c.table.Mounts, func(m handoff.Mount) bool {
		return m.Kind == handoff.MountDir && m.Dst == at
	})
}

// order of entries at one path.
func order(k handoff.MountKind) int {
	switch k {
	case handoff.MountPin:
		return 1
	case handoff.MountReadOnly:
		return 2
	case handoff.MountMask:
		return 3
	}
	return 0
}

func (c *compiler) finish() {
	t := &c.table
	slices.SortFunc(t.Mounts, func(a, b handoff.Mount) int {
		if n := comparePaths(a.Dst, b.Dst); n != 0 {
			return n
		}
		return order(a.Kind) - order(b.Kind)
	})
	slices.SortStableFunc(t.Rules, func(a, b Rule) int { return comparePaths(a.Path, b.Path) })
	t.Rules = slices.Compact(t.Rules)
	slices.Sort(t.KeepAbsent)
	c.cleanPath()
}
