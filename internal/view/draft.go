package view

import (
	"cmp"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/confine-run/confine/internal/hostfs"
)

// Draft is a View in the making.
type Draft struct {
	View
	In   *Input
	Host hostfs.Host
	// Foreign: it is made for a user other than the caller.
	Foreign bool
	// Asked are the grants as they were before they were settled, sorted.
	Asked []Grant

	hidden  map[string]int // indices of Hidden, by path
	mounted hostfs.Mounts  // of the host, when it was asked for
}

// NewDraft is one in which nothing is shown.
func NewDraft(in *Input) *Draft {
	d := &Draft{In: in, Host: in.Host, hidden: make(map[string]int)}
	d.Grants = make([]Grant, 0, 32)
	d.Made = make([]Made, 0, 64)
	d.Links = make([]hostfs.Link, 0, 16)
	d.Rules = make([]Rule, 0, 64)
	d.Env = make(map[string]string, 8)
	return d
}

// HostMounts is what is mounted on the host; nil is not known.
func (d *Draft) HostMounts() hostfs.Mounts {
	if d.mounted == nil {
		d.mounted = hostfs.ReadMounts(d.Host)
	}
	return d.mounted
}

// RuleOf says in words how a path appears, and by what.
func (d *Draft) RuleOf(o Origin, path, access, why string) {
	d.Rules = append(d.Rules, Rule{path, access, why, o})
}

// Rule is RuleOf for what every run has.
func (d *Draft) Rule(path, access, why string) { d.RuleOf(Origin{}, path, access, why) }

// Notice tells the user something, about paths that aren't shown, if it names any.
func (d *Draft) Notice(text string, about ...string) {
	d.Notices, d.Told = append(d.Notices, text), append(d.Told, about...)
}

// Show makes a tree visible, under the name that it was given by too.
func (d *Draft) Show(g Grant, links []hostfs.Link) {
	g.Dst = cmp.Or(g.Dst, g.Src.Path)
	if g.Src.Mode.Type()&fs.ModeDevice == 0 {
		g.Optional = g.Optional || !g.Explicit && d.Foreign && !g.System
	}
	d.Grants = append(d.Grants, g)
	d.Links = append(d.Links, links...)
}

// Visible says whether a file of the caller's is seen inside under its own name.
func (d *Draft) Visible(canonical string) bool {
	g := d.Nearest(canonical)
	return g != nil && g.Access != Private && g.At(canonical) == canonical
}

// AnyUnder says whether something is granted at a path or below.
func (d *Draft) AnyUnder(dir string) bool {
	return slices.ContainsFunc(d.Grants, func(g Grant) bool { return hostfs.Under(g.Dst, dir) })
}

// AnyShown says whether anything at, below or above a path of the caller's is shown.
func (d *Draft) AnyShown(outside string) bool {
	return slices.ContainsFunc(d.Grants, func(g Grant) bool {
		return g.Access != Private && (hostfs.Under(outside, g.Src.Path) || hostfs.Under(g.Src.Path, outside))
	})
}

// ShownAt is where a path of the caller's is shown.
func (d *Draft) ShownAt(outside string) (found []string) {
	for i := range d.Grants {
		g := &d.Grants[i]
		if g.Access == Private || outside == "" || !hostfs.Under(outside, g.Src.Path) {
			continue
		}
		at := hostfs.Rebase(outside, g.Src.Path, g.Dst)
		if n := d.Nearest(at); n.Access != Private && n.At(at) == outside && !slices.Contains(found, at) {
			found = append(found, at)
		}
	}
	return found
}

// Named says whether the caller named just this path inside, with that access or more.
func (d *Draft) Named(at string, least Access) bool {
	return slices.ContainsFunc(d.Asked, func(g Grant) bool { return g.Dst == at && g.Explicit && g.Access >= least })
}

// Settle sorts the grants, and drops those that change nothing.
func (d *Draft) Settle() error {
	slices.SortStableFunc(d.Grants, func(a, b Grant) int {
		if n := hostfs.ComparePaths(a.Dst, b.Dst); n != 0 {
			return n
		}
		switch {
		case a.beats(&b):
			return -1
		case b.beats(&a):
			return 1
		}
		return 0
	})
	d.Asked = slices.Clone(d.Grants)
	kept := d.Grants[:0]
	var stack []int // of indices of kept, each below the one before
	for _, g := range d.Grants {
		for len(stack) > 0 && !hostfs.Under(g.Dst, kept[stack[len(stack)-1]].Dst) {
			stack = stack[:len(stack)-1]
		}
		if len(stack) > 0 {
			parent := &kept[stack[len(stack)-1]]
			if parent.Dst == g.Dst {
				continue
			}
			changes, err := d.changes(parent, &g)
			if err != nil {
				return err
			}
			if !changes {
				continue
			}
		}
		stack = append(stack, len(kept))
		kept = append(kept, g)
	}
	d.Grants = kept
	return nil
}

