package rootfs

import "path"

// caches are those without which a tool chain does nothing.
var caches = [...]struct {
	program  string
	variable string // says where it is; set inside, too
	home     string // where it is otherwise, below the home directory
	instead  string // in the private temporary directory, where it can't be written to
}{
	{"go", goBuilds, ".cache/go-build", goInstead},
	{"npm", "npm_config_cache", ".npm", "npm-cache"},
}

// caches gives a tool chain an empty cache where its own could only be read, or not be made: below a
// home directory that is shown, as a rule. It comes after all that may be an overlay.
func (c *compiler) caches() error {
	tmp := c.table.Env["TMPDIR"]
	if c.in.Bare || c.in.Rootfs != "" || tmp == "" {
		return nil
	}
	for i := range caches {
		x := &caches[i]
		place := c.table.Env[x.variable] // is an overlay then, or has become another place
		if place == "" {
			place = c.in.Env(x.variable)
		}
		if place == "" {
			place = path.Join(c.table.Env["HOME"], x.home)
		}
		if path.IsAbs(place) && c.onlyRead(place) && c.has(x.program) {
			c.table.Env[x.variable] = tmp + "/" + x.instead
		}
	}
	return nil
}

// onlyRead: what is at a path inside, or would be, is the caller's and can't be written to.
func (c *compiler) onlyRead(inside string) bool {
	at, _, _ := c.inside(inside)
	g := nearest(c.grants, at)
	return g != nil && g.access == read
}

// has says whether PATH has a program.
func (c *compiler) has(program string) bool {
	for i := range c.bins {
		if c.visible(c.bins[i].file.Path) {
			if f, err := c.host.Resolve(c.bins[i].file.Path + "/" + program); err == nil && f.Mode.IsRegular() && f.Mode&0o111 != 0 {
				return true
			}
		}
	}
	return false
}
