package rootfs

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/confine-run/confine/confine/hostfs"
	"github.com/confine-run/confine/internal/handoff"
)

// Viewer is who looks: the target.
type Viewer struct {
	UID, GID uint32
	Groups   []uint32 // supplementary
	// OneID: no other id is mapped into its user namespace.
	OneID bool
	// NoBeneath: there can be no overlay over what lies beneath.
	NoBeneath bool
	// Bound: what lies beneath is bound, since there can be no overlay. Hidden names in it are empty.
	Bound bool
	// Bare: nothing was mounted, and it sees the caller's tree.
	Bare bool
	Host hostfs.Inspector
}

// View says what the target of a table finds at paths, and what it may do there. It
// reads the same entries that the child mounts, in the same order, and the
// caller's files where an entry shows them.
type View struct {
	by     Viewer
	table  *Table
	layers []layer                  // by place, what is shallower first; at one place the last one shows
	less   []string                 // read-only parts
	made   map[string]handoff.Mount // directories, files and links of the run's own
	ways   []string                 // places of entries: what leads to them is there
	absent []string                 // of what lies beneath
}

// layer is something mounted.
type layer struct {
	kind     handoff.MountKind // 0 is the private root
	dst, src string
	dev      uint64
	mode     uint32
	readOnly bool
	device   bool
	noExec   bool
	mask     bool
	others   bool // only what every user may read
	dir      bool // of a mask: what it hides is one
}

// View looks at the table as the target will.
func (t *Table) View(by Viewer) *View {
	v := &View{by: by, table: t, made: make(map[string]handoff.Mount)}
	if by.Bare {
		v.layers = []layer{{kind: handoff.MountBind, dst: "/", src: "/"}}
		return v
	}
	v.layers = append(v.layers, layer{dst: "/", mode: 0o755, readOnly: true})
	if t.Root.Kind != 0 {
		v.layers[0] = layer{kind: t.Root.Kind, dst: "/", src: t.Root.Src, dev: t.Root.Dev, readOnly: t.Root.ReadOnly}
	}
	for i := range t.Mounts {
		v.mount(&t.Mounts[i])
	}
	return v
}

// mount does what the child does with an entry.
func (v *View) mount(m *handoff.Mount) {
	l := layer{kind: m.Kind, dst: m.Dst, src: m.Src, dev: m.Dev, mode: m.Mode, readOnly: m.ReadOnly, device: m.Device}
	if m.Instead && !v.by.NoBeneath {
		return
	}
	switch m.Kind {
	case handoff.MountAbsent:
		v.absent = append(v.absent, m.Dst)
		if inode, err := v.by.Host.Inspect(m.Dst); err == nil && v.by.Bound {
			v.made[m.Dst] = handoff.Mount{Kind: handoff.MountFile, Dst: m.Dst, Mode: 0o444}
			if inode.Mode.IsDir() {
				v.made[m.Dst] = handoff.Mount{Kind: handoff.MountDir, Dst: m.Dst, Mode: 0o555}
			}
		}
		return
	case handoff.MountBeneath:
		if v.by.NoBeneath {
			return
		}
		l.mode, l.others = 0o755, v.by.UID == 0
	case handoff.MountDir, handoff.MountFile, handoff.MountSymlink:
		if v.by.Bound && m.Dispensable() {
			if _, err := v.by.Host.Inspect(m.Dst); err != nil {
				return
			}
		}
		v.made[m.Dst] = *m
		v.ways = append(v.ways, m.Dst)
		return
	case handoff.MountReadOnly:
		if _, found := v.look(m.Dst); found {
			v.less = append(v.less, m.Dst)
		}
		return
	case handoff.MountPin:
		return
	case handoff.MountMask:
		n, found := v.look(m.Dst)
		if !found {
			return
		}
		l.mask, l.readOnly, l.noExec, l.dir = true, true, true, n.Mode.IsDir()
	case handoff.MountBind:
		if _, err := v.by.Host.Inspect(m.Src); err != nil && m.Optional {
			return
		}
	case handoff.MountProc:
		l.src, l.noExec = "/proc", true
	}
	v.layers = append(v.layers, l)
	v.ways = append(v.ways, m.Dst)
}

// node is what is at a path inside.
type node struct {
	hostfs.Inode
	layer  *layer
	at     string        // inside
	source string        // outside; empty is the run's own
	text   string        // of a link
	lower  *hostfs.Inode // of an overlay's root: what it reads as itself
}

