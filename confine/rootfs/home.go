package rootfs

import (
	"errors"
	"io/fs"
	"strconv"
)

// homeOption shows the home directory, when a profile wants that, or as an overlay
// when the caller does.
func (c *compiler) homeOption() error {
	if c.in.EphemeralHome {
		if err := c.homeConflict(); err != nil {
			return err
		}
	}
	if !c.in.Home && !c.in.EphemeralHome || c.in.Virtual || c.in.Rootfs != "" {
		return nil
	}
	if c.home == "" {
		c.withoutHome(c.noHome)
		return nil
	}
	f, links, err := c.find(c.home)
	if absent(err) {
		c.withoutHome("HOME is " + strconv.Quote(c.in.HomeDir) + ", and nothing is there")
		return nil
	}
	if err == nil && c.in.EphemeralHome {
		_, err = c.host.ReadDir(f.Path)
	}
	if err != nil {
		option := "home directory"
		if c.in.EphemeralHome {
			option = optEphemeralHome
		}
		return &Error{Option: option, Path: c.home, Err: err, Hint: c.homeHint(err)}
	}
	g := grant{src: f, access: read, searched: homeDepth, why: "home directory, except secrets"}
	if c.in.EphemeralHome {
		g.access, g.explicit, g.option, g.why = overlay, true, optEphemeralHome, optEphemeralHome+", except secrets"
	}
	c.show(g, links)
	return nil
}

// homeConflict refuses an ephemeral home beside what shows none, whatever HOME says.
func (c *compiler) homeConflict() error {
	switch {
	case c.in.Virtual:
		return &Error{Option: optEphemeralHome, Path: c.home, Err: ErrConflict, Hint: "with --virtual-fs only mounts are visible: --mount ~:/DST:overlay"}
	case c.in.Rootfs != "":
		return &Error{Option: optEphemeralHome, Path: c.home, Err: ErrOtherRoot, Hint: "in another tree is no home directory of yours: --mount ~:/DST:overlay"}
	}
	return nil
}

// withoutHome notes that there is no home directory that could be an overlay. Who has
// none, and didn't ask, needn't know.
func (c *compiler) withoutHome(why string) {
	if c.in.EphemeralHome {
		c.table.NoHome = why
		c.notice(optEphemeralHome + " shows nothing: " + why)
	}
}

func (c *compiler) homeHint(err error) string {
	if c.foreign && errors.Is(err, fs.ErrPermission) {
		uid := strconv.FormatUint(uint64(c.in.AccessUID), 10)
		return "it is where HOME leads, and uid " + uid + " can't read it: set HOME to that user's own home directory"
	}
	return c.missing(c.home, err)
}
