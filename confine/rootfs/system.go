package rootfs

import (
	"io/fs"
	"path"
	"strings"

	"github.com/confine-run/confine/internal/handoff"
)

const whySystem = "system"

func dirAt(dst string) handoff.Mount {
	return handoff.Mount{Kind: handoff.MountDir, Dst: dst, Mode: 0o755}
}

// system adds what is visible in every run.
func (c *compiler) system() error {
	c.systemTree("/usr")
	for _, name := range rootLinks {
		target, err := c.host.Readlink(name)
		if err != nil {
			if !absent(err) {
				c.systemTree(name)
			}
			continue
		}
		if to := path.Join("/", target); under(to, "/usr") {
			c.links = append(c.links, link{name, target})
			continue
		}
		c.systemTree(name)
	}
	for _, name := range stores {
		c.systemTree(name)
	}
	c.hostEtc()
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

// hostEtc shows the chosen part of the host's /etc. One reading of the
// directory costs less than asking for each.
func (c *compiler) hostEtc() {
	entries, err := c.host.ReadDir("/etc")
	if err != nil {
		return
	}
	for _, e := range entries {
		for i := range etc {
			x := &etc[i]
			if x.name[0] != e.Name[0] {
				continue
			}
			first, rest, _ := strings.Cut(x.name, "/")
			if prefix, ok := strings.CutSuffix(first, "*"); ok {
				if !strings.HasPrefix(e.Name, prefix) {
					continue
				}
			} else if first != e.Name {
				continue
			}
			if rest != "" {
				rest = "/" + rest
			}
			c.etcEntry("/etc/"+e.Name+rest, rest == "" && e.Type == fs.ModeSymlink, x.copy)
		}
	}
}

func (c *compiler) etcEntry(name string, isLink, copyText bool) {
	if isLink {
		if target, err := c.host.Readlink(name); err == nil {
			to := target
			if !path.IsAbs(to) {
				to = path.Join(path.Dir(name), to)
			}
			if under(path.Clean(to), "/usr") {
				c.links = append(c.links, link{name, target})
				return
			}
		}
	}
	if copyText {
		if text, err := c.host.ReadFile(name, maxCopy); err == nil {
			c.file(name, text)
			return
		}
	}
	c.systemTree(name)
}

// file makes a file inside, unless the caller's own is shown in its place.
func (c *compiler) file(dst, text string) {
	c.files = append(c.files, handoff.Mount{Kind: handoff.MountFile, Dst: dst, Text: text, Mode: 0o644})
}

// dev makes the minimal /dev.
func (c *compiler) dev() {
	c.files = append(c.files, dirAt("/dev"))
	for _, name := range devices {
		f, err := c.host.Resolve(name)
		if err != nil || f.Mode.Type() != fs.ModeDevice|fs.ModeCharDevice {
			continue
		}
		// Read-only stops nobody from writing to the device, but its owner, uid 0
		// of root's runs, from changing the mode of the host's node.
		c.files = append(c.files, handoff.Mount{Kind: handoff.MountBind, Dst: name, Src: f.Path, Dev: f.Dev, Ino: f.Ino,
			ReadOnly: true, Device: true})
	}
	for _, l := range deviceLinks {
		c.files = append(c.files, handoff.Mount{Kind: handoff.MountSymlink, Dst: l.at, Text: l.target})
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
