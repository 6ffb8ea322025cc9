package rootfs

import (
	"cmp"
	"io/fs"
	"slices"
	"strings"

	"github.com/confine-run/confine/confine/hostfs"
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
	var over *grant
	for i := range c.grants {
		g := &c.grants[i]
		if !g.root {
			t.Mounts = append(t.Mounts, g.entry())
		}
		if g.beneath {
			over = g
		} else if over != nil && hostfs.Below(g.dst, over.dst) {
			t.Mounts = append(t.Mounts, g.point())
		}
		if !g.beneath { // ownEtc says what that is
			c.ruleOf(g.origin, g.dst, g.access.String(), g.why)
		}
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
	if over != nil {
		c.emitInstead()
	}
	for _, m := range c.masks {
		if c.moot(m.dst) {
			continue // nothing of it is left to be hidden
		}
		if m.file.Mode.Type() != fs.ModeSocket {
			t.Hidden = append(t.Hidden, m.dst)
		}
		switch {
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

// point is the place of a mount, made where something lies beneath that may not have it.
func (g *grant) point() handoff.Mount {
	if g.access == private || g.src.Mode.IsDir() {
		return dirAt(g.dst)
	}
	return handoff.Mount{Kind: handoff.MountFile, Dst: g.dst, Mode: 0o444}
}

// emitInstead adds what is shown where there can be no overlay over what lies beneath.
func (c *compiler) emitInstead() {
	t := &c.table
	for _, m := range c.instead {
		taken := slices.ContainsFunc(t.Mounts, func(o handoff.Mount) bool { return o.Dst == m.Dst })
		switch {
		case taken || c.masked(m.Dst) || c.maskedAt(m.Dst):
		case m.Kind != handoff.MountAbsent:
			m.Instead = true
			t.Mounts = append(t.Mounts, m)
		case slices.ContainsFunc(c.grants, func(g grant) bool { return hostfs.Below(g.dst, m.Dst) }):
			// What was named in it is mounted in a place of its own.
			t.Mounts = slices.DeleteFunc(t.Mounts, func(o handoff.Mount) bool { return hostfs.Below(o.Dst, m.Dst) && order(o.Kind) < 0 })
			t.Mounts = append(t.Mounts, handoff.Mount{Kind: handoff.MountScratch, Dst: m.Dst, Mode: 0o555})
		default:
			t.Mounts = append(t.Mounts, m)
		}
	}
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
	if g.beneath {
		m.Kind = handoff.MountBeneath
	}
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
	case g == nil || g.access == private || g.root || g.beneath:
		return false
	case f.Kind == handoff.MountDir || f.Kind == handoff.MountFile || f.Kind == handoff.MountSymlink:
		return true
	}
	return g.dst == f.Dst
}

// emitLinks makes the symbolic links that names lead through, where a shown
// tree doesn't have them already.
func (c *compiler) emitLinks() {
	slices.SortStableFunc(c.links, func(a, b hostfs.Link) int { return hostfs.ComparePaths(a.At, b.At) })
	last := ""
next:
	for _, l := range c.links {
		if l.At == last || hostfs.Under(l.At, "/proc") || strings.IndexByte(l.Target, 0) >= 0 || c.anyUnder(l.At) {
			continue
		}
		if g := nearest(c.grants, l.At); g != nil && g.access != private {
			continue
		}
		for i := range c.files {
			if hostfs.Under(c.files[i].Dst, l.At) && c.files[i].Kind != handoff.MountDir {
				continue next
			}
		}
		for i := range c.files { // one that is only a directory gives way
			if c.files[i].Dst == l.At {
				c.dropDir(l.At)
			}
		}
		last = l.At
		c.table.Mounts = append(c.table.Mounts, handoff.Mount{Kind: handoff.MountSymlink, Dst: l.At, Text: l.Target})
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
	case handoff.MountDir, handoff.MountFile, handoff.MountSymlink, handoff.MountAbsent:
		return -1
	}
	return 0
}

// overBeneath puts what lies over a MountBeneath before it: the two are mounted as one.
func overBeneath(mounts []handoff.Mount) {
	at := slices.IndexFunc(mounts, func(m handoff.Mount) bool { return m.Kind == handoff.MountBeneath })
	if at < 0 {
		return
	}
	end := at + 1
	for end < len(mounts) && hostfs.Under(mounts[end].Dst, mounts[at].Dst) {
		end++
	}
	rank := func(m *handoff.Mount) int {
		switch {
		case m.Kind == handoff.MountBeneath:
			return 1
		case order(m.Kind) < 0 && !m.Instead:
			return 0
		}
		return 2
	}
	slices.SortStableFunc(mounts[at:end], func(a, b handoff.Mount) int { return rank(&a) - rank(&b) })
}

func (c *compiler) finish() {
	t := &c.table
	slices.SortFunc(t.Mounts, func(a, b handoff.Mount) int {
		if n := hostfs.ComparePaths(a.Dst, b.Dst); n != 0 {
			return n
		}
		return order(a.Kind) - order(b.Kind)
	})
	overBeneath(t.Mounts)
	slices.SortStableFunc(t.Rules, func(a, b Rule) int { return hostfs.ComparePaths(a.Path, b.Path) })
	t.Rules = slices.Compact(t.Rules)
	slices.Sort(t.KeepAbsent)
	slices.SortFunc(t.Covered, func(a, b plan.Covered) int {
		if n := hostfs.ComparePaths(a.Path, b.Path); n != 0 {
			return n
		}
		return cmp.Compare(b.Ino, a.Ino) // what is protected itself before what is only on a way
	})
	t.Covered = slices.CompactFunc(t.Covered, func(a, b plan.Covered) bool { return a.Path == b.Path })
	c.cleanPath()
}
