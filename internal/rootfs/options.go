package rootfs

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/shell"
	"github.com/confine-run/confine/internal/view"
)

const (
	optRead          = "--allow-read"
	optWrite         = "--allow-write"
	optOverlay       = "--overlay"
	optEphemeralHome = "--ephemeral-home"
	optMount         = "--mount"
	optWorkdir       = "--workdir"
	optChdir         = "--chdir"
)

// options adds what the caller named. Beside a virtual file system what shows anything but mounts is
// refused.
func (c *compiler) options() error {
	for _, o := range [...]struct {
		option string
		paths  []string
		access view.Access
	}{
		{optRead, c.In.AllowRead, view.Read},
		{optWrite, c.In.AllowWrite, view.Write},
		{optOverlay, c.In.Overlay, view.Overlay},
	} {
		for _, p := range o.paths {
			if c.In.Virtual {
				return &view.Error{Option: o.option, Path: p, Err: view.ErrConflict, Hint: onlyMounts + shell.Word(p+":/DST")}
			}
			if err := c.allow(o.option, p, o.access); err != nil {
				return err
			}
		}
	}
	if c.In.Virtual && c.In.WorkdirAsked && c.In.Workdir != "none" && c.In.Workdir != "" {
		return &view.Error{Option: optWorkdir, Path: c.In.Workdir, Err: view.ErrConflict, Hint: onlyMounts + ".:/DST"}
	}
	for _, m := range c.In.Mounts {
		if err := c.mountOption(m); err != nil {
			return err
		}
	}
	return c.homeOption()
}

const onlyMounts = "with --virtual-fs only mounts are visible: --mount "

func (c *compiler) allow(option, name string, a view.Access) error {
	f, links, err := c.Option(option, name, a == view.Write)
	if err != nil {
		return err
	}
	if err := c.allowed(option, name, f, a); err != nil {
		return err
	}
	if f.Path == "/" {
		return c.allowRoot(option, name, a)
	}
	c.showNamed(option, name, f, links, a)
	return nil
}

// showNamed shows what a word of an option names.
func (c *compiler) showNamed(option, name string, f hostfs.File, links []hostfs.Link, a view.Access) {
	c.Show(view.Grant{Src: f, Access: a, Explicit: true, Searched: -1, Option: option, Why: option + " " + name, Origin: view.OriginOf(option, name)}, links)
}

// allowed refuses trees of which every run has its own, and writing to everything.
func (c *compiler) allowed(option, name string, f hostfs.File, a view.Access) error {
	p := f.Path
	switch {
	case p == "/" && a != view.Read:
		return &view.Error{Option: option, Path: name, Err: view.ErrTooBroad, Hint: "name the directories that are to be written to"}
	case hostfs.Under(p, "/proc"):
		return &view.Error{Option: option, Path: name, Err: view.ErrReserved, Hint: "/proc inside is that of the run's own processes, and the host's is never shown"}
	case p == "/dev", hostfs.Under(p, "/dev/pts"), p == "/dev/shm", p == "/dev/ptmx":
		return &view.Error{Option: option, Path: name, Err: view.ErrReserved, Hint: "name a single device, as /dev/kvm"}
	case hostfs.Under(p, "/sys") && a != view.Read:
		return &view.Error{Option: option, Path: name, Err: view.ErrReserved, Hint: "/sys can be shown read-only: --allow-read " + shell.Word(name)}
	case a == view.Overlay && !f.Mode.IsDir():
		return &view.Error{Option: option, Path: name, Err: view.ErrInvalid, Hint: "an overlay is over a directory"}
	}
	return nil
}

// notOfRoot are left out when everything is to be readable: kernel views, other
// people's sockets, and places that are private inside.
var notOfRoot = [...]string{"dev", "lost+found", "proc", "run", "sys", "tmp"}

// allowRoot shows everything in / by itself, because the root inside is a
// private one, in which mount points can be made.
func (c *compiler) allowRoot(option, name string, a view.Access) error {
	entries, err := c.Host.ReadDir("/")
	if err != nil {
		return &view.Error{Option: option, Path: "/", Err: err}
	}
next:
	for _, e := range entries {
		for _, n := range notOfRoot {
			if e.Name == n {
				continue next
			}
		}
		if e.Name == "etc" && c.In.Resolver != "" && c.allowEtc(option, name, a) {
			continue
		}
		f, links, err := c.Find("/" + e.Name)
		if err == nil {
			c.showNamed(option, name, f, links, a)
		}
	}
	return nil
}

