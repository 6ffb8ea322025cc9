package rootfs

import (
	"errors"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"syscall"
)

func quote(s string) string { return strconv.Quote(s) }

const (
	deviceOrSocket = fs.ModeDevice | fs.ModeSocket
	linkType       = fs.ModeSymlink
)

// link is a symbolic link that a name leads through.
type link struct{ at, target string }

// find resolves a path of the caller's, and says which links its name leads through.
func (c *compiler) find(name string) (File, []link, error) {
	f, w, err := c.findWay(name)
	return f, w.links, err
}

// findWay is find with all of the way.
func (c *compiler) findWay(name string) (File, way, error) {
	return resolveWay(c.host, c.throughRoots(name))
}

func resolveWay(h Host, name string) (File, way, error) {
	f, err := h.Resolve(name)
	if err != nil || f.Path == name || f.Path == path.Clean(name) && !strings.Contains(name, "..") {
		return f, way{end: f.Path}, err
	}
	return f, trace(h, name), nil
}

// throughRoots follows the /bin-like links: these are known, and what most of PATH leads through.
func (c *compiler) throughRoots(name string) string {
	for i := range c.roots {
		if r := &c.roots[i]; under(name, r.at) {
			return rebase(name, r.at, r.target)
		}
	}
	return name
}

// maxLinks is MAXSYMLINKS of the kernel.
const maxLinks = 40

// way is where a name leads: through links, and through directories that a ".." comes after.
// These decide where it ends as links do, if they are there or not: another directory, or a link,
// in the place of one leads elsewhere.
type way struct {
	links []link
	turns []string
	end   string // whether anything is there or not; nowhere when there are too many links
}

// maxTurns bounds the turns of a way.
const maxTurns = 256

// trace walks a name. Only names come of this, and no file is opened by it, so nothing is lost
// when something is swapped meanwhile.
func trace(h Host, name string) way { return traceFrom(h, "/", name) }

// traceFrom walks a name below a canonical directory.
func traceFrom(h Host, at, rest string) (w way) {
	down := false // a component led here
	for rest != "" {
		var component string
		component, rest, _ = strings.Cut(rest, "/")
		switch component {
		case "", ".":
			continue
		case "..":
			if down && at != "/" {
				if len(w.turns) == maxTurns {
					return w
				}
				w.turns = append(w.turns, at)
			}
			at = path.Dir(at)
			continue
		}
		down = true
		next := path.Join(at, component)
		target, err := h.Readlink(next)
		if err != nil {
			at = next
			continue
		}
		if len(w.links) == maxLinks {
			return w
		}
		w.links = append(w.links, link{next, target})
		if path.IsAbs(target) {
			at = "/"
		}
		rest = target + "/" + rest
	}
	w.end = at
	return w
}

// absolute puts a path of an option below the current directory. It isn't
// cleaned: what ".." means is for the kernel to say.
func (c *compiler) absolute(option, name string) (string, error) {
	switch {
	case name == "":
		return "", &Error{Option: option, Path: name, Err: ErrInvalid, Hint: "the path is empty"}
	case strings.IndexByte(name, 0) >= 0:
		return "", &Error{Option: option, Path: name, Err: ErrInvalid, Hint: "no path has a NUL in it"}
	case path.IsAbs(name):
		return name, nil
	case c.dirErr != nil:
		return "", c.dirErr
	}
	return c.dir.Path + "/" + name, nil
}

// named resolves the path of an option, with an error that says what is wrong. writes says
// that something is to be written to it.
func (c *compiler) named(option, name string, writes bool) (File, []link, error) {
	full, err := c.absolute(option, name)
	if err != nil {
		return File{}, nil, err
	}
	full = c.throughRoots(full)
	f, err := c.host.Resolve(full)
	if err != nil {
		return File{}, nil, &Error{Option: option, Path: name, Err: err, Hint: c.missing(full, err)}
	}
	if f.Path == full || f.Path == path.Clean(full) && !strings.Contains(full, "..") {
		return f, nil, nil
	}
	return c.resolved(option, name, full, writes)
}

// missing explains why a path could not be resolved.
func (c *compiler) missing(full string, err error) string {
	if errors.Is(err, syscall.EACCES) {
		return "uid " + strconv.Itoa(int(c.in.AccessUID)) + " can't reach it: see the permissions of the directories above it"
	}
	if !absent(err) {
		return ""
	}
	full = path.Clean(full)
	if target, err := c.host.Readlink(full); err == nil {
		return "it is a symbolic link to " + quote(target) + ", and nothing is there"
	}
	for up := full; up != "/"; {
		name := path.Base(up)
		up = path.Dir(up)
		if _, err := c.host.Resolve(up); err == nil {
			return quote(up) + " exists and has no " + quote(name)
		}
	}
	return ""
}

// show makes a tree visible, under the name that it was given by too.
func (c *compiler) show(g grant, links []link) {
	if g.dst == "" {
		g.dst = g.src.Path
	}
	if g.src.Mode.Type()&fs.ModeDevice == 0 {
		g.optional = g.optional || !g.explicit && c.foreign && !g.system
	}
	c.grants = append(c.grants, g)
	c.links = append(c.links, links...)
}
