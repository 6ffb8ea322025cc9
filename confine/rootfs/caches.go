package rootfs

import (
	"path"
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
		if !path.IsAbs(place) {
			continue
		}
		a := c.accessOf(place)
		if a == read && c.has(x.program) {
			c.table.Env[x.variable] = tmp + "/" + x.instead
		}
		if a <= read && x.quiet[0] != "" && c.in.Env(x.quiet[0]) == "" && c.has(x.program) {
			c.table.Env[x.quiet[0]] = x.quiet[1]
		}
	}
	return nil
}

// accessOf is how a path inside is shown; private where nothing of the caller's is.
func (c *compiler) accessOf(inside string) access {
	at, _, _ := c.inside(inside)
	if g := nearest(c.grants, at); g != nil {
		return g.access
	}
	return private
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
