package rootfs

import (
	"github.com/confine-run/confine/confine/hostfs"
	"github.com/confine-run/confine/confine/names"
	"github.com/confine-run/confine/confine/view"
)

// private adds the home directory and the places for temporary files.
func (c *system) private() error {
	if c.In.Rootfs != "" {
		return c.imageTemp()
	}
	c.Env["HOME"] = c.HomeEnv
	if c.Home != "" {
		why := "home directory"
		if c.In.Home && !c.In.Virtual {
			why = whyNoDots
		}
		c.give(c.Home, 0o700, why, view.FromHome)
	}
	if !c.In.TempDir {
		c.Made = append(c.Made, view.DirAt(names.TmpDir))
		return nil
	}
	c.Env["TMPDIR"] = names.TmpDir
	c.give(names.TmpDir, 0o1777, names.WhyTemp, view.FromTempDir)
	if g := c.Nearest(names.TmpDir); g.Access == view.Read {
		// The caller's own is shown there: the private one is the other.
		c.Env["TMPDIR"] = names.VarTmpDir
	}
	if c.Env["TMPDIR"] == names.VarTmpDir || c.AnyUnder(names.VarTmpDir) {
		c.give(names.VarTmpDir, 0o1777, names.WhyTemp, view.FromTempDir)
	} else if g := c.Nearest(names.VarTmpDir); g == nil {
		// One mount less than a second place.
		c.Links = append(c.Links, hostfs.Link{At: names.VarTmpDir, Target: "../tmp"})
		c.RuleOf(view.Origin{Option: view.FromTempDir}, names.VarTmpDir, view.RulePrivate, names.WhyTemp)
	}
	return nil
}

// give adds a private place, unless something named by the caller is there.
func (c *system) give(dst string, mode uint32, why, option string) {
	if g := c.Nearest(dst); g != nil && g.Access != view.Private && (g.Explicit || g.Dst == dst) {
		return
	}
	c.Show(view.Grant{Dst: dst, Access: view.Private, Mode: mode, System: true, Optional: c.In.Rootfs != "", Why: why, Origin: view.Origin{Option: option}}, nil)
}
