package rootfs

import (
	"errors"
	"path"
	"strconv"

	"github.com/confine-run/confine/confine/hostfs"
)

const (
	tmpDir    = "/tmp"
	varTmpDir = "/var/tmp"
	whyTemp   = "temporary files"
)

// places resolves the current directory and the home directory.
func (c *compiler) places() error {
	err := c.placeDir()
	in := *c.in
	in.Host, in.Dir = c.host, c.dir.Path
	c.says = NewNames(&in)
	c.trees = c.says.trees
	c.placeHome()
	return err
}

func (c *compiler) placeDir() error {
	if c.in.Dir == "" {
		c.dirErr = &Error{Option: "current directory", Err: errors.New("is gone"), Hint: "cd to one that exists"}
		return nil
	}
	if !path.IsAbs(c.in.Dir) {
		return &Error{Option: "current directory", Path: c.in.Dir, Err: ErrInvalid, Hint: "it must be absolute"}
	}
	f, links, err := c.find(c.in.Dir)
	if err != nil {
		c.dirErr = &Error{Option: "current directory", Path: c.in.Dir, Err: err, Hint: c.missing(c.in.Dir, err)}
		return nil
	}
	c.dir = f
	c.links = append(c.links, links...)
	return nil
}

// placeHome finds where HOME is inside: at the caller's own path, because tool
// chains have it written into them. It needn't exist on the host. Accounts of
// services have homes that are no homes; theirs is the private /tmp.
func (c *compiler) placeHome() {
	c.homeEnv = tmpDir
	home := c.in.HomeDir
	is := "HOME is " + strconv.Quote(home) + ", "
	switch {
	case home == "":
		c.noHome = "HOME is not set"
		return
	case !path.IsAbs(home):
		c.noHome = is + "which is not absolute"
		return
	case path.Clean(home) == "/":
		c.noHome = is + "which is no home directory"
		return
	}
	home = path.Clean(home)
	at, links := home, []hostfs.Link(nil)
	f, l, err := c.find(home)
	if err != nil || len(l) > 0 {
		if c.trees.look(); c.trees.homeLink != "" {
			c.noHome = is + "which " + throughLink(c.trees.homeLink) + ": set HOME to where that leads, if you mean it"
			return
		}
	}
	if err == nil {
		if !f.Mode.IsDir() {
			c.noHome = is + "which is not a directory"
			return
		}
		at, links = f.Path, l
	}
	for _, taken := range homeless {
		if at == taken || (taken == "/usr" || taken == "/etc" || isKernelTree(taken)) && hostfs.Under(at, taken) {
			c.noHome = is + "which is a place of the system's"
			return
		}
	}
	c.home, c.homeEnv = at, home
	c.links = append(c.links, links...)
}

// homeless are places where a private home would hide something that is needed.
var homeless = [...]string{"/", "/usr", "/etc", "/bin", "/sbin", "/lib", "/lib64", "/var", "/tmp", "/var/tmp", "/run", "/proc", "/sys", "/dev"}

func isKernelTree(p string) bool {
	for _, k := range kernelTrees {
		if p == k {
			return true
		}
	}
	return false
}

// private adds the home directory and the places for temporary files.
func (c *compiler) private() error {
	if c.in.Rootfs != "" {
		return c.imageTemp()
	}
	c.table.Env["HOME"] = c.homeEnv
	if c.home != "" {
		why := "home directory"
		if c.in.Home && !c.in.Virtual {
			why = whyNoDots
		}
		c.give(c.home, 0o700, why, FromHome)
	}
	if !c.in.TempDir {
		c.files = append(c.files, dirAt(tmpDir))
		return nil
	}
	c.table.Env["TMPDIR"] = tmpDir
	c.give(tmpDir, 0o1777, whyTemp, FromTempDir)
	if g := nearest(c.grants, tmpDir); g.access == read {
		// The caller's own is shown there: the private one is the other.
		c.table.Env["TMPDIR"] = varTmpDir
	}
	if c.table.Env["TMPDIR"] == varTmpDir || c.anyUnder(varTmpDir) {
		c.give(varTmpDir, 0o1777, whyTemp, FromTempDir)
	} else if g := nearest(c.grants, varTmpDir); g == nil {
		// One mount less than a second place.
		c.links = append(c.links, hostfs.Link{At: varTmpDir, Target: "../tmp"})
		c.ruleOf(Origin{Option: FromTempDir}, varTmpDir, AccessPrivate, whyTemp)
	}
	return nil
}

// give adds a private place, unless something named by the caller is there.
func (c *compiler) give(dst string, mode uint32, why, option string) {
	if g := nearest(c.grants, dst); g != nil && g.access != private && (g.explicit || g.dst == dst) {
		return
	}
	c.show(grant{dst: dst, access: private, mode: mode, system: true, optional: c.in.Rootfs != "", why: why, origin: Origin{Option: option}}, nil)
}

func (c *compiler) anyUnder(dir string) bool {
	for i := range c.grants {
		if hostfs.Under(c.grants[i].dst, dir) {
			return true
		}
	}
	return false
}

// rule is of what every run has.
func (c *compiler) rule(path, access, why string) { c.ruleOf(Origin{}, path, access, why) }

func (c *compiler) ruleOf(o Origin, path, access, why string) {
	c.table.Rules = append(c.table.Rules, Rule{path, access, why, o})
}

func (c *compiler) notice(text string) { c.table.Notices = append(c.table.Notices, text) }
