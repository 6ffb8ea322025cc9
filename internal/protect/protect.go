// Package protect keeps a run from changing what programs outside it execute or read as configuration: git
// hooks, start-up files of shells and editors, policies. data.go lists the paths.
//
//   - [Protector] adds them to a view in the making, wherever something is writable.
//   - [Trusted] answers later, of a tree that a run has changed, what else they execute or read although
//     its name doesn't show it.
//
// Protected is the root of each writable tree, its git directory, submodules and worktrees, and
// what protected links lead to; not other repositories further down.
package protect

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/confine-run/confine/internal/gitdir"
	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/names"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/internal/secrets"
	"github.com/confine-run/confine/internal/view"
)

const (
	whyProtected = "protected"
	whyPinned    = "something below it has to stay where it is"
)

// Protector makes those paths read-only, keeps missing ones absent, and pins the directories above them.
type Protector struct {
	*names.Resolver
	plan.Guarded
	git          *gitdir.Reader
	at           map[string]int  // indices of Protected, by path
	targets      linkTargets     // what protected links lead to
	absent       map[string]bool // what is kept so, outside
	cleared      map[string]bool // what is kept clear
	ProtectsLess bool            // not all is protected that would have to be; a notice says what not
}

func New(r *names.Resolver, git *gitdir.Reader) *Protector {
	return &Protector{Resolver: r, git: git, at: make(map[string]int), targets: newLinkTargets(), absent: make(map[string]bool), cleared: make(map[string]bool)}
}

// protectedBy is the origin of what is protected for a reason.
func protectedBy(why string) view.Origin {
	if why == whyProtected {
		return view.Origin{Option: view.FromProtect}
	}
	return view.Origin{}
}

// Protect protects these paths in writable trees. Overlays and private places need nothing: they are
// thrown away.
func (c *Protector) Protect() error {
	trees := make(map[string]bool)
	var later []func()
	for i := range c.Asked { // a tree inside another one was named, and is a root of its own
		g := c.Asked[i]
		if g.Access != view.Write || trees[g.Dst] {
			continue
		}
		trees[g.Dst] = true
		if !g.Src.Mode.IsDir() || g.Git { // that one is protected with the tree that it belongs to
			continue
		}
		for _, p := range c.In.Protect {
			if rel := path.Clean("/" + p); rel != "/" && !strings.HasPrefix(p, secrets.InHomes) {
				c.protectIn(g.Src.Path, rel[1:], whyProtected)
			}
		}
		later = append(later, c.protectGit(g.Src.Path))
	}
	if len(trees) == 0 {
		return nil
	}
	for _, p := range c.In.ConfigFiles {
		c.protectNamed(p, "policy file in use")
	}
	c.protectHome()
	c.protectOwn()
	c.protectTargets()
	for _, protect := range later {
		protect()
	}
	c.protectTargets()
	c.tellHidden()
	c.pinNested()
	c.writablePlaces()
	return nil
}

// writablePlaces notes what the target can write to, and leaves out indexes that it can't.
func (c *Protector) writablePlaces() {
	t := &c.Guarded
	if len(t.GitIndexes) == 0 {
		return
	}
	note := func(inside string, of *view.Grant, writable bool) {
		if of != nil && of.Access == view.Write {
			t.Places = append(t.Places, plan.Place{Path: of.At(inside), Writable: writable})
		}
	}
	for i := range c.Grants {
		g := &c.Grants[i]
		note(g.Dst, g, true)
		if g.Access != view.Write && g.Dst != "/" {
			note(g.Dst, c.Nearest(path.Dir(g.Dst)), false)
		}
	}
	for i := range c.View.Hidden {
		note(c.View.Hidden[i].Dst, c.Nearest(c.View.Hidden[i].Dst), false)
	}
	for i := range c.Protected {
		if m := &c.Protected[i]; m.Keep != view.Pinned {
			note(m.Dst, c.Nearest(m.Dst), false)
		}
	}
	t.GitIndexes = slices.DeleteFunc(t.GitIndexes, func(x plan.GitIndex) bool {
		return !plan.Writable(t.Places, x.Dir) && !plan.Writable(t.Places, x.Common)
	})
}

