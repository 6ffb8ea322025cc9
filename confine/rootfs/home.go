package rootfs

// homeOption shows the home directory, when a profile wants that.
func (c *compiler) homeOption() error {
	if !c.in.Home || c.in.Virtual || c.home == "" {
		return nil
	}
	f, links, err := c.find(c.home)
	if err != nil {
		if absent(err) {
			return nil
		}
		return &Error{Option: "home directory", Path: c.home, Err: err, Hint: c.missing(c.home, err)}
	}
	c.show(grant{src: f, access: read, why: "home directory, except secrets"}, links)
	return nil
}

// secrets hides what is secret in a home directory that a profile shows. What
// the caller named stays, since that was meant.
func (c *compiler) secrets() error {
	if c.in.Home && c.home != "" && !c.in.Virtual {
		for i := range secrets {
			s := &secrets[i]
			f, err := c.host.Resolve(c.home + "/" + s.path)
			if absent(err) {
				continue
			}
			at := f.Path
			if err != nil { // it is there, and this user can't reach it now
				at = c.home + "/" + s.path
			}
			c.hideSecret(at, s.reason)
		}
	}
	for _, n := range c.chains.never {
		root, err := c.host.Resolve(n.root)
		if err != nil {
			continue
		}
		for _, part := range n.parts {
			if at := root.Path + "/" + part; c.visible(at) {
				if f, err := c.host.Resolve(at); err == nil {
					c.hideSecret(f.Path, whyTokens)
				}
			}
		}
	}
	return nil
}

func (c *compiler) hideSecret(at, why string) {
	for i := range c.asked {
		if g := &c.asked[i]; g.dst == at && g.explicit {
			return
		}
	}
	if c.visible(at) {
		c.hide(at, why)
	}
}
