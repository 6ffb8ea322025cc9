package rootfs

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/names"
	"github.com/confine-run/confine/internal/view"
)

const optRootfs = "--rootfs"

// imagePath is the PATH of a tree that says nothing about it.
const imagePath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// imageSystem makes a prepared tree the root, in place of the system's: with a
// fresh /proc, a minimal /dev, and the names that belong to the run. Nothing of the
// caller's is there but what the caller names.
func (c *system) imageSystem() error {
	f, _, err := c.Option(optRootfs, c.In.Rootfs, false)
	if err != nil {
		return err
	}
	bad := func(err error, hint string) error {
		return &view.Error{Option: optRootfs, Path: c.In.Rootfs, Err: err, Hint: hint}
	}
	switch {
	case !f.Mode.IsDir():
		return bad(view.ErrInvalid, "it is not a directory")
	case f.Path == "/":
		return bad(view.ErrTooBroad, "the system itself is visible without it; --allow-read / shows everything else")
	case hostfs.Under(f.Path, "/proc"), hostfs.Under(f.Path, "/sys"), hostfs.Under(f.Path, "/dev"):
		return bad(view.ErrReserved, "name a tree of files")
	}
	for _, name := range [...]string{"proc", "dev"} {
		if at, err := c.Host.Lstat(path.Join(f.Path, name)); err == nil && !at.Mode.IsDir() {
			return bad(view.ErrInvalid, name+notDirectory)
		}
	}
	c.Show(view.Grant{Dst: "/", Src: f, Access: view.Overlay, Root: true, Searched: -1, Why: optRootfs + " " + c.In.Rootfs, Origin: view.OriginOf(optRootfs, c.In.Rootfs)}, nil)
	c.dev()
	for i := range c.Made {
		if c.Made[i].Dst == "/dev" { // one of its own, not the tree's
			c.Made[i] = view.Made{Kind: view.Scratch, Dst: "/dev", Mode: 0o755, ReadOnly: true}
		}
	}
	c.proc()
	c.procOf(view.KernelMask, view.RuleHidden, c.In.Masked)
	c.procOf(view.KernelPart, view.RuleProtected, c.In.ReadOnly)
	for _, n := range c.names() {
		c.imageFile(n.path, n.text)
	}
	c.imageUser()
	if c.Env["PATH"] = c.In.Image.Path; c.In.Image.Path == "" {
		c.Env["PATH"] = imagePath
	}
	return nil
}

// procOf hides further names below /proc, or makes them read-only, where they are not so already.
func (c *system) procOf(kind view.Kind, access string, names []string) {
	for _, name := range names {
		if slices.ContainsFunc(c.Made, func(m view.Made) bool { return m.Dst == name && (m.Kind == kind || m.Kind == view.KernelMask) }) {
			continue
		}
		c.Made = append(c.Made, view.Made{Kind: kind, Dst: name})
		c.Rule(name, access, "asked for")
	}
}

// imageFile puts a file of the run's in the place of the tree's, following the
// links on the way as the target would. Where there is no place for it, and none
// can be made, it is left out.
func (c *system) imageFile(name, text string) {
	dir, _, _ := c.Inside(path.Dir(name))
	if dir == "" {
		return
	}
	c.Made = append(c.Made, view.Made{Kind: view.File, Dst: path.Join(dir, path.Base(name)), Text: text, Mode: 0o644, Optional: true})
	c.Rule(name, view.RulePrivate, "the run's own")
}

// imageUser sees to it that the target's user has a name, and finds its home.
func (c *system) imageUser() {
	c.HomeEnv = names.TmpDir
	text, found := c.imageText("/etc/passwd")
	uid := strconv.FormatUint(uint64(c.In.UID), 10)
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimRight(line, "\n"), ":")
		if len(fields) < 7 || fields[2] != uid {
			continue
		}
		if home := fields[5]; path.IsAbs(home) && path.Clean(home) == home && home != "/" && !strings.ContainsRune(home, 0) {
			if _, mode, ok := c.Inside(home); ok && mode.IsDir() {
				c.HomeEnv = home
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
	gid := strconv.FormatUint(uint64(c.In.GID), 10)
	c.imageFile("/etc/passwd", endLine(text)+name+":x:"+uid+":"+gid+"::"+c.HomeEnv+":/bin/sh\n")
}

// imageText reads a small file of the tree, with links followed inside it.
func (c *system) imageText(name string) (text string, found bool) {
	at, mode, found := c.Inside(name)
	if !found || !mode.IsRegular() {
		return "", false
	}
	g := c.Nearest(at)
	text, err := c.Host.ReadFile(g.At(at), maxNameService)
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
func (c *system) imageTemp() error {
	c.Env["HOME"] = c.HomeEnv
	if !c.In.TempDir {
		return nil
	}
	c.Env["TMPDIR"] = names.TmpDir
	for _, dir := range [...]string{names.TmpDir, names.VarTmpDir} {
		at, _, _ := c.Inside(dir)
		if at == "" || at == "/" {
			continue
		}
		if in := c.fileOnWay(at); in != "" {
			return &view.Error{Option: optRootfs, Path: c.In.Rootfs, Err: view.ErrInvalid, Hint: in[1:] + notDirectory}
		}
		c.give(at, 0o1777, names.WhyTemp, view.FromTempDir)
	}
	return nil
}

// notDirectory goes behind a name in an image.
const notDirectory = " in it is not a directory: the run's own can't be there"

// fileOnWay is what stands at a path or above it and is no directory, if something does.
func (c *system) fileOnWay(at string) string {
	for ; at != "/"; at = path.Dir(at) {
		if mode, found := c.StatInside(at); found {
			if mode.IsDir() {
				return ""
			}
			return at
		}
	}
	return ""
}

// imageDir is where the target starts, unless the caller says so.
func (c *system) imageDir() string {
	if c.In.Image.Dir == "" {
		return "/"
	}
	if at, mode, found := c.Inside(path.Join("/", c.In.Image.Dir)); found && mode.IsDir() {
		return at
	}
	return "/"
}
