package rootfs

import (
	"path"
	"strconv"
	"strings"

	"github.com/confine-run/confine/confine/hostfs"
	"github.com/confine-run/confine/internal/handoff"
)

// Image is what a tree that becomes the root says about itself.
type Image struct {
	Path string // PATH; empty is the usual one
	Dir  string // where to start; empty is /
}

const optRootfs = "--rootfs"

// imagePath is the PATH of a tree that says nothing about it.
const imagePath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// imageSystem makes a prepared tree the root, in place of the system's: with a
// fresh /proc, a minimal /dev, and the names that belong to the run. Nothing of the
// caller's is there but what the caller names.
func (c *compiler) imageSystem() error {
	f, _, err := c.named(optRootfs, c.in.Rootfs, false)
	if err != nil {
		return err
	}
	bad := func(err error, hint string) error {
		return &Error{Option: optRootfs, Path: c.in.Rootfs, Err: err, Hint: hint}
	}
	switch {
	case !f.Mode.IsDir():
		return bad(ErrInvalid, "it is not a directory")
	case f.Path == "/":
		return bad(ErrTooBroad, "the system itself is visible without it; --allow-read / shows everything else")
	case hostfs.Under(f.Path, "/proc"), hostfs.Under(f.Path, "/sys"), hostfs.Under(f.Path, "/dev"):
		return bad(ErrReserved, "name a tree of files")
	}
	for _, name := range [...]string{"proc", "dev"} {
		if at, err := c.host.Lstat(path.Join(f.Path, name)); err == nil && !at.Mode.IsDir() {
			return bad(ErrInvalid, name+notDirectory)
		}
	}
	c.show(grant{dst: "/", src: f, access: overlay, root: true, searched: -1, why: optRootfs + " " + c.in.Rootfs, origin: originOf(optRootfs, c.in.Rootfs)}, nil)
	c.table.Root = handoff.Mount{Kind: handoff.MountOverlay, Dst: "/", Src: f.Path, Dev: f.Dev, Ino: f.Ino}
	c.dev()
	for i := range c.files {
		if c.files[i].Dst == "/dev" { // one of its own, not the tree's
			c.files[i] = handoff.Mount{Kind: handoff.MountScratch, Dst: "/dev", Mode: 0o755, ReadOnly: true}
		}
	}
	c.proc()
	for _, n := range c.names() {
		c.imageFile(n.path, n.text)
	}
	c.imageUser()
	if c.table.Env["PATH"] = c.in.Image.Path; c.in.Image.Path == "" {
		c.table.Env["PATH"] = imagePath
	}
	return nil
}

// imageFile puts a file of the run's in the place of the tree's, following the
// links on the way as the target would. Where there is no place for it, and none
// can be made, it is left out.
func (c *compiler) imageFile(name, text string) {
	dir, _, _ := c.inside(path.Dir(name))
	if dir == "" {
		return
	}
	c.files = append(c.files, handoff.Mount{Kind: handoff.MountFile, Dst: path.Join(dir, path.Base(name)), Text: text, Mode: 0o644, Optional: true})
	c.rule(name, AccessPrivate, "the run's own")
}

// imageUser sees to it that the target's user has a name, and finds its home.
func (c *compiler) imageUser() {
	c.homeEnv = tmpDir
	text, found := c.imageText("/etc/passwd")
	uid := strconv.FormatUint(uint64(c.in.UID), 10)
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimRight(line, "\n"), ":")
		if len(fields) < 7 || fields[2] != uid {
			continue
		}
		if home := fields[5]; path.IsAbs(home) && path.Clean(home) == home && home != "/" && !strings.ContainsRune(home, 0) {
			if _, mode, ok := c.inside(home); ok && mode.IsDir() {
				c.homeEnv = home
			}
		}
		return
	}
	if !found {
		return // a tree without users asks for none
	}
	name := c.user()
	for strings.HasPrefix(text, name+":") || strings.Contains(text, "\n"+name+":") {
		name += "_"
	}
	gid := strconv.FormatUint(uint64(c.in.GID), 10)
	c.imageFile("/etc/passwd", endLine(text)+name+":x:"+uid+":"+gid+"::"+c.homeEnv+":/bin/sh\n")
}

// imageText reads a small file of the tree, with links followed inside it.
func (c *compiler) imageText(name string) (text string, found bool) {
	at, mode, found := c.inside(name)
	if !found || !mode.IsRegular() {
		return "", false
	}
	g := nearest(c.grants, at)
	text, err := c.host.ReadFile(g.at(at), maxNameService)
	return text, err == nil
}

func endLine(s string) string {
	if s == "" || strings.HasSuffix(s, "\n") {
		return s
	}
	return s + "\n"
}

// imageTemp makes the places for temporary files private, wherever links in the
// tree lead that are called so.
func (c *compiler) imageTemp() error {
	c.table.Env["HOME"] = c.homeEnv
	if !c.in.TempDir {
		return nil
	}
	c.table.Env["TMPDIR"] = tmpDir
	for _, dir := range [...]string{tmpDir, varTmpDir} {
		at, _, _ := c.inside(dir)
		if at == "" || at == "/" {
			continue
		}
		if in := c.fileOnWay(at); in != "" {
			return &Error{Option: optRootfs, Path: c.in.Rootfs, Err: ErrInvalid, Hint: in[1:] + notDirectory}
		}
		c.give(at, 0o1777, whyTemp, FromTempDir)
	}
	return nil
}

// notDirectory goes behind a name in an image.
const notDirectory = " in it is not a directory: the run's own can't be there"

// fileOnWay is what stands at a path or above it and is no directory, if something does.
func (c *compiler) fileOnWay(at string) string {
	for ; at != "/"; at = path.Dir(at) {
		if mode, found := c.statInside(at); found {
			if mode.IsDir() {
				return ""
			}
			return at
		}
	}
	return ""
}

// imageDir is where the target starts, unless the caller says so.
func (c *compiler) imageDir() string {
	if c.in.Image.Dir == "" {
		return "/"
	}
	if at, mode, found := c.inside(path.Join("/", c.in.Image.Dir)); found && mode.IsDir() {
		return at
	}
	return "/"
}
