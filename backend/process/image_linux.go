package process

import (
	"context"
	"errors"
	"path"
	"path/filepath"
	"strconv"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/image"
	"github.com/confine-run/confine/internal/view"
)

func (c *Command) hasImage(policy *config.Policy) bool {
	src := policy.Filesystem.Rootfs
	return src != "" && image.Is(src)
}

// unpack makes a tree of the image that --rootfs names, if nobody did before. It is the
// only thing that a run does before its plan.
func (c *Command) unpack(ctx context.Context, policy *config.Policy) error {
	src := policy.Filesystem.Rootfs
	if err := c.reaches(policy, "--rootfs", src); err != nil {
		return err
	}
	cache, err := c.imageCache(policy)
	if err != nil {
		return err
	}
	t, err := image.Unpack(ctx, src, cache)
	if err != nil && ctx.Err() != nil {
		return err
	}
	if err != nil {
		return notAnImage(src, err)
	}
	c.image = &t
	return nil
}

func notAnImage(src string, err error) error {
	return &config.UsageError{Msg: "--rootfs " + strconv.Quote(src) + ": " + err.Error(), Err: err,
		Hint: image.Remedy(err)}
}

// imageCache is where images are kept as trees, one for each digest.
func (c *Command) imageCache(policy *config.Policy) (string, error) {
	dir := c.env("XDG_CACHE_HOME")
	if !filepath.IsAbs(dir) {
		if dir = c.env("HOME"); !filepath.IsAbs(dir) {
			return "", &config.UsageError{Msg: "--rootfs: there is no place to unpack an image to", Hint: "set HOME or XDG_CACHE_HOME"}
		}
		dir = filepath.Join(dir, ".cache")
	}
	dir = filepath.Join(dir, "confine", "rootfs")
	return dir, c.reaches(policy, "unpacked images", dir)
}

// root finds the tree that --rootfs names: a directory, or what an image was unpacked to. A plan by itself unpacks nothing.
func (p *fileCompiler) root(in *view.Input) error {
	src := p.policy.Filesystem.Rootfs
	if in.Rootfs = src; src == "" || p.command.image == nil && !image.Is(src) {
		return nil
	}
	t := p.command.image
	if t == nil {
		if err := p.command.reaches(p.policy, "--rootfs", src); err != nil {
			return err
		}
		cache, err := p.command.imageCache(p.policy)
		if err != nil {
			return err
		}
		found, err := image.Find(src, cache)
		if errors.Is(err, image.ErrNotUnpacked) {
			return &config.UsageError{Msg: "--rootfs " + strconv.Quote(src) + " " + err.Error(), Err: err, Hint: "a run unpacks it, once; nothing else does"}
		}
		if err != nil {
			return notAnImage(src, err)
		}
		t = &found
	}
	in.Rootfs, in.Image = t.Root, view.Image{Path: t.Path, Dir: t.Dir}
	return nil
}

// imageDir tells the user when the image names a directory to start in that it doesn't have.
func (p *fileCompiler) imageDir(dir string) {
	if at := path.Join("/", dir); at != "/" && p.plan.Exec.Dir == "/" && p.policy.Filesystem.Chdir == "" {
		p.notice("the image says to start in " + strconv.Quote(at) + ", which is no directory in it: the command starts in /")
	}
}
