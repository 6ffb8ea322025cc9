package rootfs

import "path"

// goCaches makes builds with Go start warm. What is built goes to an overlay
// and is thrown away; modules can't be fetched without a network, so they are
// read-only then, which costs less.
func (c *compiler) goCaches() {
	if !c.homeGiven() {
		return
	}
	cache := c.in.Env("GOCACHE")
	if cache == "" {
		base := c.in.Env("XDG_CACHE_HOME")
		if !path.IsAbs(base) {
			base = path.Join(c.in.HomeDir, ".cache")
		}
		cache = path.Join(base, "go-build")
	}
	modules := c.in.Env("GOMODCACHE")
	if modules == "" {
		gopath := firstOf(c.in.Env("GOPATH"))
		if !path.IsAbs(gopath) {
			gopath = path.Join(c.in.HomeDir, "go")
		}
		modules = path.Join(gopath, "pkg/mod")
	}
	access := read
	if c.in.NetworkAll || c.in.Resolver != "" {
		access = overlay
	}
	c.goCache("GOCACHE", cache, overlay)
	c.goCache("GOMODCACHE", modules, access)
}

func (c *compiler) goCache(variable, dir string, a access) {
	if !path.IsAbs(dir) {
		return // "off"
	}
	f, links, err := c.find(dir)
	if err != nil || !f.Mode.IsDir() || c.tooBroad(f.Path) || !c.hasGo() {
		return
	}
	c.add(f, links, a, "tool chain: go ("+variable+")")
	c.table.Env[variable] = path.Clean(dir)
}

func (c *compiler) hasGo() bool {
	if c.chains.goIs == 0 {
		c.chains.goIs = -1
		if c.findGo() {
			c.chains.goIs = 1
		}
	}
	return c.chains.goIs > 0
}

func (c *compiler) findGo() bool {
	for i := range c.bins {
		if c.visible(c.bins[i].file.Path) {
			if f, err := c.host.Resolve(c.bins[i].file.Path + "/go"); err == nil && f.Mode.IsRegular() && f.Mode&0o111 != 0 {
				return true
			}
		}
	}
	return false
}
