package view

import (
	"slices"
	"strings"

	"github.com/confine-run/confine/internal/hostfs"
)

// Finish leaves out of the draft what doesn't show: what is made where a tree is shown, links that such
// a tree has itself, what is hidden or protected in something hidden. What is left can be taken entry by entry.
func (d *Draft) Finish() {
	slices.SortStableFunc(d.Grants, func(a, b Grant) int { return hostfs.ComparePaths(a.Dst, b.Dst) })
	dropped := d.finishLinks()
	d.Made = slices.DeleteFunc(d.Made, func(m Made) bool {
		return d.occupied(&m) || m.Kind == Dir && slices.Contains(dropped, m.Dst)
	})
	d.finishInstead()
	d.Hidden = slices.DeleteFunc(d.Hidden, func(h Hidden) bool { return d.moot(h.Dst) })
	d.Protected = slices.DeleteFunc(d.Protected, func(p Protected) bool { return d.Masked(p.Dst) })
	for i := range d.Grants {
		if g := &d.Grants[i]; !g.Beneath { // whose rule says more
			d.RuleOf(g.Origin, g.Dst, g.Access.String(), g.Why)
		}
	}
	slices.SortStableFunc(d.Rules, func(a, b Rule) int { return hostfs.ComparePaths(a.Path, b.Path) })
	d.Rules = slices.Compact(d.Rules)
}

// occupied: the place of something that is made belongs to a tree that is shown.
func (d *Draft) occupied(m *Made) bool {
	g := d.Nearest(m.Dst)
	switch {
	case g == nil || g.Access == Private || g.Root || g.Beneath:
		return false
	case m.Kind == Dir || m.Kind == File || m.Kind == Link:
		return true
	}
	return g.Dst == m.Dst
}

// finishLinks leaves the symbolic links that names lead through, where a shown
// tree doesn't have them already. A directory that is made gives way to one.
func (d *Draft) finishLinks() (dropped []string) {
	slices.SortStableFunc(d.Links, func(a, b hostfs.Link) int { return hostfs.ComparePaths(a.At, b.At) })
	last := ""
	d.Links = slices.DeleteFunc(d.Links, func(l hostfs.Link) bool {
		if l.At == last || hostfs.Under(l.At, "/proc") || strings.IndexByte(l.Target, 0) >= 0 || d.AnyUnder(l.At) {
			return true
		}
		if g := d.Nearest(l.At); g != nil && g.Access != Private {
			return true
		}
		if slices.ContainsFunc(d.Made, func(m Made) bool { return m.Kind != Dir && hostfs.Under(m.Dst, l.At) }) {
			return true
		}
		last = l.At
		dropped = append(dropped, l.At)
		return false
	})
	return dropped
}

// finishInstead leaves of what stands in for a grant beneath what has a place: nothing else is there.
func (d *Draft) finishInstead() {
	over := slices.IndexFunc(d.Grants, func(g Grant) bool { return g.Beneath })
	if over < 0 {
		d.Instead, d.InsteadLinks, d.Absent = nil, nil, nil
		return
	}
	taken := map[string]bool{}
	for i := range d.Grants {
		taken[d.Grants[i].Dst] = !d.Grants[i].Root || taken[d.Grants[i].Dst]
	}
	for i := range d.Made {
		taken[d.Made[i].Dst] = true
	}
	for _, l := range d.Links {
		taken[l.At] = true
	}
	gone := func(at string) bool {
		if taken[at] || d.Masked(at) || d.hiddenAt(at) {
			return true
		}
		taken[at] = true
		return false
	}
	d.Instead = slices.DeleteFunc(d.Instead, func(g Grant) bool { return gone(g.Dst) })
	d.InsteadLinks = slices.DeleteFunc(d.InsteadLinks, func(l hostfs.Link) bool { return gone(l.At) })
	d.Absent = slices.DeleteFunc(d.Absent, func(h Hidden) bool { return gone(h.Dst) })
	for i := range d.Absent {
		// What was named in it is shown in a place of its own.
		h := &d.Absent[i]
		if h.Open = slices.ContainsFunc(d.Grants, func(g Grant) bool { return hostfs.Below(g.Dst, h.Dst) }); h.Open {
			d.Made = slices.DeleteFunc(d.Made, func(m Made) bool {
				return hostfs.Below(m.Dst, h.Dst) && (m.Kind == Dir || m.Kind == File || m.Kind == Link)
			})
			below := func(l hostfs.Link) bool { return hostfs.Below(l.At, h.Dst) }
			d.Links, d.InsteadLinks = slices.DeleteFunc(d.Links, below), slices.DeleteFunc(d.InsteadLinks, below)
		}
	}
}
