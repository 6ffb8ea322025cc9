package rootfs

import (
	"errors"
	"io/fs"
	"slices"
	"strconv"

	"github.com/confine-run/confine/confine/hostfs"
	"github.com/confine-run/confine/internal/shell"
)

// workdir shows the current directory as the policy wants it.
func (c *compiler) workdir() error {
	a := private
	switch c.in.Workdir {
	case "", "none":
		return nil
	case "ro":
		a = read
	case "rw":
		a = write
	case "overlay":
		a = overlay
	default:
		return &Error{Option: optWorkdir, Path: c.in.Workdir, Err: ErrInvalid, Hint: "one of none, ro, rw, overlay"}
	}
	if c.in.Virtual || c.in.Rootfs != "" && !c.in.WorkdirAsked {
		return nil
	}
	if c.dirErr != nil {
		return c.dirErr
	}
	dir := c.dir.Path
	if c.tooBroad(dir) {
		return c.broadWorkdir(dir, a)
	}
	why, origin := "current directory", Origin{Option: FromWorkdir}
	if c.in.WorkdirAsked {
		why, origin.Word = optWorkdir+" "+c.in.Workdir, c.in.Workdir
	}
	c.show(grant{src: c.dir, access: a, explicit: c.in.WorkdirAsked, searched: -1, option: optWorkdir, why: why, origin: origin}, nil)
	c.gitElsewhere(dir, a)
	return nil
}

// broadWorkdir doesn't show a current directory that holds far more than a
// project. Whoever asked for it is refused, anybody else told.
func (c *compiler) broadWorkdir(dir string, a access) error {
	option := map[access]string{read: optRead, write: optWrite, overlay: optOverlay}[a]
	if g := nearest(c.grants, dir); g != nil && g.explicit && g.dst == dir && (g.access >= a || !c.in.WorkdirAsked) {
		return nil // it was named
	}
	if c.in.WorkdirAsked {
		hint := "start in the directory of a project, or name it: " + option + " " + shell.Word(dir)
		if dir == "/" || isKernelTree(dir) {
			hint = "start in the directory of a project"
		}
		return &Error{Option: optWorkdir + " " + c.in.Workdir, Path: dir, Err: ErrTooBroad, Hint: hint}
	}
	if g := nearest(c.grants, dir); g != nil && g.access != private && (g.access == read) == (a == read) {
		return nil // it is there anyway, as wanted
	}
	c.notice("the current directory " + strconv.Quote(dir) + " is not shown inside as it is, because it is too broad: start in the directory of a project, or name it with " + option)
	return nil
}

// start finds where the target starts.
func (c *compiler) start() error {
	if c.in.Chdir != "" {
		return c.chdir()
	}
	if c.table.Dir = tmpDir; c.in.Rootfs != "" {
		c.table.Dir = c.imageDir()
	}
	if c.dirErr == nil && c.dir.Path != "" && c.visible(c.dir.Path) && !c.masked(c.dir.Path) {
		c.table.Dir = c.dir.Path
	}
	return nil
}

func (c *compiler) chdir() error {
	name, err := c.absolute(optChdir, c.in.Chdir)
	if err != nil {
		return err
	}
	w := hostfs.Trace(c.host, name)
	w.Links = slices.DeleteFunc(w.Links, func(l hostfs.Link) bool { return !c.visible(l.At) }) // what the run doesn't see leads it nowhere
	if err := c.leaves(optChdir, c.in.Chdir, w); err != nil {
		return err
	}
	at, mode, found := c.inside(name)
	switch {
	case !found:
		hint := "it must be visible inside: " + optRead + " " + shell.Word(c.in.Chdir)
		if _, err := c.host.Resolve(name); errors.Is(err, fs.ErrNotExist) {
			hint = "there is none outside, either"
		}
		return &Error{Option: optChdir, Path: c.in.Chdir, Err: ErrNotVisible, Hint: hint}
	case !mode.IsDir():
		return &Error{Option: optChdir, Path: c.in.Chdir, Err: ErrInvalid, Hint: "it is not a directory"}
	}
	c.table.Dir = at
	return nil
}
