package rootfs

import (
	"io/fs"
	"slices"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/view"
)

// rootOf is the tree that is /; of no kind when that is a private one.
func rootOf(v *view.View) (m handoff.Mount) {
	if g := v.Nearest("/"); g != nil && g.Root {
		m = entry(g)
		m.ReadOnly, m.Optional = v.RootReadOnly, false
	}
	return m
}

// mounts makes the table of a view: directories before what is in them, and at one path
// what shows something before what restricts it. Directories on the way to a
// mount point need no entry.
func mounts(v *view.View) []handoff.Mount {
	const others = 8 // that a compiler may add, such as the run's cgroup
	all := make([]handoff.Mount, 0, len(v.Grants)+len(v.Made)+len(v.Links)+len(v.Instead)+len(v.InsteadLinks)+len(v.Absent)+len(v.Hidden)+len(v.Protected)+others)
	var over *view.Grant
	for i := range v.Grants {
		g := &v.Grants[i]
		if !g.Root {
			all = append(all, entry(g))
		}
		if g.Beneath {
			over = g
		} else if over != nil && hostfs.Below(g.Dst, over.Dst) && !inAbsent(v, g.Dst) {
			all = append(all, pointOf(g))
		}
	}
	for i := range v.Made {
		all = append(all, made(&v.Made[i]))
	}
	for _, l := range v.Links {
		all = append(all, handoff.Mount{Kind: handoff.MountSymlink, Dst: l.At, Text: l.Target})
	}
	for i := range v.Instead {
		m := entry(&v.Instead[i])
		m.Instead = true
		all = append(all, m)
	}
	for _, l := range v.InsteadLinks {
		all = append(all, handoff.Mount{Kind: handoff.MountSymlink, Dst: l.At, Text: l.Target, Instead: true})
	}
	for _, h := range v.Absent {
		all = append(all, hidden(&h, handoff.MountAbsent))
	}
	for i := range v.Hidden {
		all = append(all, hidden(&v.Hidden[i], handoff.MountMask))
	}
	for i := range v.Protected {
		all = append(all, protected(&v.Protected[i]))
	}
	slices.SortFunc(all, func(a, b handoff.Mount) int {
		if n := hostfs.ComparePaths(a.Dst, b.Dst); n != 0 {
			return n
		}
		return order(a.Kind) - order(b.Kind)
	})
	overBeneath(all)
	return all
}

// entry shows a tree.
func entry(g *view.Grant) handoff.Mount {
	if g.Access == view.Private {
		if g.Size > 0 {
			return handoff.Mount{Kind: handoff.MountTmpfs, Dst: g.Dst, Mode: g.Mode, Size: g.Size}
		}
		return handoff.Mount{Kind: handoff.MountScratch, Dst: g.Dst, Mode: g.Mode, Optional: g.Optional}
	}
	m := handoff.Mount{Kind: handoff.MountBind, Dst: g.Dst, Src: g.Src.Path, Dev: g.Src.Dev, Ino: g.Src.Ino,
		ReadOnly: g.Access == view.Read, Optional: g.Optional}
	if g.Beneath {
		m.Kind = handoff.MountBeneath
	}
	if g.Access == view.Overlay {
		m.Kind, m.Text = handoff.MountOverlay, g.Instead
	}
	if g.Src.Mode.Type()&(fs.ModeDevice|fs.ModeSocket|fs.ModeNamedPipe) != 0 {
		// Data goes through a node of a read-only mount all the same; what this
		// stops is an owner's chmod of it.
		m.ReadOnly = true
		m.Device = g.Src.Mode.Type()&fs.ModeDevice != 0
	}
	return m
}

// pointOf is the place of a mount, made where something lies beneath that may not have it.
func pointOf(g *view.Grant) handoff.Mount {
	if g.Access == view.Private || g.Src.Mode.IsDir() {
		return made(&view.Made{Kind: view.Dir, Dst: g.Dst, Mode: 0o755})
	}
	return handoff.Mount{Kind: handoff.MountFile, Dst: g.Dst, Mode: 0o444}
}

