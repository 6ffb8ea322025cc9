package view

import (
	"io/fs"
	"path"

	"github.com/confine-run/confine/internal/hostfs"
)

// Excess is something of the host's that one view shows and another doesn't, or not so much of it.
type Excess struct {
	Grant  Grant  // that shows it
	Path   string // outside
	Access Access // how it is shown
	Most   Access // how the other shows it; private: not at all
	// Pin: both show it as writable, and only the other keeps it from being renamed or removed.
	Pin bool
}

// Wider finds something that v shows of the host's files and most doesn't, or with less access; nil is nothing. Places inside
// don't matter: a file is what it is outside, wherever it is shown.
//
// Along a path outside, what a view grants changes only where a grant begins or something is hidden or protected. So it is enough
// to ask at the root of each grant of v, and at each place below it where most changes. A place that has several names (in
// a directory that folds case, or mounted twice) is found by its number, too.
func (v *View) Wider(most *View, h hostfs.Host) *Excess {
	c := comparison{host: h, some: reachOf(v), most: reachOf(most), numbers: map[string]number{}}
	c.changes()
	for i := range c.some.grants {
		g := &c.some.grants[i]
		if g.Access == Private {
			continue
		}
		if x := c.grant(g); x != nil {
			return x
		}
	}
	return nil
}

// reach is a view as far as it shows files of the host's: what the run has of its own covers them, and shows none.
type reach struct {
	grants []Grant
	hidden map[string]bool
	kept   map[string]Keep
}

func reachOf(v *View) *reach {
	r := &reach{hidden: map[string]bool{}, kept: map[string]Keep{}}
	r.grants = append(append(r.grants, v.Grants...), v.Instead...)
	for i := range v.Made {
		m := &v.Made[i]
		switch m.Kind {
		case Dir:
		case Device:
			r.grants = append(r.grants, Grant{Dst: m.Dst, Src: m.Src, Access: Write, Why: "device"})
		default:
			r.grants = append(r.grants, Grant{Dst: m.Dst})
		}
	}
	for i := range v.Protected {
		p := &v.Protected[i]
		if p.Keep == Shown {
			r.grants = append(r.grants, Grant{Dst: p.Dst, Src: p.Src, Access: Read, Explicit: true, Mount: true, Why: p.Why, Origin: p.Origin})
		}
		r.kept[p.Dst] = max(r.kept[p.Dst], p.Keep)
	}
	for _, all := range [][]Hidden{v.Hidden, v.Absent} {
		for i := range all {
			r.hidden[all[i].Dst] = true
		}
	}
	return r
}

// at is how a path inside is shown, and by what.
func (r *reach) at(inside string) (Access, *Grant) {
	g := Nearest(r.grants, inside)
	if g == nil || g.Access == Private {
		return Private, g
	}
	a := g.Access
	for p := inside; len(p) >= len(g.Dst); p = path.Dir(p) {
		switch keep := r.kept[p]; {
		case keep == Masked, len(p) > len(g.Dst) && r.hidden[p]:
			return Private, g
		case keep == ReadOnly:
			a = Read
		}
		if p == "/" {
			break
		}
	}
	return a, g
}

// of is the most access to a path outside.
func (r *reach) of(outside string) (most Access) {
	for i := range r.grants {
		if g := &r.grants[i]; g.Access > most && hostfs.Under(outside, g.Src.Path) {
			if a, by := r.at(hostfs.Rebase(outside, g.Src.Path, g.Dst)); by == g {
				most = max(most, a)
			}
		}
	}
	return most
}

// pins says whether a path outside stays where it is, wherever it is shown with so much access.
func (r *reach) pins(outside string, least Access) bool {
	for i := range r.grants {
		g := &r.grants[i]
		if !hostfs.Under(outside, g.Src.Path) {
			continue
		}
		at := hostfs.Rebase(outside, g.Src.Path, g.Dst)
		if a, by := r.at(at); by == g && a >= least && r.kept[at] == 0 && at != g.Dst {
			return false
		}
	}
	return true
}

