package discover

import (
	"path"
	"strings"

	"github.com/confine-run/confine/internal/view"
)

// caches are those without which a tool chain does nothing.
var caches = [...]struct {
	program  string
	variable string // says where it is; set inside, too
	home     string // where it is otherwise, below the home directory
	instead  string // in the private temporary directory, where it can't be written to
	// quiet is a variable, and its value, without which the program looks for a newer
	// version of itself whenever its cache is empty: that is refused, and no news of the run.
	quiet [2]string
}{
	{"go", goBuilds, ".cache/go-build", goInstead, [2]string{}},
	{"npm", "npm_config_cache", ".npm", "npm-cache", [2]string{"npm_config_update_notifier", "false"}},
}

// Caches gives a tool chain an empty cache where its own could only be read, or not be made: below a
// home directory that is shown, as a rule. It comes after all that may be an overlay.
func (c *Judge) Caches() error {
	tmp := c.Env["TMPDIR"]
	if c.In.Bare || c.In.Rootfs != "" || tmp == "" {
		return nil
	}
	for i := range caches {
		x := &caches[i]
		place := c.Env[x.variable] // is an overlay then, or has become another place
		if place == "" {
			place = c.In.Env(x.variable)
		}
		if place == "" {
			place = path.Join(c.Env["HOME"], x.home)
		}
		if !path.IsAbs(place) {
			continue
		}
		a := c.AccessOf(place)
		if a == view.Read && c.has(x.program) {
			c.Env[x.variable] = tmp + "/" + x.instead
		}
		if a <= view.Read && x.quiet[0] != "" && c.In.Env(x.quiet[0]) == "" && c.has(x.program) {
			c.Env[x.quiet[0]] = x.quiet[1]
		}
	}
	return nil
}

// has says whether PATH has a program.
func (c *Judge) has(program string) bool {
	for i := range c.bins {
		if c.Visible(c.bins[i].file.Path) {
			if f, err := c.Host.Resolve(c.bins[i].file.Path + "/" + program); err == nil && f.Mode.IsRegular() && f.Mode&0o111 != 0 {
				return true
			}
		}
	}
	return false
}

// goCaches makes builds with Go start warm. What is built goes to an overlay
// and is thrown away; modules can't be fetched without a network, so they are
// read-only then, which costs less. Go compiles nothing with a build cache that it can't
// write to, and says something else: where there is no overlay it gets an empty one.
func (c *Finder) goCaches() {
	if !c.HomeGiven() {
		return
	}
	cache := c.In.Env("GOCACHE")
	if cache == "" {
		base := c.In.Env("XDG_CACHE_HOME")
		if !path.IsAbs(base) {
			base = path.Join(c.In.HomeDir, ".cache")
		}
		cache = path.Join(base, "go-build")
	}
	modules := c.In.Env("GOMODCACHE")
	if modules == "" {
		gopath, _, _ := strings.Cut(c.In.Env("GOPATH"), ":")
		if !path.IsAbs(gopath) {
			gopath = path.Join(c.In.HomeDir, "go")
		}
		modules = path.Join(gopath, "pkg/mod")
	}
	access := view.Read
	if c.In.NetworkAll || c.In.Resolver != "" {
		access = view.Overlay
	}
	c.goCache(goBuilds, cache, view.Overlay)
	c.goCache("GOMODCACHE", modules, access)
}

// goBuilds is the cache without which nothing is compiled; goInstead stands in for it.
const goBuilds, goInstead = "GOCACHE", "go-cache"

func (c *Finder) goCache(variable, dir string, a view.Access) {
	if !path.IsAbs(dir) {
		return // "off"
	}
	r, err := c.follow(dir, variable)
	f := r.file
	if err != nil || !f.Mode.IsDir() || c.TooBroad(f.Path) || !c.hasGo() || !c.admit(&r, variable) {
		return
	}
	dir = path.Clean(dir)
	c.Env[variable] = dir
	g := view.Grant{Src: f, Access: a, Why: "tool chain: go (" + variable + ")"}
	if variable == goBuilds {
		if c.In.Bare {
			if !c.written(f.Path) {
				delete(c.Env, variable)
				c.LostCaches = append(c.LostCaches, variable)
			}
			return
		}
		if tmp := c.Env["TMPDIR"]; tmp != "" {
			g.Instead = variable + "=" + dir + "\x00" + variable + "=" + tmp + "/" + goInstead
		}
	}
	c.addGrant(g, r.links)
}

// written: the caller lets it be written to as it is.
func (c *Judge) written(canonical string) bool {
	g := c.Nearest(canonical)
	return g != nil && g.Access == view.Write && g.At(canonical) == canonical
}

func (c *Judge) hasGo() bool {
	if c.Chains.goIs == 0 {
		c.Chains.goIs = -1
		if c.has("go") {
			c.Chains.goIs = 1
		}
	}
	return c.Chains.goIs > 0
}
