// Package discover shows the tool chains that the caller really uses, read-only: what PATH, some
// variables and the command itself lead to. data.go lists the managers that it knows.
//
// The caller names none of what it finds, so links and files in a tree of work make little else visible:
// [Judge] has the rules, and [Finder] shows what passes them.
package discover

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/names"
	"github.com/confine-run/confine/internal/quote"
	"github.com/confine-run/confine/internal/secrets"
	"github.com/confine-run/confine/internal/view"
)

// Nobody named what discovery comes across. So the tree that a command lies in which is named by its
// path (the directory below the home directory or a like one) is a tree of work for it, too, and so is a home
// directory that is the current one; but no place of the system's or of a known manager's, though
// it may be a checkout. What is reached through a link in one is shown only if it is
//
//   - visible anyway;
//   - a program in the same tree;
//   - in an installed tool chain outside of every tree of work (landmarks).
//
// It is never what the set of secrets has. A pyvenv.cfg decides nothing anywhere: the
// directory that it names has to be an interpreter's.

const (
	// maxFromWork bounds how much discovery shows of trees of work, whose owner could
	// otherwise make a start long.
	maxFromWork = 128
	// maxInterpreters bounds how many interpreters lead from one to the next.
	maxInterpreters = 16
)

// Finder shows the tool chains that the caller uses.
type Finder struct{ *Judge }

// Judge tells who decides that discovery finds something, the caller or a tree of work, and whether that may be
// shown.
type Judge struct {
	*names.Resolver
	Chains     chainState
	found      discovery
	bins       []bin    // what of PATH exists
	LostCaches []string // Table.Caches
}

// discovery is what tool chain discovery knows of trees of work.
type discovery struct {
	trees        names.Trees
	shown        int      // how much of trees of work is shown
	interpreters int      // how many were looked at
	venvs        []string // that were shown
	leftOut      []leftOut
}

// leftOut is something that isn't shown because of who names it.
type leftOut struct{ at, by string }

// workTrees are the trees that count for discovery, known places aside.
func (c *Judge) workTrees() *names.Trees {
	t := &c.found.trees
	if t.Done {
		return t
	}
	c.Trees.Look()
	*t = *c.Trees
	name := c.commandPath()
	if name == "" {
		return t
	}
	f, w, err := c.FindWay(path.Dir(name))
	top, in := f.Path, f.Path
	if len(w.Links) > 0 {
		top = w.Links[0].At // decides where the others are
		in = path.Dir(top)
	}
	if err != nil || c.TooBroad(top) || hostfs.Under(top, "/opt") || c.inPath(path.Dir(path.Clean(name))) ||
		c.workTreeOf(top, in) != "" || c.ofSystem(top) || c.managerDir(top) != "" {
		return t
	}
	for !c.TooBroad(path.Dir(top)) {
		top = path.Dir(top)
	}
	t.Named = append(slices.Clone(t.Named), names.NamedTree{Path: top, Writable: false})
	return t
}

// inPath says whether a directory stands in PATH.
func (c *Judge) inPath(dir string) bool {
	return slices.ContainsFunc(strings.Split(c.In.Env("PATH"), ":"), func(name string) bool { return path.Clean(name) == dir })
}

// workTreeOf is workTrees.of for discovery.
func (c *Judge) workTreeOf(p, dir string) string {
	t := c.workTrees()
	if t.NamedAround(p) == "" && (c.ofSystem(p) || c.managerDir(p) != "") {
		return ""
	}
	best := t.Of(p, dir)
	if best == "" && c.CwdErr == nil && c.Home != "" && c.Cwd.Path == c.Home && hostfs.Under(p, c.Home) {
		return c.Home
	}
	return best
}

// treeOf is workTreeOf for what is no link.
func (c *Judge) treeOf(p string) string { return c.workTreeOf(p, p) }

// ofSystem: the system shows it.
func (c *Judge) ofSystem(p string) bool {
	g := c.Nearest(p)
	return g != nil && g.System && g.Access != view.Private
}

// managerDir is the directory of the known manager that a canonical path lies in, or empty: the
// manager's default, or what the caller's environment says, outside of the trees of work that
// are known by now.
func (c *Judge) managerDir(p string) string {
	inside := func(root string, i int) bool {
		return root != "" && hostfs.Under(p, root) && c.managed(i, root, p) &&
			c.workTrees().NamedAround(root) == "" &&
			!(c.Chains.byEnv[i] && c.Trees.CheckoutOf(path.Dir(root)) != "")
	}
	for i, root := range c.Chains.roots {
		if inside(root, i) {
			return root
		}
	}
	if !c.Chains.realKnown {
		c.Chains.realKnown = true
		for i, root := range c.Chains.roots {
			if f, err := c.Host.Resolve(root); root != "" && err == nil && f.Path != root {
				c.Chains.real[i] = f.Path
			}
		}
	}
	for i, root := range c.Chains.real {
		if inside(root, i) {
			return root
		}
	}
	return ""
}

// managed says whether a path below the root of a manager's directory is what the manager
// installs: others keep things in ~/.local and ~/go.
func (c *Judge) managed(i int, root, p string) bool {
	x := &Chains[i]
	return x.Show == nil || x.Name == "local" && hostfs.Under(p, root+"/lib") ||
		slices.ContainsFunc(x.Show, func(part string) bool { return hostfs.Under(p, root+"/"+part) })
}

// route is where a name leads that discovery came across, and what way.
type route struct {
	file  hostfs.File
	links []hostfs.Link
	// work is the tree of work that decides where it leads, because a link on the way
	// lies in it; "" is none.
	work string
}