// outside are the paths of the host's that are meant by one inside, whatever covers them.
func (r *reach) outside(inside string) (all []string) {
	for i := range r.grants {
		if g := &r.grants[i]; g.Access != Private && hostfs.Under(inside, g.Dst) {
			all = append(all, g.At(inside))
		}
	}
	return all
}

// number is what a file is known by, whatever its name.
type number struct{ dev, ino uint64 }

// alias is a directory, and a place below it at which the other view changes.
type alias struct{ dir, place string }

// comparison is one Wider under way.
type comparison struct {
	host       hostfs.Host
	some, most *reach
	places     map[string]bool // outside, where most changes
	pinned     map[string]bool // those that it pins
	numbers    map[string]number
	above      map[number][]alias // directories above, and at, places
}

// changes finds the places.
func (c *comparison) changes() {
	c.places, c.pinned, c.above = map[string]bool{}, map[string]bool{}, map[number][]alias{}
	add := func(inside string) {
		for _, p := range c.most.outside(inside) {
			c.places[p] = true
		}
	}
	for i := range c.most.grants {
		g := &c.most.grants[i]
		if add(g.Dst); g.Access != Private {
			c.places[g.Src.Path] = true
		}
	}
	for inside := range c.most.hidden {
		add(inside)
	}
	for inside, keep := range c.most.kept {
		add(inside)
		if _, g := c.most.at(inside); keep == Pinned && g != nil && g.Access != Private {
			c.pinned[g.At(inside)] = true
		}
	}
	for place := range c.places {
		for dir := place; dir != "/"; dir = path.Dir(dir) {
			if n := c.numberOf(dir); n != (number{}) {
				c.above[n] = append(c.above[n], alias{dir, place})
			}
		}
	}
}

func (c *comparison) numberOf(name string) number {
	n, known := c.numbers[name]
	if !known {
		if f, err := c.host.Lstat(name); err == nil {
			n = number{f.Dev, f.Ino}
		}
		c.numbers[name] = n
	}
	return n
}

// grant is about one of some.
func (c *comparison) grant(g *Grant) *Excess {
	root := g.Src.Path
	if x := c.place(g, root, root); x != nil {
		return x
	}
	for place := range c.places {
		if hostfs.Below(place, root) {
			if x := c.place(g, place, place); x != nil {
				return x
			}
		}
	}
	// It is, or lies in, something that changes under another name.
	for up := root; up != "/"; up = path.Dir(up) {
		for _, a := range c.above[c.numberOf(up)] {
			if a.dir == a.place && a.dir != up && c.most.of(a.place) < c.most.of(root) {
				if x := c.place(g, root, a.place); x != nil {
					return x
				}
			}
		}
	}
	// Something lies in it that changes, under another name.
	for _, a := range c.above[number{g.Src.Dev, g.Src.Ino}] {
		if a.dir != root && a.dir != a.place {
			if x := c.place(g, hostfs.Rebase(a.place, a.dir, root), a.place); x != nil {
				return x
			}
		}
	}
	return nil
}

// place asks what g shows at a path outside, and whether the other view shows as much at what may be another name of it.
func (c *comparison) place(g *Grant, at, other string) *Excess {
	a, by := c.some.at(hostfs.Rebase(at, g.Src.Path, g.Dst))
	if by != g || a == Private {
		return nil
	}
	x := &Excess{Grant: *g, Path: at, Access: a, Most: c.most.of(other)}
	if a > x.Most || at == g.Src.Path && !c.opens(g) {
		return x
	}
	if c.pinned[other] && a >= Overlay && at != g.Src.Path && c.some.kept[hostfs.Rebase(at, g.Src.Path, g.Dst)] == 0 && c.most.pins(other, a) {
		x.Pin = true
		return x
	}
	return nil
}

// opens: a device works only where it is shown by itself, and then for writing, too.
func (c *comparison) opens(g *Grant) bool {
	if g.Src.Mode.Type()&fs.ModeDevice == 0 {
		return true
	}
	for i := range c.most.grants {
		m := &c.most.grants[i]
		if m.Access != Private && m.Src.Path == g.Src.Path && m.Src.Mode.Type()&fs.ModeDevice != 0 {
			return true
		}
	}
	return false
}
