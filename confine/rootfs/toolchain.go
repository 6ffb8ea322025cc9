package rootfs

import (
	"path"

	"github.com/confine-run/confine/confine/hostfs"
	"github.com/confine-run/confine/confine/view"
)

// chainState is what discovery found so far.
type chainState struct {
	roots [len(chains)]string
	used  [len(chains)]bool
	never []never
	goIs  int8              // whether PATH has go: 1 yes, -1 no, 0 not looked yet
	byEnv [len(chains)]bool // a variable says where it is
	// real are the canonical roots of those whose roots are reached through links.
	real      [len(chains)]string
	realKnown bool
}

// never is what of a directory is hidden wherever it is visible.
type never struct {
	root  string
	parts []string
}

// toolChains shows the tool chains that PATH and the like lead to.
func (c *finder) toolChains() error {
	if c.In.Rootfs != "" {
		return nil
	}
	for i := range chains {
		x := &chains[i]
		root := ""
		if x.env != "" {
			root = firstOf(c.In.Env(x.env))
			c.chains.byEnv[i] = path.IsAbs(root)
		}
		if !path.IsAbs(root) && c.homeGiven() {
			root = path.Join(c.In.HomeDir, x.home)
		}
		if path.IsAbs(root) {
			c.chains.roots[i] = path.Clean(root)
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

func (c *resolver) homeGiven() bool {
	return path.IsAbs(c.In.HomeDir) && c.In.HomeDir != "/" && c.trees.homeLink == ""
}

// firstOf is the first of a list such as GOPATH can be.
func firstOf(list string) string {
	for i := 0; i < len(list); i++ {
		if list[i] == ':' {
			return list[:i]
		}
	}
	return list
}

// chainOf is the index of the tool chain that a path lies in, or -1. The
// innermost one wins: pipx lies in ~/.local.
func (c *finder) chainOf(paths ...string) int {
	best := -1
	for i, root := range c.chains.roots {
		if root == "" || best >= 0 && len(root) <= len(c.chains.roots[best]) {
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
func (c *finder) useChain(i int, by string) {
	if c.chains.used[i] {
		return
	}
	c.chains.used[i] = true
	x, root := &chains[i], c.chains.roots[i]
	why := "tool chain: " + x.name + " (" + by + ")"
	if x.show == nil {
		c.showPath(root, why)
	}
	for _, part := range x.show {
		c.showPath(root+"/"+part, why)
	}
	if len(x.hide) > 0 {
		c.chains.never = append(c.chains.never, never{root, x.hide})
	}
	if x.env != "" {
		c.Env[x.env] = root
	}
	if x.name == "local" {
		c.userSite(root, why)
	}
	for j := range chains {
		if chains[j].name == x.with && c.chains.roots[j] != "" {
			c.useChain(j, by)
		}
	}
}

// userSite shows the Python packages beside ~/.local/bin.
func (c *finder) userSite(root, why string) {
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
func (c *finder) add(f hostfs.File, links []hostfs.Link, a view.Access, why string) {
	g := view.Grant{Src: f, Access: a, Why: why}
	if !c.Visible(f.Path) && c.treeOf(f.Path) != "" {
		if c.found.shown++; c.found.shown > maxFromWork {
			c.leaveOut(f.Path, "a tree with too many tool chains")
			return
		}
		g.OfWork, g.Searched = true, -1
	}
	c.addGrant(g, links)
}

func (c *finder) addGrant(g view.Grant, links []hostfs.Link) {
	c.Links = append(c.Links, links...)
	if g.Access == view.Read && c.Visible(g.Src.Path) {
		return
	}
	c.Show(g, nil)
}

// prefixOf is what the executables in dir were installed to, when that can be
// shown: "" when there is no such thing.
func (c *finder) prefixOf(dir string) string {
	if !isBin(dir) {
		return ""
	}
	prefix := path.Dir(dir)
	if c.tooBroad(prefix) || path.Dir(prefix) == "/" {
		return "" // a directory in / holds more than one program
	}
	for i, root := range c.chains.roots {
		if root == prefix && chains[i].show != nil {
			return ""
		}
	}
	return prefix
}

func (c *finder) isPrefix(dir string) bool {
	for _, sign := range prefixSigns {
		if f, err := c.Host.Lstat(dir + "/" + sign); err == nil && f.Mode.IsDir() {
			return true
		}
	}
	return false
}

func (c *resolver) inHome(p string) bool { return c.home != "" && hostfs.Under(p, c.home) }

// showPath shows what is at a path, with the links that lead there.
func (c *finder) showPath(name, why string) {
	r, err := c.follow(name, name)
	if err == nil && (!c.tooBroad(r.file.Path) || c.Visible(r.file.Path)) && c.admit(&r, name) {
		c.add(r.file, r.links, view.Read, why)
	}
}
