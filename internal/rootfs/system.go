package rootfs

import (
	"io/fs"
	"path"
	"strings"

	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/names"
	"github.com/confine-run/confine/internal/secrets"
	"github.com/confine-run/confine/internal/view"
)

const whySystem = "system"

// system shows what every run has: of the host's system, or of a prepared tree in its place, and what
// is made anew.
type system struct{ *names.Resolver }

// show adds what is visible in every run.
func (c *system) show() error {
	if c.In.Rootfs != "" {
		return c.imageSystem()
	}
	if c.In.MacOS {
		c.showMacOS()
		return nil
	}
	c.systemTree("/usr")
	for _, name := range rootLinks {
		target, err := c.Host.Readlink(name)
		if err != nil {
			if !hostfs.Absent(err) {
				c.systemTree(name)
			}
			continue
		}
		if to := path.Join("/", target); hostfs.Under(to, "/usr") {
			c.Links = append(c.Links, hostfs.Link{At: name, Target: target})
			c.Roots = append(c.Roots, hostfs.Link{At: name, Target: to})
			continue
		}
		c.systemTree(name)
	}
	for _, name := range stores {
		c.systemTree(name)
	}
	if !c.wholeEtc() {
		c.hostEtc()
	}
	for i := range varData {
		c.systemTree(varData[i].path)
	}
	c.ownEtc()
	c.dev()
	c.proc()
	c.Made = append(c.Made, view.DirAt("/run"), view.DirAt("/var"))
	return nil
}

// systemTree shows a path of the host's under its own name, if it is there.
func (c *system) systemTree(name string) {
	f, links, err := c.Find(name)
	if err == nil {
		c.Show(view.Grant{Src: f, Access: view.Read, System: true, Why: whySystem}, links)
	}
}

// wholeEtc shows what every user may read of the host's /etc, but for secrets, beneath
// the run's own files. What uid 0 owns it could read all of, so that takes a stranger.
func (c *system) wholeEtc() bool {
	if !c.In.Etc || c.In.Bare || c.In.UID == 0 && c.In.Stranger == 0 {
		return false
	}
	f, err := c.Host.Lstat("/etc")
	if err != nil || !f.Mode.IsDir() {
		return false
	}
	c.Show(view.Grant{Src: f, Access: view.Read, System: true, Beneath: true, Why: whySystem + ": what every user may read"}, nil)
	grants, links := len(c.Grants), len(c.Links)
	c.hostEtc()
	c.Instead = append(c.Instead, c.Grants[grants:]...)
	for _, l := range c.Links[links:] {
		if hostfs.Under(l.At, "/etc") {
			c.InsteadLinks = append(c.InsteadLinks, l)
		}
	}
	c.Grants, c.Links = c.Grants[:grants], c.Links[:links]
	for i := range secrets.InEtc {
		name := "/etc/" + secrets.InEtc[i].Name
		if _, err := c.Host.Lstat(name); err != nil {
			continue
		}
		if up, err := c.Host.Resolve(path.Dir(name)); err == nil { // its place may be a link
			name = path.Join(up.Path, path.Base(name))
		}
		if hostfs.Below(name, "/etc") {
			h := view.Hidden{Dst: name, Why: "secrets: " + secrets.InEtc[i].Reason, Origin: view.FromSecrets}
			c.Absent = append(c.Absent, h)
			c.RuleOf(h.Origin, name, view.RuleHidden, h.Why)
		}
	}
	return true
}

// hostEtc shows the chosen part of the host's /etc. Asking for each by name
// takes half as long as one reading of the directory.
func (c *system) hostEtc() {
	for i := range etc {
		x := &etc[i]
		name := "/etc/" + x.name
		if x.copy && !c.In.Etc && c.etcCopy(name) {
			continue
		}
		if strings.Contains(x.name, "/") {
			c.systemTree(name) // a link may be on the way
		} else {
			c.systemFile(name)
		}
	}
	entries, err := c.Host.ReadDir(jvms)
	if err != nil {
		return
	}
	last := ""
	for _, e := range entries {
		parts := strings.SplitN(e.Name, "-", 4)
		if len(parts) == 4 && parts[0] == "java" && e.Type.IsDir() {
			if name := "/etc/" + strings.Join(parts[:3], "-"); name != last {
				c.systemFile(name)
				last = name
			}
		}
	}
}

// etcLink makes a link again that leads into /usr.
func (c *system) etcLink(name string) bool {
	target, err := c.Host.Readlink(name)
	if err != nil {
		return false
	}
	to := target
	if !path.IsAbs(to) {
		to = path.Join(path.Dir(name), to)
	}
	if !hostfs.Under(path.Clean(to), "/usr") {
		return false
	}
	c.Links = append(c.Links, hostfs.Link{At: name, Target: target})
	return true
}

// etcCopy takes the text of a small file, of a link's target too.
func (c *system) etcCopy(name string) bool {
	text, err := c.Host.ReadFile(name, maxCopy)
	if err == nil {
		c.file(name, text)
	}
	return err == nil
}

// systemFile is systemTree at the price of one lstat, for what stands in a
// directory that is no link.
func (c *system) systemFile(name string) {
	f, err := c.Host.Lstat(name)
	switch {
	case err != nil:
	case f.Mode.Type() == fs.ModeSymlink:
		if !c.etcLink(name) {
			c.systemTree(name)
		}
	default:
		c.Show(view.Grant{Src: f, Access: view.Read, System: true, Why: whySystem}, nil)
	}
}

// file makes a file inside, unless the caller's own is shown in its place.
func (c *system) file(dst, text string) {
	c.Made = append(c.Made, view.Made{Kind: view.File, Dst: dst, Text: text, Mode: 0o644})
}

// dev makes the minimal /dev.
func (c *system) dev() {
	c.Made = append(c.Made, view.DirAt("/dev"))
	for _, name := range devices {
		f, err := c.Host.Lstat(name)
		if err != nil || f.Mode.Type() != fs.ModeDevice|fs.ModeCharDevice {
			continue
		}
		c.Made = append(c.Made, view.Made{Kind: view.Device, Dst: name, Src: f})
	}
	for _, l := range deviceLinks {
		c.Made = append(c.Made, view.Made{Kind: view.Link, Dst: l.At, Text: l.Target})
	}
	c.Made = append(c.Made,
		view.Made{Kind: view.Terminals, Dst: "/dev/pts"},
		view.Made{Kind: view.Scratch, Dst: "/dev/shm", Mode: 0o1777})
	c.Rule("/dev", view.RuleRead, "system: null, zero, full, random, urandom, tty, own pts")
	c.Rule("/dev/shm", view.RulePrivate, "shared memory")
}

// proc mounts a fresh /proc and takes from it what is the host's.
func (c *system) proc() {
	c.Made = append(c.Made, view.Made{Kind: view.Processes, Dst: "/proc"})
	c.Rule("/proc", view.RuleRead, "system: of the own processes")
	root := c.In.UID == 0 || c.In.AccessUID == 0
	for i := range procParts {
		p := &procParts[i]
		if !p.always && !root {
			continue
		}
		// Not asked of the caller's /proc, which may show less than a fresh one.
		kind, access := view.KernelPart, view.RuleProtected
		if p.hide {
			kind, access = view.KernelMask, view.RuleHidden
		}
		c.Made = append(c.Made, view.Made{Kind: kind, Dst: p.path})
		c.Rule(p.path, access, p.reason)
	}
}

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
	if c.In.MacOS { // what is private is one place, by variables
		return nil
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
