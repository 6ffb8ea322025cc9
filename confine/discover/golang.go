package discover

import (
	"path"

	"github.com/confine-run/confine/confine/view"
)

// goCaches makes builds with Go start warm. What is built goes to an overlay
// and is thrown away; modules can't be fetched without a network, so they are
// read-only then, which costs less. Go compiles nothing with a build cache that it can't
// write to, and says something else: where there is no overlay it gets an empty one (caches.go).
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
		gopath := firstOf(c.In.Env("GOPATH"))
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
				c.Lost = append(c.Lost, variable)
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
