package rootfs

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/confine-run/confine/confine/hostfs"
	"github.com/confine-run/confine/internal/shell"
)

const (
	optRead          = "--allow-read"
	optWrite         = "--allow-write"
	optOverlay       = "--overlay"
	optEphemeralHome = "--ephemeral-home"
	optMount         = "--mount"
	optWorkdir       = "--workdir"
	optChdir         = "--chdir"
	optDeny          = "--deny"
)

// options adds what the caller named.
func (c *compiler) options() error {
	if c.in.Virtual {
		if err := c.virtual(); err != nil {
			return err
		}
	}
	for _, o := range [...]struct {
		option string
		paths  []string
		access access
	}{
		{optRead, c.in.AllowRead, read},
		{optWrite, c.in.AllowWrite, write},
		{optOverlay, c.in.Overlay, overlay},
	} {
		for _, p := range o.paths {
			if err := c.allow(o.option, p, o.access); err != nil {
				return err
			}
		}
	}
	for _, m := range c.in.Mounts {
		if err := c.mountOption(m); err != nil {
			return err
		}
	}
	return c.homeOption()
}

// virtual refuses what says the opposite.
func (c *compiler) virtual() error {
	for _, o := range [...]struct {
		option string
		paths  []string
	}{{optRead, c.in.AllowRead}, {optWrite, c.in.AllowWrite}, {optOverlay, c.in.Overlay}} {
		if len(o.paths) > 0 {
			p := o.paths[0]
			return &Error{Option: o.option, Path: p, Err: ErrConflict, Hint: "with --virtual-fs only mounts are visible: --mount " + shell.Word(p+":/DST")}
		}
	}
	if c.in.WorkdirAsked && c.in.Workdir != "none" && c.in.Workdir != "" {
		return &Error{Option: optWorkdir, Path: c.in.Workdir, Err: ErrConflict, Hint: "with --virtual-fs only mounts are visible: --mount .:/DST"}
	}
	return nil
}

