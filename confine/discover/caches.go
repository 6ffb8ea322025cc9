package discover

import (
	"path"

	"github.com/confine-run/confine/confine/view"
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