// protectOwn protects what confine itself keeps of the caller's. Whoever could write there would
// decide about later runs, or have apply write anywhere.
func (c *Protector) protectOwn() {
	for _, own := range names.OwnDirs(c.In.Env, c.In.HomeDir) {
		c.protectNamed(own, whyPolicy)
	}
}

// protectNamed protects what a name of the caller's leads to, if it is there or not, and each
// link on the way. It gives where the name ends.
func (c *Protector) protectNamed(name, why string) (end string) {
	if !path.IsAbs(name) {
		if c.CwdErr != nil {
			return ""
		}
		name = c.Cwd.Path + "/" + name
	}
	w := hostfs.Trace(c.Host, name)
	c.protectWay(&w, why)
	return w.End
}

// protectWay protects the links that a name leads through, and where it ends. What it turns
// around in stays where it is, and keeps what is in it.
func (c *Protector) protectWay(w *hostfs.Way, why string) {
	for _, l := range w.Links {
		c.protectIn("/", l.At[1:], why)
	}
	for _, dir := range w.Turns {
		c.keepInPlace(dir)
	}
	if w.End != "" {
		c.protectIn("/", w.End[1:], why)
	}
}

// keepInPlace keeps a directory of the caller's in its place in a writable tree; one that is missing
// stays so, or becomes a directory, and no link.
func (c *Protector) keepInPlace(dir string) {
	missing := ""
	for at := dir; at != "/"; at = path.Dir(at) {
		if _, err := c.Host.Lstat(at); !hostfs.Absent(err) {
			break
		}
		missing = at
	}
	for i := range c.Grants {
		g := &c.Grants[i]
		if g.Access != view.Write || !hostfs.Below(dir, g.Src.Path) {
			continue
		}
		if missing == "" {
			c.pinDir(hostfs.Rebase(dir, g.Src.Path, g.Dst))
			continue
		}
		c.keepClear(missing, strings.TrimPrefix(dir+"/.", missing+"/"))
		c.pinDir(hostfs.Rebase(path.Dir(missing), g.Src.Path, g.Dst))
	}
}

// pinDir keeps what is at a path in its place, where that is writable.
func (c *Protector) pinDir(at string) {
	if up := c.Nearest(at); up != nil && up.Access == view.Write && !c.Masked(at) {
		c.pins(up, at)
	}
}

// protectIn protects rel below root, both of the caller's, wherever it is writable
// inside. root is canonical.
func (c *Protector) protectIn(root, rel, why string) {
	for i := range c.Grants {
		g := &c.Grants[i]
		if g.Access != view.Write || !g.Src.Mode.IsDir() {
			continue
		}
		switch {
		case hostfs.Under(root, g.Src.Path):
			c.protectAt(g, hostfs.Rebase(root, g.Src.Path, g.Dst), rel, why)
		case hostfs.Under(path.Join(root, rel), g.Src.Path):
			// The tree begins on the way.
			full := path.Join(root, rel)
			if full != g.Src.Path {
				c.protectAt(g, g.Dst, full[len(g.Src.Path)+1:], why)
			}
		}
	}
}

// protectAt walks down from dir, which g shows, to rel.
func (c *Protector) protectAt(g *view.Grant, dir, rel, why string) {
	at := dir
	c.pins(g, at)
	for rest := rel; rest != ""; {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		at = path.Join(at, name)
		n := c.Nearest(at)
		if n == nil || n.Access != view.Write || c.Masked(at) {
			return // not writable here
		}
		if rest == "" && c.Named(at, view.Write) {
			return
		}
		outside := n.At(at)
		if c.cleared[outside] { // many protected paths are in a directory that isn't there
			c.keepAbsent(path.Join(outside, rest), path.Join(at, rest), why)
			c.keepClear(outside, rest)
			return
		}
		f, err := c.Host.Lstat(outside)
		mode := f.Mode
		switch {
		case hostfs.Absent(err):
			c.keepAbsent(path.Join(outside, rest), path.Join(at, rest), why)
			c.keepClear(outside, rest)
			return
		case err != nil:
			c.protectUnsearchable(n, at, err, why)
			return
		case mode.Type() == fs.ModeSymlink:
			c.protectLink(n, at, rest, why)
			return
		case rest == "", !mode.IsDir(): // a file on the way would make room for a link, or leads git elsewhere
			if m := c.entry(at); m != nil && m.Keep == view.ReadOnly {
				return // by another name below it
			}
			c.set(view.ReadOnly, at, why)
			c.mustExist(at, f.Ino)
			c.covered(outside, f)
			c.Reinstate(at)
			c.RuleOf(protectedBy(why), at, view.RuleProtected, why)
			if mode.IsDir() {
				c.targets.dirs = append(c.targets.dirs, linkDir{outside, why})
			}
			return
		}
		c.pin(at, outside)
	}
}