func (c *compiler) allow(option, name string, a access) error {
	f, links, err := c.named(option, name, a == write)
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
func (c *compiler) showNamed(option, name string, f hostfs.File, links []hostfs.Link, a access) {
	c.show(grant{src: f, access: a, explicit: true, searched: -1, option: option, why: option + " " + name, origin: originOf(option, name)}, links)
}

// allowed refuses trees of which every run has its own, and writing to everything.
func (c *compiler) allowed(option, name string, f hostfs.File, a access) error {
	p := f.Path
	switch {
	case p == "/" && a != read:
		return &Error{Option: option, Path: name, Err: ErrTooBroad, Hint: "name the directories that are to be written to"}
	case hostfs.Under(p, "/proc"):
		return &Error{Option: option, Path: name, Err: ErrReserved, Hint: "/proc inside is that of the run's own processes, and the host's is never shown"}
	case p == "/dev", hostfs.Under(p, "/dev/pts"), p == "/dev/shm", p == "/dev/ptmx":
		return &Error{Option: option, Path: name, Err: ErrReserved, Hint: "name a single device, as /dev/kvm"}
	case hostfs.Under(p, "/sys") && a != read:
		return &Error{Option: option, Path: name, Err: ErrReserved, Hint: "/sys can be shown read-only: --allow-read " + shell.Word(name)}
	case a == overlay && !f.Mode.IsDir():
		return &Error{Option: option, Path: name, Err: ErrInvalid, Hint: "an overlay is over a directory"}
	}
	return nil
}

// notOfRoot are left out when everything is to be readable: kernel views, other
// people's sockets, and places that are private inside.
var notOfRoot = [...]string{"dev", "lost+found", "proc", "run", "sys", "tmp"}

// allowRoot shows everything in / by itself, because the root inside is a
// private one, in which mount points can be made.
func (c *compiler) allowRoot(option, name string, a access) error {
	entries, err := c.host.ReadDir("/")
	if err != nil {
		return &Error{Option: option, Path: "/", Err: err}
	}
next:
	for _, e := range entries {
		for _, n := range notOfRoot {
			if e.Name == n {
				continue next
			}
		}
		if e.Name == "etc" && c.in.Resolver != "" && c.allowEtc(option, name, a) {
			continue
		}
		f, links, err := c.find("/" + e.Name)
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
func (c *compiler) allowEtc(option, name string, a access) bool {
	entries, err := c.host.ReadDir("/etc")
	if err != nil {
		return false
	}
	for _, e := range entries {
		if slices.Contains(ownNames[:], e.Name) {
			continue
		}
		f, links, err := c.find("/etc/" + e.Name)
		switch {
		case err != nil:
		case slices.ContainsFunc(notOfRoot[:], func(n string) bool { return hostfs.Under(f.Path, "/"+n) }):
			if target, err := c.host.Readlink("/etc/" + e.Name); err == nil { // to the run's own, as /proc/mounts
				c.links = append(c.links, hostfs.Link{At: "/etc/" + e.Name, Target: target})
			}
		default:
			c.showNamed(option, name, f, links, a)
		}
	}
	return true
}

var mountModes = [...]struct {
	word   string
	access access
}{{"", read}, {"ro", read}, {"rw", write}, {"overlay", overlay}}

// mountOption shows SRC at DST, or makes an empty place there.
func (c *compiler) mountOption(m Mount) error {
	name := m.Src + ":" + m.Dst
	if m.Size > 0 {
		name = "tmpfs:" + m.Dst + ":" + strconv.FormatInt(m.Size, 10)
	}
	bad := func(err error, hint string) error { return &Error{Option: optMount, Path: name, Err: err, Hint: hint} }
	mode := access(0)
	for _, w := range mountModes {
		if w.word == m.Mode {
			mode = w.access
		}
	}
	switch {
	case mode == private:
		return bad(ErrInvalid, "the mode is ro, rw or overlay")
	case !path.IsAbs(m.Dst) || strings.IndexByte(m.Dst, 0) >= 0:
		return bad(ErrInvalid, "the place inside must be absolute")
	}
	g := grant{access: mode, explicit: true, searched: -1, mount: true, option: optMount, why: optMount + " " + name}
	var links []hostfs.Link
	if m.Size > 0 {
		g.access, g.mode, g.size, g.searched = private, 0o755, m.Size, 0
	} else {
		var err error
		if g.src, links, err = c.named(optMount, m.Src, mode == write); err != nil {
			return err
		}
		if err := c.allowed(optMount, m.Src, g.src, mode); err != nil {
			return err
		}
		if g.src.Path == "/" {
			return bad(ErrTooBroad, "mount a directory of it, or use --allow-read /")
		}
	}
	if g.dst, _, _ = c.inside(m.Dst); g.dst == "" {
		return bad(ErrInvalid, "the links that lead there never end")
	}
	if hint, err := c.mountPlace(g.dst); err != nil {
		return bad(err, hint)
	}
	if g.dst == g.src.Path {
		c.links = append(c.links, links...)
	}
	if m.Mode != "" {
		g.why += ":" + m.Mode
		name += ":" + m.Mode
	}
	g.origin = originOf(optMount, name)
	c.show(g, nil)
	return nil
}

// mountPlace refuses places inside at which nothing can be mounted.
func (c *compiler) mountPlace(dst string) (hint string, err error) {
	switch {
	case dst == "/":
		return "a tree as the root is --rootfs", ErrReserved
	case hostfs.Under(dst, "/proc"), dst == "/dev", hostfs.Under(dst, "/dev/pts"), dst == "/dev/shm":
		return "choose another place", ErrReserved
	}
	for i := range c.grants {
		if g := &c.grants[i]; g.mount && g.dst == dst {
			return "something else is mounted there already", ErrInvalid
		}
	}
	return "", nil
}
