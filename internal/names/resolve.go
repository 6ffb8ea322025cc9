package names

import (
	"errors"
	"path"
	"strconv"
	"strings"
	"syscall"

	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/secrets"
	"github.com/confine-run/confine/internal/view"
)

// Resolver says what names of the caller's mean.
type Resolver struct {
	*view.Draft
	Home    string        // canonical; empty when there is none that can be shown or made
	NoHome  string        // why it is empty
	HomeEnv string        // HOME inside
	Cwd     hostfs.File   // the current directory
	CwdErr  error         // why there is none
	Roots   []hostfs.Link // the /bin-like links, with absolute targets
	Trees   *Trees
	Names   *Names
}

// Find resolves a path of the caller's, and says which links its name leads through.
func (c *Resolver) Find(name string) (hostfs.File, []hostfs.Link, error) {
	f, w, err := c.FindWay(name)
	return f, w.Links, err
}

// FindWay is find with all of the way.
func (c *Resolver) FindWay(name string) (hostfs.File, hostfs.Way, error) {
	return hostfs.ResolveWay(c.Host, c.throughRoots(name))
}

// throughRoots follows the /bin-like links: these are known, and what most of PATH leads through.
func (c *Resolver) throughRoots(name string) string {
	for i := range c.Roots {
		if r := &c.Roots[i]; hostfs.Under(name, r.At) {
			return hostfs.Rebase(name, r.At, r.Target)
		}
	}
	return name
}

// Absolute puts a path of an option below the current directory. It isn't
// cleaned: what ".." means is for the kernel to say.
func (c *Resolver) Absolute(option, name string) (string, error) {
	switch {
	case name == "":
		return "", &view.Error{Option: option, Path: name, Err: view.ErrInvalid, Hint: "the path is empty"}
	case strings.IndexByte(name, 0) >= 0:
		return "", &view.Error{Option: option, Path: name, Err: view.ErrInvalid, Hint: "no path has a NUL in it"}
	case path.IsAbs(name):
		return name, nil
	case c.CwdErr != nil:
		return "", c.CwdErr
	}
	return c.Cwd.Path + "/" + name, nil
}

// Option resolves the path of an option, with an error that says what is wrong. writes says
// that something is to be written to it.
func (c *Resolver) Option(option, name string, writes bool) (hostfs.File, []hostfs.Link, error) {
	full, err := c.Absolute(option, name)
	if err != nil {
		return hostfs.File{}, nil, err
	}
	full = c.throughRoots(full)
	f, err := c.Host.Resolve(full)
	if err != nil {
		return hostfs.File{}, nil, &view.Error{Option: option, Path: name, Err: err, Hint: c.WhyMissing(full, err)}
	}
	if f.Path == full || f.Path == path.Clean(full) && !strings.Contains(full, "..") {
		return f, nil, nil
	}
	return c.resolved(option, name, full, writes)
}

// WhyMissing explains why a path could not be resolved.
func (c *Resolver) WhyMissing(full string, err error) string {
	if errors.Is(err, syscall.EACCES) {
		return "uid " + strconv.Itoa(int(c.In.AccessUID)) + " can't reach it: see the permissions of the directories above it"
	}
	if !hostfs.Absent(err) {
		return ""
	}
	full = path.Clean(full)
	if target, err := c.Host.Readlink(full); err == nil {
		return "it is a symbolic link to " + strconv.Quote(target) + ", and nothing is there"
	}
	for up := full; up != "/"; {
		name := path.Base(up)
		up = path.Dir(up)
		if _, err := c.Host.Resolve(up); err == nil {
			return strconv.Quote(up) + " exists and has no " + strconv.Quote(name)
		}
	}
	return ""
}

const (
	TmpDir    = "/tmp"
	VarTmpDir = "/var/tmp"
	WhyTemp   = "temporary files"
)

