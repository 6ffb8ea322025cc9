// Package explain answers what the target of a [view.View] finds at a path, and whether it may read, write,
// make or execute it: as the kernel would once the view is mounted. It reads the caller's files where the view
// shows them, and changes nothing.
package explain

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/view"
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

// Checker says what the target of a view finds at paths, and what it may do there, with
// the caller's files where an entry shows them.
type Checker struct {
	by       Viewer
	view     *view.View
	layers   []layer              // by place, what is shallower first; at one place the last one shows
	readOnly []string             // parts of what is shown
	made     map[string]view.Made // directories, files and links of the run's own
	places   []string             // of all entries: the directories that lead to them are there
	absent   []string             // of what lies beneath
}

// kind is what a layer shows.
type kind uint8

const (
	privateRoot kind = iota
	private
	tree
	overlay
	beneath // a tree, and over it what is made for the run
	processes
	terminals
	mask
)

// layer is something that is shown at a place and below.
type layer struct {
	kind     kind
	dst, src string
	mode     uint32
	readOnly bool
	device   bool
	noExec   bool
	others   bool // only what every user may read
	dir      bool // of a mask: what it hides is one
}

// New looks at a view as the target will.
func New(v *view.View, by Viewer) *Checker {
	c := &Checker{by: by, view: v, made: make(map[string]view.Made)}
	if by.Bare {
		c.layers = []layer{{kind: tree, dst: "/", src: "/"}}
		return c
	}
	c.layers = append(c.layers, layer{dst: "/", mode: 0o755, readOnly: true})
	for i := range v.Grants {
		if g := &v.Grants[i]; g.Root {
			c.layers[0] = layer{kind: overlay, dst: "/", src: g.Src.Path, readOnly: v.RootReadOnly}
		} else {
			c.grant(g)
		}
	}
	for i := range v.Made {
		c.make(&v.Made[i])
	}
	for _, l := range v.Links {
		c.make(&view.Made{Kind: view.Link, Dst: l.At, Text: l.Target})
	}
	if by.NoBeneath {
		for i := range v.Instead {
			c.grant(&v.Instead[i])
		}
		for _, l := range v.InsteadLinks {
			c.make(&view.Made{Kind: view.Link, Dst: l.At, Text: l.Target})
		}
	}
	for i := range v.Absent {
		c.leaveOut(&v.Absent[i])
	}
	for i := range v.Hidden {
		c.hide(v.Hidden[i].Dst, v.Hidden[i].Open)
	}
	for i := range v.Protected {
		c.protect(&v.Protected[i])
	}
	return c
}

// add has a layer shown, and what leads to it.
func (c *Checker) add(l layer) {
	c.layers = append(c.layers, l)
	c.places = append(c.places, l.dst)
}

// grant shows a tree.
func (c *Checker) grant(g *view.Grant) {
	l := layer{kind: tree, dst: g.Dst, src: g.Src.Path, mode: g.Mode, readOnly: g.Access == view.Read}
	switch kind := g.Src.Mode.Type(); {
	case g.Access == view.Private:
		l.kind, l.src = private, ""
	case g.Beneath && c.by.NoBeneath:
		return
	case g.Beneath:
		l.kind, l.mode, l.others = beneath, 0o755, c.by.UID == 0
	case g.Access == view.Overlay:
		l.kind = overlay
	default:
		if _, err := c.by.Host.Inspect(l.src); err != nil && g.Optional {
			return
		}
		l.readOnly = l.readOnly || kind&(fs.ModeDevice|fs.ModeSocket|fs.ModeNamedPipe) != 0
		l.device = kind&fs.ModeDevice != 0
	}
	c.add(l)
}

// make puts something of the run's own in its place.
func (c *Checker) make(m *view.Made) {
	switch m.Kind {
	case view.Device:
		c.add(layer{kind: tree, dst: m.Dst, src: m.Src.Path, readOnly: true, device: true})
	case view.Terminals:
		c.add(layer{kind: terminals, dst: m.Dst})
	case view.Processes:
		c.add(layer{kind: processes, dst: m.Dst, src: "/proc", noExec: true})
	case view.Scratch:
		c.add(layer{kind: private, dst: m.Dst, mode: m.Mode, readOnly: m.ReadOnly})
	case view.KernelMask:
		c.hide(m.Dst, false)
	case view.KernelPart:
		c.keep(m.Dst)
	default:
		if entry := (handoff.Mount{Kind: handoff.MountFile, Dst: m.Dst, Text: m.Text}); m.Kind == view.File && c.by.Bound && entry.Dispensable() {
			if _, err := c.by.Host.Inspect(m.Dst); err != nil {
				return
			}
		}
		c.made[m.Dst] = *m
		c.places = append(c.places, m.Dst)
	}
}

// leaveOut takes a name from what lies beneath; where that is bound, something empty is there.
func (c *Checker) leaveOut(h *view.Hidden) {
	if h.Open {
		c.add(layer{kind: private, dst: h.Dst, mode: 0o555})
		return
	}
	c.absent = append(c.absent, h.Dst)
	if inode, err := c.by.Host.Inspect(h.Dst); err == nil && c.by.Bound {
		c.made[h.Dst] = view.Made{Kind: view.File, Dst: h.Dst, Mode: 0o444}
		if inode.Mode.IsDir() {
			c.made[h.Dst] = view.Made{Kind: view.Dir, Dst: h.Dst, Mode: 0o555}
		}
	}
}

