package discover

import (
	"path"
	"slices"
	"strings"

	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/view"
)

// chainState is what discovery found so far.
type chainState struct {
	roots [len(Chains)]string
	used  [len(Chains)]bool
	Never []Never
	goIs  int8              // whether PATH has go: 1 yes, -1 no, 0 not looked yet
	byEnv [len(Chains)]bool // a variable says where it is
	// real are the canonical roots of those whose roots are reached through links.
	real      [len(Chains)]string
	realKnown bool
}

// Never is what of a directory is hidden wherever it is visible.
type Never struct {
	Root  string
	Parts []string
}

// ToolChains shows the tool chains that PATH and the like lead to.
func (c *Finder) ToolChains() error {
	if c.In.Rootfs != "" {
		return nil
	}
	for i := range Chains {
		x := &Chains[i]
		root := ""
		if x.env != "" {
			root, _, _ = strings.Cut(c.In.Env(x.env), ":") // a list, as GOPATH can be
			c.Chains.byEnv[i] = path.IsAbs(root)
		}
		if !path.IsAbs(root) && c.HomeGiven() {
			root = path.Join(c.In.HomeDir, x.Home)
		}
		if path.IsAbs(root) {
			c.Chains.roots[i] = path.Clean(root)
		}
	}
	c.readPath()
	if c.In.Virtual {
		return nil
	}
	for i := range c.bins {
		c.showBin(&c.bins[i])
	}
	for _, name := range installations {
		if dir := c.In.Env(name); path.IsAbs(dir) {
			c.installation(name, dir)
		}
	}
	c.goCaches()
	return nil
}

// chainOf is the index of the tool chain that a path lies in, or -1. The
// innermost one wins: pipx lies in ~/.local.
func (c *Finder) chainOf(paths ...string) int {
	best := -1
	for i, root := range c.Chains.roots {
		if root == "" || best >= 0 && len(root) <= len(c.Chains.roots[best]) {
			continue
		}
		for _, p := range paths {
			if hostfs.Under(p, root) {
				best = i
			}
		}
	}
	return best
}

// useChain shows a tool chain and says so in the environment.
func (c *Finder) useChain(i int, by string) {
	if c.Chains.used[i] {
		return
	}
	c.Chains.used[i] = true
	x, root := &Chains[i], c.Chains.roots[i]
	why := "tool chain: " + x.Name + " (" + by + ")"
	if x.Show == nil {
		c.showPath(root, why)
	}
	for _, part := range x.Show {
		c.showPath(root+"/"+part, why)
	}
	if len(x.Hide) > 0 {
		c.Chains.Never = append(c.Chains.Never, Never{root, x.Hide})
	}
	if x.env != "" {
		c.Env[x.env] = root
	}
	if x.Name == "local" {
		c.userSite(root, why)
	}
	for j := range Chains {
		if Chains[j].Name == x.with && c.Chains.roots[j] != "" {
			c.useChain(j, by)
		}
	}
}

// userSite shows the Python packages beside ~/.local/bin.
func (c *Finder) userSite(root, why string) {
	entries, err := c.Host.ReadDir(root + "/lib")
	if err != nil {
		return
	}
	for _, e := range entries {
		if ok, _ := path.Match("python3*", e.Name); ok && e.Type.IsDir() {
			c.showPath(root+"/lib/"+e.Name, why)
		}
	}
}

// add shows what discovery found, unless it is visible already. What lies in a tree of work
// is searched for secrets.
func (c *Finder) add(f hostfs.File, links []hostfs.Link, why string) {
	g := view.Grant{Src: f, Access: view.Read, Why: why}
	if !c.Visible(f.Path) && c.treeOf(f.Path) != "" {
		if c.found.shown++; c.found.shown > maxFromWork {
			c.leaveOut(f.Path, "a tree with too many tool chains")
			return
		}
		g.OfWork, g.Searched = true, -1
	}
	c.addGrant(g, links)
}

func (c *Finder) addGrant(g view.Grant, links []hostfs.Link) {
	c.Links = append(c.Links, links...)
	if g.Access == view.Read && c.Visible(g.Src.Path) {
		return
	}
	c.Show(g, nil)
}

// prefixOf is what the executables in dir were installed to, when that can be
// shown: "" when there is no such thing.
func (c *Finder) prefixOf(dir string) string {
	if !isBin(dir) {
		return ""
	}
	prefix := path.Dir(dir)
	if c.TooBroad(prefix) || path.Dir(prefix) == "/" {
		return "" // a directory in / holds more than one program
	}
	for i, root := range c.Chains.roots {
		if root == prefix && Chains[i].Show != nil {
			return ""
		}
	}
	return prefix
}

func (c *Finder) isPrefix(dir string) bool {
	return slices.ContainsFunc(prefixSigns[:], func(sign string) bool {
		f, err := c.Host.Lstat(dir + "/" + sign)
		return err == nil && f.Mode.IsDir()
	})
}

// showPath shows what is at a path, with the links that lead there.
func (c *Finder) showPath(name, why string) {
	r, err := c.follow(name, name)
	if err == nil && (!c.TooBroad(r.file.Path) || c.Visible(r.file.Path)) && c.admit(&r, name) {
		c.add(r.file, r.links, why)
	}
}