// pin keeps a directory in its place.
func (c *Protector) pin(at, outside string) {
	if n := len(c.Protected); c.entry(at) == nil {
		if c.set(view.Pinned, at, whyPinned); len(c.Protected) > n {
			c.Covered = append(c.Covered, plan.Covered{Path: outside})
		}
	}
}

// covered notes what a protected path is.
func (c *Protector) covered(outside string, f hostfs.File) {
	c.Covered = append(c.Covered, plan.Covered{Path: outside, Dev: f.Dev, Ino: f.Ino, Born: f.Born})
}

// protectUnsearchable is about a name that can't be looked at. What can be nowhere needs nothing.
// Otherwise this user can't search the directory, but may own it, and open it again: that
// stays as it is.
func (c *Protector) protectUnsearchable(g *view.Grant, at string, err error, why string) {
	if dir := path.Dir(at); hostfs.Denied(err) && hostfs.Below(dir, g.Dst) {
		c.set(view.ReadOnly, dir, why)
		c.RuleOf(protectedBy(why), dir, view.RuleProtected, why)
		if f, err := c.Host.Lstat(g.At(dir)); err == nil {
			c.covered(g.At(dir), f)
		}
	}
}

// protectLink protects a symbolic link itself: a mount on it can't be replaced. A link to a
// file that is visible shows that file, read-only. Where the link is on the way, or leads to
// a directory, nowhere, or to what the run doesn't see, something empty hides it. What it
// leads to is protected, too.
func (c *Protector) protectLink(g *view.Grant, at, rest, why string) {
	outside := g.At(at)
	name := path.Join(outside, rest)
	if c.targets.links[name] {
		return // links can lead in a circle
	}
	c.targets.links[name] = true
	if f, err := c.Host.Lstat(outside); err == nil {
		c.covered(outside, f)
	}
	f, err := c.Host.Resolve(outside)
	switch {
	case c.entry(at) != nil && c.entry(at).Keep != view.Pinned:
	case err == nil && rest == "" && f.Mode.IsRegular() && c.shown(f.Path):
		c.set(view.Shown, at, why)
		c.entry(at).Src = f
		c.RuleOf(protectedBy(why), at, view.RuleProtected, why)
	default:
		c.set(view.Masked, at, why)
		c.RuleOf(protectedBy(why), at, view.RuleHidden, why+": a symbolic link that a mount can't make read-only")
		c.targets.hidden = append(c.targets.hidden, at)
	}
	c.protectTarget(name, why)
}

// shown: a file of the caller's can be read inside, by whatever name.
func (c *Protector) shown(outside string) bool {
	for i := range c.Grants {
		g := &c.Grants[i]
		if g.Access == view.Private || !hostfs.Under(outside, g.Src.Path) {
			continue
		}
		inside := hostfs.Rebase(outside, g.Src.Path, g.Dst)
		if n := c.Nearest(inside); n.Dst == g.Dst && !c.Masked(inside) {
			return true
		}
	}
	return false
}

// pins keeps what leads to a protected path from being renamed away with it.
func (c *Protector) pins(g *view.Grant, dir string) {
	for ; hostfs.Below(dir, g.Dst); dir = path.Dir(dir) {
		c.pin(dir, g.At(dir))
	}
}

// pinNested keeps mounts of less access, and what is hidden, in their place in a writable tree:
// with a directory above one renamed, something else could be put at its path, and what
// was there would have another name for the next run, or be removed with a protected one.
func (c *Protector) pinNested() {
	for i := range c.Grants {
		if g := &c.Grants[i]; g.Access != view.Write {
			c.pinAbove(g.Dst)
		}
	}
	for i := range c.View.Hidden {
		c.pinAbove(c.View.Hidden[i].Dst)
	}
}