// hide puts something empty over what is at a path, if anything.
func (c *Checker) hide(at string, open bool) {
	if open {
		c.add(layer{kind: private, dst: at, mode: 0o555})
	} else if n, found := c.look(at); found {
		c.add(layer{kind: mask, dst: at, readOnly: true, noExec: true, dir: n.Mode.IsDir()})
	}
}

// keep makes what is at a path read-only.
func (c *Checker) keep(at string) {
	if _, found := c.look(at); found {
		c.readOnly = append(c.readOnly, at)
	}
}

func (c *Checker) protect(p *view.Protected) {
	switch p.Keep {
	case view.ReadOnly:
		c.keep(p.Dst)
	case view.Masked:
		c.hide(p.Dst, false)
	case view.Shown:
		c.add(layer{kind: tree, dst: p.Dst, src: p.Src.Path, readOnly: true})
	}
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
func (c *Checker) covering(p string) *layer {
	best := &c.layers[0]
	for i := range c.layers {
		if l := &c.layers[i]; hostfs.Under(p, l.dst) && len(l.dst) >= len(best.dst) {
			best = l
		}
	}
	return best
}

// look gives what is at a path that has no link on its way.
func (c *Checker) look(p string) (n node, found bool) {
	l := c.covering(p)
	n = node{layer: l, at: p}
	if l.kind == mask {
		n.Path, n.UID, n.GID, n.ReadOnly, n.NoExec = p, c.by.UID, c.by.GID, true, true
		if l.dir {
			n.Mode = fs.ModeDir
		}
		return n, p == l.dst
	}
	switch l.kind {
	case beneath:
		n, found = c.over(n)
	case tree, overlay, processes:
		n, found = c.outside(n)
	default:
		n, found = c.own(n)
	}
	n.ReadOnly = n.ReadOnly || l.readOnly || slices.ContainsFunc(c.readOnly, func(d string) bool {
		return hostfs.Under(p, d) && hostfs.Under(d, l.dst)
	})
	n.NoExec = n.NoExec || l.noExec
	return n, found
}

// over looks at what lies over a tree of the caller's, and then at that.
func (c *Checker) over(n node) (node, bool) {
	m, made := c.made[n.at]
	if made && m.Kind != view.Dir {
		return c.own(n)
	}
	if slices.ContainsFunc(c.absent, func(at string) bool { return hostfs.Under(n.at, at) && (!made || n.at != at) }) {
		return n, false
	}
	below, found := c.outside(n)
	if !made && !slices.ContainsFunc(c.places, func(d string) bool { return hostfs.Under(d, n.at) }) {
		return below, found
	}
	return c.own(n) // a directory that has both
}

// outside looks at a file of the caller's.
func (c *Checker) outside(n node) (node, bool) {
	l := n.layer
	if m, ok := c.made[n.at]; ok && l.dst == "/" && !c.by.Bare { // put into a prepared tree
		n.Mode, n.UID, n.GID, n.text = fs.FileMode(m.Mode), c.by.UID, c.by.GID, m.Text
		return n, m.Kind == view.File
	}
	n.source = hostfs.Rebase(n.at, l.dst, l.src)
	inode, err := c.by.Host.Inspect(n.source)
	if err != nil {
		return n, false
	}
	n.Inode = inode
	n.NoDev = !c.by.Bare && !l.device || c.by.Bare && inode.NoDev
	if l.kind == overlay {
		n.ReadOnly, n.NoExec = false, false // of a mount that is another's
		if n.at == l.dst {
			n.lower = &inode
			n.UID, n.GID, n.ACL = c.by.UID, c.by.GID, nil // the upper directory, which was made
		}
	}
	if n.Mode.Type() == fs.ModeSymlink {
		if n.text, err = c.by.Host.Readlink(n.source); err != nil {
			return n, false
		}
	}
	return n, true
}

// own looks at what was made for the run.
func (c *Checker) own(n node) (node, bool) {
	n.UID, n.GID = c.by.UID, c.by.GID
	if n.at == n.layer.dst {
		n.Mode = fs.ModeDir | fs.FileMode(n.layer.mode&0o777)
		if n.layer.kind == terminals {
			n.Mode = fs.ModeDir | 0o755
		}
		return n, true
	}
	if n.layer.kind == terminals {
		n.Mode = fs.ModeDevice | fs.ModeCharDevice | 0o666
		return n, n.at == path.Join(n.layer.dst, "ptmx")
	}
	if m, ok := c.made[n.at]; ok {
		switch n.Mode = fs.FileMode(m.Mode & 0o777); m.Kind {
		case view.Dir:
			n.Mode |= fs.ModeDir
		case view.Link:
			n.Mode, n.text = fs.ModeSymlink|0o777, m.Text
		}
		return n, true
	}
	n.Mode = fs.ModeDir | 0o755
	return n, slices.ContainsFunc(c.places, func(d string) bool { return hostfs.Below(d, n.at) })
}

// ofProcess: a part of /proc that is about one process, of which none is there yet.
func (n *node) ofProcess() bool {
	if n.layer.kind != processes && !strings.HasPrefix(n.source, "/proc/") {
		return false
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(n.source, "/proc/"), "/")
	return first == "self" || first == "thread-self" || first != "" && strings.Trim(first, "0123456789") == ""
}
