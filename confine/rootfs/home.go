package rootfs

import (
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/confine-run/confine/confine/hostfs"
	"github.com/confine-run/confine/confine/secrets"
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
	if !c.in.EphemeralHome {
		return c.readableHome()
	}
	f, links, err := c.find(c.home)
	if hostfs.Absent(err) {
		c.withoutHome("HOME is " + strconv.Quote(c.in.HomeDir) + ", and nothing is there")
		return nil
	}
	if err == nil {
		_, err = c.host.ReadDir(f.Path)
	}
	if err != nil {
		return &Error{Option: optEphemeralHome, Path: c.home, Err: err, Hint: c.homeHint(err)}
	}
	c.show(grant{src: f, access: overlay, searched: secrets.HomeDepth, explicit: true, option: optEphemeralHome,
		why: optEphemeralHome + ", except secrets", origin: originOf(optEphemeralHome, "")}, links)
	return nil
}

const (
	whyHome   = "home directory, except secrets"
	whyNoDots = "home directory, except secrets and names with a leading dot, but for a list of them; private is what is written to it"
)

// readableHome shows what of the home directory has no leading dot, and the dot names of a
// list, each by itself in a private home: so that what comes to be there while the run goes
// on isn't shown either, and what programs write beside it has a place.
func (c *compiler) readableHome() error {
	entries, err := c.host.ReadDir(c.home)
	if hostfs.Absent(err) {
		return nil
	}
	if err != nil {
		return &Error{Option: "home directory", Path: c.home, Err: err, Hint: c.homeHint(err)}
	}
	dots := make(map[string]bool, len(entries))
	for _, e := range entries {
		if e.Name[0] == '.' {
			dots[e.Name] = true
		} else {
			c.homeEntry(e.Name, read, secrets.HomeDepth-1, whyHome)
		}
	}
	has := func(name string) bool {
		first, _, _ := strings.Cut(name, "/")
		return dots[first]
	}
	for i := range homeShown {
		x := &homeShown[i]
		switch {
		case !has(x.path):
		case c.logsIn(x):
			c.ruleOf(Origin{Option: FromHome}, c.home+"/"+x.path, AccessHidden, whyHome+": it holds what logs in")
		default:
			c.homeEntry(x.path, x.how, 0, whyHome+": "+x.reason)
		}
	}
	for i := range chains {
		x := &chains[i]
		if x.home[0] != '.' || !has(x.home) {
			continue
		}
		why := whyHome + ": tool chain: " + x.name
		if x.show == nil {
			c.homeEntry(x.home, read, 0, why)
		}
		for _, part := range x.show {
			c.homeEntry(x.home+"/"+part, read, 0, why)
		}
		if len(x.hide) > 0 {
			c.chains.never = append(c.chains.never, never{c.home + "/" + x.home, x.hide})
		}
	}
	return nil
}

// homeEntry shows one name of the home directory. One that leads elsewhere through a link
// is a link inside, too, and where that leads is shown or not by what it is there.
func (c *compiler) homeEntry(name string, how access, depth int, why string) {
	at := c.home + "/" + name
	w := hostfs.TraceFrom(c.host, c.home, name)
	if w.End != at || len(w.Links) > 0 {
		c.links = append(c.links, w.Links...)
		return
	}
	f, err := c.host.Lstat(at)
	if err != nil || f.Mode.Type()&(fs.ModeSocket|fs.ModeNamedPipe|fs.ModeDevice) != 0 {
		return
	}
	if !f.Mode.IsDir() {
		how = read
	}
	c.show(grant{src: f, access: how, searched: depth, optional: true, why: why, origin: Origin{Option: FromHome}}, nil)
}

// logsIn says whether a file holds a word that makes it a credential, or can't be read.
func (c *compiler) logsIn(x *homeEntry) bool {
	if x.unless == nil {
		return false
	}
	text, err := c.host.ReadFile(c.home+"/"+x.path, secrets.MaxSize)
	if err != nil {
		return true
	}
	text = strings.ToLower(text)
	return slices.ContainsFunc(x.unless, func(word string) bool { return strings.Contains(text, word) }) || secrets.LoginURL(text)
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

// withoutHome notes that there is no home directory that could be shown. Who has
// none, and didn't ask, needn't know.
func (c *compiler) withoutHome(why string) {
	switch {
	case c.in.EphemeralHome:
		c.table.NoHome = why
		c.notice(optEphemeralHome + " shows nothing: " + why)
	case c.trees.homeLink != "":
		c.notice("no home directory is shown: " + why)
	}
}

func (c *compiler) homeHint(err error) string {
	if c.foreign && errors.Is(err, fs.ErrPermission) {
		uid := strconv.FormatUint(uint64(c.in.AccessUID), 10)
		return "it is where HOME leads, and uid " + uid + " can't read it: set HOME to that user's own home directory"
	}
	return c.missing(c.home, err)
}