// covering is the layer that shows a path.
func (v *View) covering(p string) *layer {
	best := &v.layers[0]
	for i := range v.layers {
		if l := &v.layers[i]; hostfs.Under(p, l.dst) && len(l.dst) >= len(best.dst) {
			best = l
		}
	}
	return best
}

// look gives what is at a path that has no link on its way.
func (v *View) look(p string) (n node, found bool) {
	l := v.covering(p)
	n = node{layer: l, at: p}
	if l.mask {
		n.Path, n.UID, n.GID, n.ReadOnly, n.NoExec = p, v.by.UID, v.by.GID, true, true
		if l.dir {
			n.Mode = fs.ModeDir
		}
		return n, p == l.dst
	}
	switch l.kind {
	case handoff.MountBeneath:
		n, found = v.over(n)
	case handoff.MountBind, handoff.MountOverlay, handoff.MountProc:
		n, found = v.outside(n)
	default:
		n, found = v.own(n)
	}
	n.ReadOnly = n.ReadOnly || l.readOnly || slices.ContainsFunc(v.less, func(d string) bool {
		return hostfs.Under(p, d) && hostfs.Under(d, l.dst)
	})
	n.NoExec = n.NoExec || l.noExec
	return n, found
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

// over looks at what lies over a tree of the caller's, and then at that.
func (v *View) over(n node) (node, bool) {
	m, made := v.made[n.at]
	if made && m.Kind != handoff.MountDir {
		return v.own(n)
	}
	if slices.ContainsFunc(v.absent, func(at string) bool { return hostfs.Under(n.at, at) && (!made || n.at != at) }) {
		return n, false
	}
	below, found := v.outside(n)
	if !made && !slices.ContainsFunc(v.ways, func(d string) bool { return hostfs.Under(d, n.at) }) {
		return below, found
	}
	return v.own(n) // a directory that has both
}

// outside looks at a file of the caller's.
func (v *View) outside(n node) (node, bool) {
	l := n.layer
	if m, ok := v.made[n.at]; ok && l.dst == "/" && !v.by.Bare { // put into a prepared tree
		n.Mode, n.UID, n.GID, n.text = fs.FileMode(m.Mode), v.by.UID, v.by.GID, m.Text
		return n, m.Kind == handoff.MountFile
	}
	n.source = hostfs.Rebase(n.at, l.dst, l.src)
	inode, err := v.by.Host.Inspect(n.source)
	if err != nil {
		return n, false
	}
	n.Inode = inode
	n.NoDev = !v.by.Bare && !l.device || v.by.Bare && inode.NoDev
	if l.kind == handoff.MountOverlay {
		n.ReadOnly, n.NoExec = false, false // of a mount that is another's
		if n.at == l.dst {
			n.lower = &inode
			n.UID, n.GID, n.ACL = v.by.UID, v.by.GID, nil // the upper directory, which was made
		}
	}
	if n.Mode.Type() == fs.ModeSymlink {
		if n.text, err = v.by.Host.Readlink(n.source); err != nil {
			return n, false
		}
	}
	return n, true
}

// own looks at what was made for the run.
func (v *View) own(n node) (node, bool) {
	n.UID, n.GID = v.by.UID, v.by.GID
	if n.at == n.layer.dst {
		n.Mode = fs.ModeDir | fs.FileMode(n.layer.mode&0o777)
		if n.layer.kind == handoff.MountDevpts {
			n.Mode = fs.ModeDir | 0o755
		}
		return n, true
	}
	if n.layer.kind == handoff.MountDevpts {
		n.Mode = fs.ModeDevice | fs.ModeCharDevice | 0o666
		return n, n.at == path.Join(n.layer.dst, "ptmx")
	}
	if m, ok := v.made[n.at]; ok {
		switch n.Mode = fs.FileMode(m.Mode & 0o777); m.Kind {
		case handoff.MountDir:
			n.Mode |= fs.ModeDir
		case handoff.MountSymlink:
			n.Mode, n.text = fs.ModeSymlink|0o777, m.Text
		}
		return n, true
	}
	n.Mode = fs.ModeDir | 0o755
	return n, slices.ContainsFunc(v.ways, func(d string) bool { return hostfs.Below(d, n.at) })
}

// ofProcess: a part of /proc that is about one process, of which none is there yet.
func (n *node) ofProcess() bool {
	if n.layer.kind != handoff.MountProc && !strings.HasPrefix(n.source, "/proc/") {
		return false
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(n.source, "/proc/"), "/")
	return first == "self" || first == "thread-self" || first != "" && strings.Trim(first, "0123456789") == ""
}
