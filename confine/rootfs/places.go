package rootfs

import (
	"errors"
	"path"
	"strconv"

	"github.com/confine-run/confine/confine/hostfs"
	"github.com/confine-run/confine/confine/view"
)

const (
	tmpDir    = "/tmp"
	varTmpDir = "/var/tmp"
	whyTemp   = "temporary files"
)

// resolver says what names of the caller's mean.
type resolver struct {
	*view.Draft
	home    string        // canonical; empty when there is none that can be shown or made
	noHome  string        // why it is empty
	homeEnv string        // HOME inside
	dir     hostfs.File   // the current directory
	dirErr  error         // why there is none
	roots   []hostfs.Link // the /bin-like links, with absolute targets
	trees   *workTrees
	says    *Names
}

// places resolves the current directory and the home directory.
func (c *resolver) places() error {
	err := c.placeDir()
	in := *c.In
	in.Host, in.Dir = c.Host, c.dir.Path
	c.says = NewNames(&in)
	c.trees = c.says.trees
	c.placeHome()
	return err
}

func (c *resolver) placeDir() error {
	if c.In.Dir == "" {
		c.dirErr = &view.Error{Option: "current directory", Err: errors.New("is gone"), Hint: "cd to one that exists"}
		return nil
	}
	if !path.IsAbs(c.In.Dir) {
		return &view.Error{Option: "current directory", Path: c.In.Dir, Err: view.ErrInvalid, Hint: "it must be absolute"}
	}
	f, links, err := c.find(c.In.Dir)
	if err != nil {
		c.dirErr = &view.Error{Option: "current directory", Path: c.In.Dir, Err: err, Hint: c.missing(c.In.Dir, err)}
		return nil
	}
	c.dir = f
	c.Links = append(c.Links, links...)
	return nil
}

// placeHome finds where HOME is inside: at the caller's own path, because tool
// chains have it written into them. It needn't exist on the host. Accounts of
// services have homes that are no homes; theirs is the private /tmp.
func (c *resolver) placeHome() {
	c.homeEnv = tmpDir
	home := c.In.HomeDir
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
	c.Links = append(c.Links, links...)
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
func (c *system) private() error {
	if c.In.Rootfs != "" {
		return c.imageTemp()
	}
	c.Env["HOME"] = c.homeEnv
	if c.home != "" {
		why := "home directory"
		if c.In.Home && !c.In.Virtual {
			why = whyNoDots
		}
		c.give(c.home, 0o700, why, view.FromHome)
	}
	if !c.In.TempDir {
		c.Made = append(c.Made, view.DirAt(tmpDir))
		return nil
	}
	c.Env["TMPDIR"] = tmpDir
	c.give(tmpDir, 0o1777, whyTemp, view.FromTempDir)
	if g := c.Nearest(tmpDir); g.Access == view.Read {
		// The caller's own is shown there: the private one is the other.
		c.Env["TMPDIR"] = varTmpDir
	}
	if c.Env["TMPDIR"] == varTmpDir || c.AnyUnder(varTmpDir) {
		c.give(varTmpDir, 0o1777, whyTemp, view.FromTempDir)
	} else if g := c.Nearest(varTmpDir); g == nil {
		// One mount less than a second place.
		c.Links = append(c.Links, hostfs.Link{At: varTmpDir, Target: "../tmp"})
		c.RuleOf(view.Origin{Option: view.FromTempDir}, varTmpDir, view.RulePrivate, whyTemp)
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