// follow resolves a name. What is judged by the links on the way has to be what was opened, so
// a name that leads elsewhere by the time that its links are read leads nowhere.
func (c *Judge) follow(name, by string) (route, error) {
	f, w, err := c.FindWay(name)
	if err != nil {
		return route{}, err
	}
	if names.IsOfKernel(path.Clean(name)) || slices.ContainsFunc(w.Links, func(l hostfs.Link) bool { return names.IsOfKernel(l.At) }) {
		c.leaveOut(path.Clean(name), by) // inside, it is about another process
		return route{}, fs.ErrInvalid
	}
	if w.End != f.Path {
		return route{}, fs.ErrNotExist
	}
	r := route{file: f, links: w.Links}
	for i := range w.Links {
		if r.work = c.workTreeOf(w.Links[i].At, path.Dir(w.Links[i].At)); r.work != "" {
			break
		}
	}
	return r, nil
}

// admit says whether discovery may go on from where a name leads, and shows the tool chain that
// it leads into if need be. by says who named it.
func (c *Finder) admit(r *route, by string) bool {
	at := r.file.Path
	if r.work == "" || c.Visible(at) {
		return true
	}
	if c.secretAt(at) == "" && (c.inTree(r) || c.installed(at, by)) {
		return true
	}
	c.leaveOut(at, by)
	return false
}

// leaveOut notes what isn't shown, for the one notice.
func (c *Judge) leaveOut(at, by string) {
	if l := (leftOut{at, by}); !slices.Contains(c.found.leftOut, l) {
		c.found.leftOut = append(c.found.leftOut, l)
	}
}

// TellLeftOut says what discovery left out.
func (c *Judge) TellLeftOut() error {
	if c.In.Virtual || len(c.found.leftOut) == 0 {
		return nil
	}
	var names []string
	for _, l := range c.found.leftOut {
		if !c.Visible(l.at) && !c.AnyUnder(l.at) {
			c.Rule(l.at, view.RuleHidden, "no tool chain is installed there, though "+l.by+" leads there")
		}
		if !slices.Contains(names, l.at) {
			names = append(names, l.at)
		}
	}
	c.Notice("not shown: "+quote.Some(names)+": "+strconv.Quote(c.found.leftOut[0].by)+
		" leads there, and no tool chain is installed there; --allow-read shows it", names[:min(len(names), quote.Most)]...)
	return nil
}

// inTree: a link leads to a program in the same tree of work, or to the executables of an
// environment there.
func (c *Finder) inTree(r *route) bool {
	f := &r.file
	if !hostfs.Under(f.Path, r.work) || c.treeOf(f.Path) != r.work {
		return false
	}
	if f.Mode.IsDir() {
		return c.isEnvironment(f.Path) || isBin(f.Path) && c.isEnvironment(path.Dir(f.Path))
	}
	return f.Mode.IsRegular() && f.Mode&0o111 != 0
}

// isEnvironment says whether a directory is a virtualenv or a conda environment.
func (c *Judge) isEnvironment(dir string) bool {
	return slices.ContainsFunc(environments[:], func(mark string) bool { return c.hasLandmark(dir, mark) })
}

// installed shows the tool chain that a canonical path lies in, if it is in one that lies in no
// tree of work.
func (c *Finder) installed(at, by string) bool {
	for dir := at; !c.TooBroad(dir); dir = path.Dir(dir) {
		if !c.isToolChain(dir) {
			continue
		}
		if c.treeOf(dir) != "" || c.secretAt(dir) != "" || c.holdsSecrets(dir) {
			return false
		}
		if !c.special(dir, by) {
			c.showPath(dir, "tool chain: "+dir+" ("+by+")")
		}
		return c.Visible(at)
	}
	return false
}

// isToolChain says whether a directory is what an interpreter or a compiler was installed to.
func (c *Judge) isToolChain(dir string) bool {
	return slices.ContainsFunc(landmarks[:], func(mark string) bool { return c.hasLandmark(dir, mark) })
}

// hasLandmark looks for a file below a directory; one component of its path may be a pattern.
func (c *Judge) hasLandmark(dir, mark string) bool {
	before, after, isPattern := strings.Cut(mark, "*")
	if !isPattern {
		f, err := c.Host.Resolve(dir + "/" + mark)
		return err == nil && f.Mode.IsRegular()
	}
	up, start := path.Split(before)
	entries, err := c.Host.ReadDir(path.Join(dir, up))
	if err != nil {
		return false
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name, start) {
			continue
		}
		if f, err := c.Host.Resolve(path.Join(dir, up, e.Name) + after); err == nil && f.Mode.IsRegular() {
			return true
		}
	}
	return false
}

// secretAt is why a canonical path is a secret, or empty.
func (c *Judge) secretAt(at string) string {
	return secrets.Of(c.Host, at, secrets.Homes(at, c.Home)...)
}

// holdsSecrets: the set has something below a directory of the caller's home.
func (c *Judge) holdsSecrets(dir string) bool {
	for rest := range secrets.AtHome() {
		if c.Home != "" && hostfs.Under(c.Home+"/"+rest, dir) {
			return true
		}
	}
	return false
}

// showPrefix shows what a program was installed to. Of a directory in a tree of work it is only
// what installations have: whether one is there, that tree says.
func (c *Finder) showPrefix(prefix, why string) {
	if c.treeOf(prefix) == "" {
		c.showPath(prefix, why)
		return
	}
	for _, part := range parts {
		name := prefix + "/" + part
		if f, err := c.Host.Resolve(name); err == nil && f.Path == name {
			c.add(f, nil, why)
		}
	}
}

// isBin says whether a directory holds the executables of what is one up.
func isBin(dir string) bool {
	base := path.Base(dir)
	return base == "bin" || base == "sbin"
}
