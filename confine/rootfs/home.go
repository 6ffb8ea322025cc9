package rootfs

// homeOption shows the home directory, when a profile wants that, or as an overlay
// when the caller does.
func (c *compiler) homeOption() error {
	if c.in.EphemeralHome && c.in.Virtual {
		return &Error{Option: optEphemeralHome, Path: c.home, Err: ErrConflict, Hint: "with --virtual-fs only mounts are visible: --mount ~:/DST:overlay"}
	}
	if !c.in.Home && !c.in.EphemeralHome || c.in.Virtual || c.in.Rootfs != "" || c.home == "" {
		return nil
	}
	f, links, err := c.find(c.home)
	if err != nil {
		if absent(err) {
			return nil
		}
		return &Error{Option: "home directory", Path: c.home, Err: err, Hint: c.missing(c.home, err)}
	}
	g := grant{src: f, access: read, searched: homeDepth, why: "home directory, except secrets"}
	if c.in.EphemeralHome {
		g.access, g.explicit, g.option, g.why = overlay, true, optEphemeralHome, optEphemeralHome+", except secrets"
	}
	c.show(g, links)
	return nil
}
