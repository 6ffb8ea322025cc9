package landlock

import (
	"io/fs"
	"slices"
	"strings"

	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/view"
)

// kind is what a view has at a place, as far as rules know it.
type kind uint8

const (
	tree       kind = iota + 1 // of the caller's
	overlay                    // over one
	private                    // writable, and empty at first
	sized                      // the same, of its own size
	processes                  // proc
	terminals                  // devpts
	ownFile                    // of the run's own
	hidden                     // nothing can be opened
	restricted                 // what is there is read-only
)

// place is one entry of a view.
type place struct {
	kind     kind
	dst      string
	src      hostfs.File
	readOnly bool
	device   bool
	optional bool
}

// placesOf are those of a view, directories before what is in them, and at one path what shows something
// before what takes away. What lies beneath the run's own files is left to the mount namespace.
func placesOf(v *view.View) (all []place) {
	add := func(k kind, dst string) { all = append(all, place{kind: k, dst: dst}) }
	for i := range v.Grants {
		g := &v.Grants[i]
		special := g.Src.Mode.Type() & (fs.ModeDevice | fs.ModeSocket | fs.ModeNamedPipe)
		p := place{tree, g.Dst, g.Src, g.Access == view.Read || special != 0, special&fs.ModeDevice != 0, g.Optional}
		switch {
		case g.Root || g.Beneath:
			continue
		case g.Size > 0:
			p.kind = sized
		case g.Access == view.Private:
			p.kind = private
		case g.Access == view.Overlay:
			p.kind = overlay
		}
		all = append(all, p)
	}
	for i := range v.Made {
		m := &v.Made[i]
		switch m.Kind {
		case view.Device:
			all = append(all, place{kind: tree, dst: m.Dst, src: m.Src, readOnly: true, device: true})
		case view.Scratch:
			add(private, m.Dst)
		default:
			if k, ok := map[view.Kind]kind{view.File: ownFile, view.Processes: processes, view.Terminals: terminals,
				view.KernelMask: hidden, view.KernelPart: restricted}[m.Kind]; ok {
				add(k, m.Dst)
			}
		}
	}
	for _, h := range slices.Concat(v.Hidden, v.Absent) {
		if h.Open {
			add(private, h.Dst)
		}
	}
	for i := range v.Hidden {
		if h := &v.Hidden[i]; !h.Open {
			add(hidden, h.Dst)
		}
	}
	for i := range v.Protected {
		switch p := &v.Protected[i]; p.Keep {
		case view.Shown:
			all = append(all, place{kind: tree, dst: p.Dst, src: p.Src, readOnly: true})
		case view.ReadOnly:
			add(restricted, p.Dst)
		case view.Masked:
			add(hidden, p.Dst)
		}
	}
	slices.SortStableFunc(all, func(a, b place) int { return strings.Compare(key(a.dst), key(b.dst)) })
	return all
}
