package rootfs

import (
	"io/fs"
	"path"
	"strings"

	"github.com/confine-run/confine/confine/hostfs"
	"github.com/confine-run/confine/confine/secrets"
	"github.com/confine-run/confine/internal/handoff"
)

const whySystem = "system"

func dirAt(dst string) handoff.Mount {
	return handoff.Mount{Kind: handoff.MountDir, Dst: dst, Mode: 0o755}
}

// system adds what is visible in every run.
func (c *compiler) system() error {
	if c.in.Rootfs != "" {
		return c.imageSystem()
	}
	c.systemTree("/usr")
	for _, name := range rootLinks {
		target, err := c.host.Readlink(name)
		if err != nil {
			if !hostfs.Absent(err) {
				c.systemTree(name)
			}
			continue
		}
		if to := path.Join("/", target); hostfs.Under(to, "/usr") {
			c.links = append(c.links, hostfs.Link{At: name, Target: target})
			c.roots = append(c.roots, hostfs.Link{At: name, Target: to})
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
	c.files = append(c.files, dirAt("/run"), dirAt("/var"))
	return nil
}

// systemTree shows a path of the host's under its own name, if it is there.
func (c *compiler) systemTree(name string) {
	f, links, err := c.find(name)
	if err == nil {
		c.show(grant{src: f, access: read, system: true, why: whySystem}, links)
	}
}

// wholeEtc shows what every user may read of the host's /etc, but for secrets, beneath
// the run's own files. What uid 0 owns it could read all of, so that takes a stranger.
func (c *compiler) wholeEtc() bool {
	if !c.in.Etc || c.in.Bare || c.in.UID == 0 && c.in.Stranger == 0 {
		return false
	}
	f, err := c.host.Lstat("/etc")
	if err != nil || !f.Mode.IsDir() {
		return false
	}
	c.show(grant{src: f, access: read, system: true, beneath: true, why: whySystem + ": what every user may read"}, nil)
	grants, links := len(c.grants), len(c.links)
	c.hostEtc()
	for i := range c.grants[grants:] {
		c.instead = append(c.instead, c.grants[grants+i].entry())
	}
	for _, l := range c.links[links:] {
		if hostfs.Under(l.At, "/etc") {
			c.instead = append(c.instead, handoff.Mount{Kind: handoff.MountSymlink, Dst: l.At, Text: l.Target})
		}
	}
	c.grants, c.links = c.grants[:grants], c.links[:links]
	for i := range secrets.InEtc {
		name := "/etc/" + secrets.InEtc[i].Name
		if _, err := c.host.Lstat(name); err != nil {
			continue
		}
		if up, err := c.host.Resolve(path.Dir(name)); err == nil { // its place may be a link
			name = path.Join(up.Path, path.Base(name))
		}
		if hostfs.Below(name, "/etc") {
			c.instead = append(c.instead, handoff.Mount{Kind: handoff.MountAbsent, Dst: name})
			c.ruleOf(FromSecrets, name, AccessHidden, "secrets: "+secrets.InEtc[i].Reason)
		}
	}
	return true
}

// hostEtc shows the chosen part of the host's /etc. Asking for each by name
// takes half as long as one reading of the directory.
func (c *compiler) hostEtc() {
	for i := range etc {
		x := &etc[i]
		name := "/etc/" + x.name
		if x.copy && !c.in.Etc && c.etcCopy(name) {
			continue
		}
		if strings.Contains(x.name, "/") {
			c.systemTree(name) // a link may be on the way
		} else {
			c.systemFile(name)
		}
	}
	entries, err := c.host.ReadDir(jvms)
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
func (c *compiler) etcLink(name string) bool {
	target, err := c.host.Readlink(name)
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
	c.links = append(c.links, hostfs.Link{At: name, Target: target})
	return true
}

// etcCopy takes the text of a small file, of a link's target too.
func (c *compiler) etcCopy(name string) bool {
	text, err := c.host.ReadFile(name, maxCopy)
	if err == nil {
		c.file(name, text)
	}
	return err == nil
}

// systemFile is systemTree at the price of one lstat, for what stands in a
// directory that is no link.
func (c *compiler) systemFile(name string) {
	f, err := c.host.Lstat(name)
	switch {
	case err != nil:
	case f.Mode.Type() == fs.ModeSymlink:
		if !c.etcLink(name) {
			c.systemTree(name)
		}
	default:
		c.show(grant{src: f, access: read, system: true, why: whySystem}, nil)
	}
}

// file makes a file inside, unless the caller's own is shown in its place.
func (c *compiler) file(dst, text string) {
	c.files = append(c.files, handoff.Mount{Kind: handoff.MountFile, Dst: dst, Text: text, Mode: 0o644})
}

// dev makes the minimal /dev.
func (c *compiler) dev() {
	c.files = append(c.files, dirAt("/dev"))
	for _, name := range devices {
		f, err := c.host.Lstat(name)
		if err != nil || f.Mode.Type() != fs.ModeDevice|fs.ModeCharDevice {
			continue
		}
		// Read-only stops nobody from writing to the device, but its owner, uid 0
		// of root's runs, from changing the mode of the host's node.
		c.files = append(c.files, handoff.Mount{Kind: handoff.MountBind, Dst: name, Src: f.Path, Dev: f.Dev, Ino: f.Ino,
			ReadOnly: true, Device: true})
	}
	for _, l := range deviceLinks {
		c.files = append(c.files, handoff.Mount{Kind: handoff.MountSymlink, Dst: l.At, Text: l.Target})
	}
	c.files = append(c.files,
		handoff.Mount{Kind: handoff.MountDevpts, Dst: "/dev/pts"},
		handoff.Mount{Kind: handoff.MountScratch, Dst: "/dev/shm", Mode: 0o1777})
	c.rule("/dev", AccessRead, "system: null, zero, full, random, urandom, tty, own pts")
	c.rule("/dev/shm", AccessPrivate, "shared memory")
}

// proc mounts a fresh /proc and takes from it what is the host's.
func (c *compiler) proc() {
	c.files = append(c.files, handoff.Mount{Kind: handoff.MountProc, Dst: "/proc"})
	c.rule("/proc", AccessRead, "system: of the own processes")
	root := c.in.UID == 0 || c.in.AccessUID == 0
	for i := range procParts {
		p := &procParts[i]
		if !p.always && !root {
			continue
		}
		// Not asked of the caller's /proc, which may show less than a fresh one.
		kind, access := handoff.MountReadOnly, AccessProtected
		if p.hide {
			kind, access = handoff.MountMask, AccessHidden
		}
		c.files = append(c.files, handoff.Mount{Kind: kind, Dst: p.path})
		c.rule(p.path, access, p.reason)
	}
}
