package rootfs

// homeOption shows the home directory, when a profile wants that.
func (c *compiler) homeOption() error {
	if !c.in.Home || c.in.Virtual || c.in.Rootfs != "" || c.home == "" {
		return nil
	}
	f, links, err := c.find(c.home)
	if err != nil {
		if absent(err) {
			return nil
		}
		return &Error{Option: "home directory", Path: c.home, Err: err, Hint: c.missing(c.home, err)}
	}
	c.show(grant{src: f, access: read, searched: homeDepth, why: "home directory, except secrets"}, links)
	return nil
}