func (c *Protector) pinAbove(at string) {
	dir := path.Dir(at)
	if up := c.Nearest(dir); up != nil && up.Access == view.Write && !c.Masked(dir) {
		for ; hostfs.Below(dir, up.Dst); dir = path.Dir(dir) {
			c.set(view.Pinned, dir, whyPinned)
		}
	}
}

// set adds one entry, once for each path; a stricter one takes the place of a pin.
func (c *Protector) set(kind view.Keep, at, why string) {
	if m := c.entry(at); m != nil {
		if m.Keep == view.Pinned {
			m.Keep, m.Why, m.Origin = kind, why, protectedBy(why)
		}
		return
	}
	if kind == view.Pinned {
		for i := range c.Grants {
			if c.Grants[i].Dst == at {
				return // a mount point already
			}
		}
	}
	c.at[at] = len(c.Protected)
	c.Protected = append(c.Protected, view.Protected{Dst: at, Keep: kind, Why: why, Origin: protectedBy(why)})
}

// entry is the entry of a path, if there is one.
func (c *Protector) entry(at string) *view.Protected {
	if i, ok := c.at[at]; ok {
		return &c.Protected[i]
	}
	return nil
}

// mustExist: what is protected because it is there has to be there for the child too.
// Otherwise somebody moved it away meanwhile, and another would take its place.
func (c *Protector) mustExist(at string, ino uint64) {
	if m := c.entry(at); m != nil && m.Keep == view.ReadOnly {
		m.Src.Ino = ino
	}
}

// keepClear notes the directories that are missing on the way to a protected path:
// a link or a file planted in their place would lead around the protection.
func (c *Protector) keepClear(outside, rest string) {
	for rest != "" {
		if !c.cleared[outside] {
			c.cleared[outside] = true
			c.KeepClear = append(c.KeepClear, outside)
		}
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		outside = path.Join(outside, name)
	}
}

func (c *Protector) keepAbsent(outside, inside, why string) {
	if c.absent[outside] {
		return
	}
	c.absent[outside] = true
	c.KeepAbsent = append(c.KeepAbsent, outside)
	c.RuleOf(protectedBy(why), inside, view.RuleProtected, why+": kept absent")
}

// protectGit protects what git runs and reads in a tree beside what is plainly in .git. It does so
// only when the policy protects .git at all. What is found by looking into git directories
// is left for later: it doesn't use up any bound before what the caller goes by.
func (c *Protector) protectGit(root string) (later func()) {
	wanted := false
	for _, p := range c.In.Protect {
		wanted = wanted || strings.HasPrefix(p, ".git/")
	}
	if !wanted {
		return func() {}
	}
	s := c.git.Survey(root)
	names := s.Found
	c.GitIndexes = append(c.GitIndexes, s.Indexes...)
	if s.Partial {
		c.protectsLess("not all that git obeys in " + strconv.Quote(root) + " is protected: there is too much of it")
	}
	shield := func(listed bool) {
		for _, n := range names {
			if n.Listed != listed {
				continue
			}
			if end := c.protectNamed(n.Path, n.Why); n.Why == gitdir.WhyNamed && end != "" && hostfs.Under(root, end) {
				c.protectsLess(strconv.Quote(end) + " is not protected, though git's configuration names it: " + strconv.Quote(root) + " is writable")
			}
		}
	}
	shield(false)
	return func() { shield(true) }
}

// protectsLess says what of that which should stay as it is may not.
func (c *Protector) protectsLess(text string) {
	c.Notice(text)
	c.ProtectsLess = true
}

// protectHome protects what counts in the home directory only, wherever that is writable.
func (c *Protector) protectHome() {
	if !c.HomeGiven() {
		return
	}
	for _, p := range c.In.Protect {
		rest, ok := names.AtHome(p)
		if !ok {
			continue
		}
		searched := len(c.targets.dirs)
		c.protectNamed(path.Join(c.In.HomeDir, rest), whyProtected)
		if p == library {
			// Of its thousands of names the links lead about in it.
			c.targets.dirs = c.targets.dirs[:searched]
		}
	}
}