// ownNames are the files that say how names are looked up.
var ownNames = [...]string{"hosts", "nsswitch.conf", "resolv.conf"}

// allowEtc shows what is in /etc by itself, so that the run's own names stand beside it:
// where names are asked of a resolver that knows the rules, one that the caller's files
// turn into an address would reach them without it. False: it can't be listed.
func (c *compiler) allowEtc(option, name string, a view.Access) bool {
	entries, err := c.Host.ReadDir("/etc")
	if err != nil {
		return false
	}
	for _, e := range entries {
		if slices.Contains(ownNames[:], e.Name) {
			continue
		}
		f, links, err := c.Find("/etc/" + e.Name)
		switch {
		case err != nil:
		case slices.ContainsFunc(notOfRoot[:], func(n string) bool { return hostfs.Under(f.Path, "/"+n) }):
			if target, err := c.Host.Readlink("/etc/" + e.Name); err == nil { // to the run's own, as /proc/mounts
				c.Links = append(c.Links, hostfs.Link{At: "/etc/" + e.Name, Target: target})
			}
		default:
			c.showNamed(option, name, f, links, a)
		}
	}
	return true
}

var mountModes = [...]struct {
	word   string
	access view.Access
}{{"", view.Read}, {"ro", view.Read}, {"rw", view.Write}, {"overlay", view.Overlay}}

// mountOption shows SRC at DST, or makes an empty place there.
func (c *compiler) mountOption(m view.Mount) error {
	name := m.Src + ":" + m.Dst
	if m.Size > 0 {
		name = "tmpfs:" + m.Dst + ":" + strconv.FormatInt(m.Size, 10)
	}
	bad := func(err error, hint string) error {
		return &view.Error{Option: optMount, Path: name, Err: err, Hint: hint}
	}
	mode := view.Access(0)
	for _, w := range mountModes {
		if w.word == m.Mode {
			mode = w.access
		}
	}
	switch {
	case mode == view.Private:
		return bad(view.ErrInvalid, "the mode is ro, rw or overlay")
	case !path.IsAbs(m.Dst) || strings.IndexByte(m.Dst, 0) >= 0:
		return bad(view.ErrInvalid, "the place inside must be absolute")
	}
	g := view.Grant{Access: mode, Explicit: true, Searched: -1, Mount: true, Option: optMount, Why: optMount + " " + name}
	var links []hostfs.Link
	if m.Size > 0 {
		g.Access, g.Mode, g.Size, g.Searched = view.Private, 0o755, m.Size, 0
	} else {
		var err error
		if g.Src, links, err = c.Option(optMount, m.Src, mode == view.Write); err != nil {
			return err
		}
		if err := c.allowed(optMount, m.Src, g.Src, mode); err != nil {
			return err
		}
		if g.Src.Path == "/" {
			return bad(view.ErrTooBroad, "mount a directory of it, or use --allow-read /")
		}
	}
	if g.Dst, _, _ = c.Inside(m.Dst); g.Dst == "" {
		return bad(view.ErrInvalid, "the links that lead there never end")
	}
	if hint, err := c.mountPlace(g.Dst); err != nil {
		return bad(err, hint)
	}
	if g.Dst == g.Src.Path {
		c.Links = append(c.Links, links...)
	}
	if m.Mode != "" {
		g.Why += ":" + m.Mode
		name += ":" + m.Mode
	}
	g.Origin = view.OriginOf(optMount, name)
	c.Show(g, nil)
	return nil
}

// mountPlace refuses places inside at which nothing can be mounted.
func (c *compiler) mountPlace(dst string) (hint string, err error) {
	switch {
	case dst == "/":
		return "a tree as the root is --rootfs", view.ErrReserved
	case hostfs.Under(dst, "/proc"), dst == "/dev", hostfs.Under(dst, "/dev/pts"), dst == "/dev/shm":
		return "choose another place", view.ErrReserved
	}
	for i := range c.Grants {
		if g := &c.Grants[i]; g.Mount && g.Dst == dst {
			return "something else is mounted there already", view.ErrInvalid
		}
	}
	return "", nil
}