// inAbsent: the place of a mount is in a directory of its own, which stands for what isn't there.
func inAbsent(v *view.View, at string) bool {
	return slices.ContainsFunc(v.Absent, func(h view.Hidden) bool { return h.Open && hostfs.Below(at, h.Dst) })
}

var madeKinds = [...]handoff.MountKind{view.Dir: handoff.MountDir, view.File: handoff.MountFile, view.Link: handoff.MountSymlink,
	view.Device: handoff.MountBind, view.Terminals: handoff.MountDevpts, view.Processes: handoff.MountProc, view.Scratch: handoff.MountScratch,
	view.KernelPart: handoff.MountReadOnly, view.KernelMask: handoff.MountMask}

func made(m *view.Made) handoff.Mount {
	return handoff.Mount{Kind: madeKinds[m.Kind], Dst: m.Dst, Src: m.Src.Path, Dev: m.Src.Dev, Ino: m.Src.Ino, Text: m.Text, Mode: m.Mode,
		// Read-only stops nobody from writing to a device, but its owner, uid 0 of root's runs,
		// from changing the mode of the host's node.
		ReadOnly: m.ReadOnly || m.Kind == view.Device, Device: m.Kind == view.Device, Optional: m.Optional}
}

func hidden(h *view.Hidden, kind handoff.MountKind) handoff.Mount {
	if h.Open {
		return handoff.Mount{Kind: handoff.MountScratch, Dst: h.Dst, Mode: 0o555}
	}
	return handoff.Mount{Kind: kind, Dst: h.Dst, Dev: h.File.Dev, Ino: h.File.Ino}
}

var protectedKinds = [...]handoff.MountKind{view.Pinned: handoff.MountPin, view.ReadOnly: handoff.MountReadOnly, view.Masked: handoff.MountMask, view.Shown: handoff.MountBind}

func protected(p *view.Protected) handoff.Mount {
	return handoff.Mount{Kind: protectedKinds[p.Keep], Dst: p.Dst, Src: p.Src.Path, Dev: p.Src.Dev, Ino: p.Src.Ino, ReadOnly: p.Keep == view.Shown}
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

// BindsBeneath says whether a MountBeneath can be bound, as the child finds out where there is no
// overlay: what is made for the run over it has a place in it. On a file without a name, which is
// there only because it is mounted, the kernel mounts nothing.
func (t *Table) BindsBeneath(h hostfs.Host) bool {
	at := slices.IndexFunc(t.Mounts, func(m handoff.Mount) bool { return m.Kind == handoff.MountBeneath })
	return at >= 0 && !slices.ContainsFunc(t.Mounts, func(m handoff.Mount) bool {
		if m.Instead || !hostfs.Below(m.Dst, t.Mounts[at].Dst) {
			return false
		}
		f, err := h.Lstat(hostfs.Rebase(m.Dst, t.Mounts[at].Dst, t.Mounts[at].Src))
		switch m.Kind {
		case handoff.MountAbsent:
			return err == nil && (!f.Mode.IsDir() && !f.Mode.IsRegular() || f.Names == 0)
		case handoff.MountDir:
			return err != nil || !f.Mode.IsDir()
		case handoff.MountFile:
			return !(hostfs.Absent(err) && m.Dispensable()) && (err != nil || !f.Mode.IsRegular() || f.Names == 0)
		case handoff.MountSymlink:
			text, err := h.Readlink(hostfs.Rebase(m.Dst, t.Mounts[at].Dst, t.Mounts[at].Src))
			return err != nil || text != m.Text
		}
		return false
	})
}

// KeptAbsent says whether what is made at a path outside is removed again when the run ends.
func (t *Table) KeptAbsent(outside string) bool {
	return outside != "" && slices.ContainsFunc(t.KeepAbsent, func(p string) bool { return hostfs.Under(outside, p) })
}