// Locate resolves the current directory and the home directory.
func (c *Resolver) Locate() error {
	err := c.placeDir()
	in := *c.In
	in.Host, in.Dir = c.Host, c.Cwd.Path
	c.Names = NewNames(&in)
	c.Trees = c.Names.trees
	c.placeHome()
	return err
}

func (c *Resolver) placeDir() error {
	if c.In.Dir == "" {
		c.CwdErr = &view.Error{Option: "current directory", Err: errors.New("is gone"), Hint: "cd to one that exists"}
		return nil
	}
	if !path.IsAbs(c.In.Dir) {
		return &view.Error{Option: "current directory", Path: c.In.Dir, Err: view.ErrInvalid, Hint: "it must be absolute"}
	}
	f, links, err := c.Find(c.In.Dir)
	if err != nil {
		c.CwdErr = &view.Error{Option: "current directory", Path: c.In.Dir, Err: err, Hint: c.WhyMissing(c.In.Dir, err)}
		return nil
	}
	c.Cwd = f
	c.Links = append(c.Links, links...)
	return nil
}

// placeHome finds where HOME is inside: at the caller's own path, because tool
// chains have it written into them. It needn't exist on the host. Accounts of
// services have homes that are no homes; theirs is the private /tmp.
func (c *Resolver) placeHome() {
	c.HomeEnv = TmpDir
	home := c.In.HomeDir
	is := "HOME is " + strconv.Quote(home) + ", "
	switch {
	case home == "":
		c.NoHome = "HOME is not set"
		return
	case !path.IsAbs(home):
		c.NoHome = is + "which is not absolute"
		return
	case path.Clean(home) == "/":
		c.NoHome = is + "which is no home directory"
		return
	}
	home = path.Clean(home)
	at, links := home, []hostfs.Link(nil)
	f, l, err := c.Find(home)
	if err != nil || len(l) > 0 {
		if c.Trees.Look(); c.Trees.HomeLink != "" {
			c.NoHome = is + "which " + throughLink(c.Trees.HomeLink) + ": set HOME to where that leads, if you mean it"
			return
		}
	}
	if err == nil {
		if !f.Mode.IsDir() {
			c.NoHome = is + "which is not a directory"
			return
		}
		at, links = f.Path, l
	}
	for _, taken := range homeless {
		if at == taken || (taken == "/usr" || taken == "/etc" || IsKernelTree(taken)) && hostfs.Under(at, taken) {
			c.NoHome = is + "which is a place of the system's"
			return
		}
	}
	c.Home, c.HomeEnv = at, home
	c.Links = append(c.Links, links...)
}

// homeless are places where a private home would hide something that is needed.
var homeless = [...]string{"/", "/usr", "/etc", "/bin", "/sbin", "/lib", "/lib64", "/var", "/tmp", "/var/tmp", "/run", "/proc", "/sys", "/dev"}

// OwnDirs are where confine keeps what it goes by: policies and what is trusted, what
// runs changed, unpacked images.
func OwnDirs(env func(string) string, home string) (all []string) {
	for _, d := range [...]struct{ variable, below string }{
		{"XDG_CONFIG_HOME", ".config"}, {"XDG_DATA_HOME", ".local/share"}, {"XDG_STATE_HOME", ".local/state"}, {"XDG_CACHE_HOME", ".cache"},
	} {
		base := env(d.variable)
		if !path.IsAbs(base) {
			if base = path.Join(home, d.below); !path.IsAbs(base) {
				continue
			}
		}
		all = append(all, path.Join(base, "confine"))
	}
	return all
}

// AtHome cuts the "~/" off a protected name that counts in the caller's home directory only.
func AtHome(name string) (rest string, ok bool) { return strings.CutPrefix(name, secrets.InHomes) }

func (c *Resolver) HomeGiven() bool {
	return path.IsAbs(c.In.HomeDir) && c.In.HomeDir != "/" && c.Trees.HomeLink == ""
}

func (c *Resolver) InHome(p string) bool { return c.Home != "" && hostfs.Under(p, c.Home) }
