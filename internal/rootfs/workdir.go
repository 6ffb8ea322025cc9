package rootfs

import (
	"errors"
	"io/fs"
	"slices"
	"strconv"

	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/names"
	"github.com/confine-run/confine/internal/shell"
	"github.com/confine-run/confine/internal/view"
)

// workdir shows the current directory as the policy wants it.
func (c *compiler) workdir() error {
	a := view.Private
	switch c.In.Workdir {
	case "", "none":
		return nil
	case "ro":
		a = view.Read
	case "rw":
		a = view.Write
	case "overlay":
		a = view.Overlay
	default:
		return &view.Error{Option: optWorkdir, Path: c.In.Workdir, Err: view.ErrInvalid, Hint: "one of none, ro, rw, overlay"}
	}
	if c.In.Virtual || c.In.Rootfs != "" && !c.In.WorkdirAsked {
		return nil
	}
	if c.CwdErr != nil {
		return c.CwdErr
	}
	dir := c.Cwd.Path
	if c.TooBroad(dir) {
		return c.broadWorkdir(dir, a)
	}
	why, origin := "current directory", view.Origin{Option: view.FromWorkdir}
	if c.In.WorkdirAsked {
		why, origin.Word = optWorkdir+" "+c.In.Workdir, c.In.Workdir
	}
	c.Show(view.Grant{Src: c.Cwd, Access: a, Explicit: c.In.WorkdirAsked, Searched: -1, Option: optWorkdir, Why: why, Origin: origin}, nil)
	c.gitElsewhere(dir, a)
	return nil
}

// broadWorkdir doesn't show a current directory that holds far more than a
// project. Whoever asked for it is refused, anybody else told.
func (c *compiler) broadWorkdir(dir string, a view.Access) error {
	option := map[view.Access]string{view.Read: optRead, view.Write: optWrite, view.Overlay: optOverlay}[a]
	if g := c.Nearest(dir); g != nil && g.Explicit && g.Dst == dir && (g.Access >= a || !c.In.WorkdirAsked) {
		return nil // it was named
	}
	if c.In.WorkdirAsked {
		hint := "start in the directory of a project, or name it: " + option + " " + shell.Word(dir)
		if dir == "/" || names.IsKernelTree(dir) {
			hint = "start in the directory of a project"
		}
		return &view.Error{Option: optWorkdir + " " + c.In.Workdir, Path: dir, Err: view.ErrTooBroad, Hint: hint}
	}
	if g := c.Nearest(dir); g != nil && g.Access != view.Private && (g.Access == view.Read) == (a == view.Read) {
		return nil // it is there anyway, as wanted
	}
	c.Notice("the current directory "+strconv.Quote(dir)+" is not shown inside as it is, because it is too broad: start in the directory of a project, or name it with "+option, dir)
	return nil
}

// start finds where the target starts.
func (c *compiler) start() error {
	if c.In.Chdir != "" {
		return c.chdir()
	}
	if c.Dir = names.TmpDir; c.In.Rootfs != "" {
		c.Dir = c.system.imageDir()
	}
	if c.CwdErr == nil && c.Cwd.Path != "" && c.Visible(c.Cwd.Path) && !c.Masked(c.Cwd.Path) {
		c.Dir = c.Cwd.Path
	}
	return nil
}

func (c *compiler) chdir() error {
	name, err := c.Absolute(optChdir, c.In.Chdir)
	if err != nil {
		return err
	}
	w := hostfs.Trace(c.Host, name)
	w.Links = slices.DeleteFunc(w.Links, func(l hostfs.Link) bool { return !c.Visible(l.At) }) // what the run doesn't see leads it nowhere
	if err := c.LeavesTree(optChdir, c.In.Chdir, w); err != nil {
		return err
	}
	at, mode, found := c.Inside(name)
	switch {
	case !found:
		hint := "it must be visible inside: " + optRead + " " + shell.Word(c.In.Chdir)
		if _, err := c.Host.Resolve(name); errors.Is(err, fs.ErrNotExist) {
			hint = "there is none outside, either"
		}
		return &view.Error{Option: optChdir, Path: c.In.Chdir, Err: view.ErrNotVisible, Hint: hint}
	case !mode.IsDir():
		return &view.Error{Option: optChdir, Path: c.In.Chdir, Err: view.ErrInvalid, Hint: "it is not a directory"}
	}
	c.Dir = at
	return nil
}