// changes says whether g makes a difference below parent, which shows what is
// around it, and whether it can be mounted there at all.
func (d *Draft) changes(parent, g *Grant) (bool, error) {
	if parent.Access == Private || parent.Root || parent.Beneath && (g.Explicit || g.Access == Private) {
		return true, nil
	}
	point := parent.At(g.Dst)
	if g.Access != Private && point == g.Src.Path {
		if g.Explicit {
			return g.Access != parent.Access || g.Src.Mode.Type()&(fs.ModeDevice|fs.ModeSocket) != 0 && !parent.Explicit, nil
		}
		return g.Access > parent.Access, nil
	}
	f, err := d.Host.Lstat(point)
	if err == nil && f.Mode.IsDir() == (g.Access == Private || g.Src.Mode.IsDir()) {
		return true, nil
	}
	if !g.Explicit {
		return false, nil // a private place that isn't there on the host either
	}
	return false, &Error{Option: g.Option, Path: g.Dst, Err: ErrNoTarget,
		Hint: "make " + strconv.Quote(point) + " yourself, or choose a place outside of " + strconv.Quote(parent.Dst)}
}

// Hide takes a path inside out of what is visible. What the caller named below
// it is more specific, and stays.
func (d *Draft) Hide(at, why string, by Origin) {
	if d.hiddenAt(at) {
		return
	}
	d.Grants = slices.DeleteFunc(d.Grants, func(g Grant) bool { return g.Dst == at })
	open := d.Reinstate(at)
	d.RuleOf(by, at, RuleHidden, why)
	if g := d.Nearest(at); g == nil || g.Access == Private {
		return // with the grant itself gone, nothing of the caller's is there
	}
	d.hidden[at] = len(d.Hidden)
	d.Hidden = append(d.Hidden, Hidden{at, open, d.planned(at), why, by})
}

// AcceptAny lets something else than what is there now be at a hidden path when the run starts, or nothing.
func (d *Draft) AcceptAny(at string) {
	if i, ok := d.hidden[at]; ok {
		d.Hidden[i].File = hostfs.File{}
	}
}

// planned is what is at a path inside now, so that the child can tell when it was
// replaced. An overlay gives files other numbers: there only its being there counts.
func (d *Draft) planned(at string) (f hostfs.File) {
	g := d.Nearest(at)
	f, err := d.Host.Lstat(g.At(at))
	if err != nil || g.Beneath { // which may not be there, in the end
		return hostfs.File{}
	}
	if g.Access == Overlay {
		f.Dev = 0
	}
	return f
}

// Reinstate puts back what the caller named below a path, and what Settle
// dropped because it was visible through what is hidden now.
func (d *Draft) Reinstate(at string) (any bool) {
	for i := range d.Asked {
		g := &d.Asked[i]
		if !g.Explicit || !hostfs.Below(g.Dst, at) {
			continue
		}
		any = true
		if !slices.ContainsFunc(d.Grants, func(k Grant) bool { return k.Dst == g.Dst }) {
			d.Grants = append(d.Grants, *g)
		}
	}
	return any
}

// moot says whether nothing is left at a path that is hidden: what showed it is hidden
// itself since then, or something further up.
func (d *Draft) moot(p string) bool {
	g := d.Nearest(p)
	if g == nil || g.Access == Private {
		return true
	}
	for p != "/" {
		if p = path.Dir(p); d.hiddenAt(p) && len(g.Dst) < len(p) {
			return true
		}
	}
	return false
}

// hiddenAt says whether just this path is hidden.
func (d *Draft) hiddenAt(p string) bool {
	_, hidden := d.hidden[p]
	return hidden
}

// Masked says whether a path inside is hidden: by what is hidden above it, which can be much.
func (d *Draft) Masked(p string) bool {
	shown := 0
	if g := d.Nearest(p); g != nil {
		shown = len(g.Dst)
	}
	for ; len(p) > shown; p = path.Dir(p) {
		if d.hiddenAt(p) {
			return true
		}
		if p == "/" {
			break
		}
	}
	return false
}

// Inside follows a path as the target would, as far as the view is known. It
// gives the path that it ends at, and the type of what is there; found is
// whether anything is. A path that loops comes back empty.
func (d *Draft) Inside(name string) (at string, mode fs.FileMode, found bool) {
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
		target, isLink := d.linkInside(next)
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
		mode, found = d.StatInside(at)
	}
	return at, mode, found
}

func (d *Draft) linkInside(p string) (target string, ok bool) {
	if g := d.Nearest(p); g != nil && g.Access != Private {
		if p == g.Dst {
			return "", false
		}
		target, err := d.Host.Readlink(g.At(p))
		return target, err == nil
	}
	for _, l := range d.Links {
		if l.At == p {
			return l.Target, true
		}
	}
	return "", false
}

// StatInside is what is at a path that has no link on its way.
func (d *Draft) StatInside(p string) (fs.FileMode, bool) {
	if d.Masked(p) {
		return 0, false
	}
	if g := d.Nearest(p); g != nil {
		if g.Access != Private {
			f, err := d.Host.Lstat(g.At(p))
			return f.Mode, err == nil
		}
		if g.Dst == p {
			return fs.ModeDir, true
		}
	}
	for i := range d.Made {
		if m := &d.Made[i]; m.Dst == p && m.Kind == File {
			return 0, true
		} else if m.Dst == p && m.Text == "" || hostfs.Below(m.Dst, p) {
			return fs.ModeDir, true
		}
	}
	return fs.ModeDir, slices.ContainsFunc(d.Grants, func(g Grant) bool { return hostfs.Below(g.Dst, p) })
}

// AccessOf is how a path inside is shown; private where nothing of the caller's is.
func (d *Draft) AccessOf(inside string) Access {
	at, _, _ := d.Inside(inside)
	if g := d.Nearest(at); g != nil {
		return g.Access
	}
	return Private
}
