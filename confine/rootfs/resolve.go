package rootfs

import (
	"errors"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"syscall"

	"github.com/confine-run/confine/confine/hostfs"
	"github.com/confine-run/confine/confine/view"
)

const (
	deviceOrSocket = fs.ModeDevice | fs.ModeSocket
	linkType       = fs.ModeSymlink
)

// find resolves a path of the caller's, and says which links its name leads through.
func (c *resolver) find(name string) (hostfs.File, []hostfs.Link, error) {
	f, w, err := c.findWay(name)
	return f, w.Links, err
}

// findWay is find with all of the way.
func (c *resolver) findWay(name string) (hostfs.File, hostfs.Way, error) {
	return hostfs.ResolveWay(c.Host, c.throughRoots(name))
}

// throughRoots follows the /bin-like links: these are known, and what most of PATH leads through.
func (c *resolver) throughRoots(name string) string {
	for i := range c.roots {
		if r := &c.roots[i]; hostfs.Under(name, r.At) {
			return hostfs.Rebase(name, r.At, r.Target)
		}
	}
	return name
}

// absolute puts a path of an option below the current directory. It isn't
// cleaned: what ".." means is for the kernel to say.
func (c *resolver) absolute(option, name string) (string, error) {
	switch {
	case name == "":
		return "", &view.Error{Option: option, Path: name, Err: view.ErrInvalid, Hint: "the path is empty"}
	case strings.IndexByte(name, 0) >= 0:
		return "", &view.Error{Option: option, Path: name, Err: view.ErrInvalid, Hint: "no path has a NUL in it"}
	case path.IsAbs(name):
		return name, nil
	case c.dirErr != nil:
		return "", c.dirErr
	}
	return c.dir.Path + "/" + name, nil
}

// named resolves the path of an option, with an error that says what is wrong. writes says
// that something is to be written to it.
func (c *resolver) named(option, name string, writes bool) (hostfs.File, []hostfs.Link, error) {
	full, err := c.absolute(option, name)
	if err != nil {
		return hostfs.File{}, nil, err
	}
	full = c.throughRoots(full)
	f, err := c.Host.Resolve(full)
	if err != nil {
		return hostfs.File{}, nil, &view.Error{Option: option, Path: name, Err: err, Hint: c.missing(full, err)}
	}
	if f.Path == full || f.Path == path.Clean(full) && !strings.Contains(full, "..") {
		return f, nil, nil
	}
	return c.resolved(option, name, full, writes)
}

// missing explains why a path could not be resolved.
func (c *resolver) missing(full string, err error) string {
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
