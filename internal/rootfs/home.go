package rootfs

import (
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/confine-run/confine/internal/discover"
	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/secrets"
	"github.com/confine-run/confine/internal/view"
)

// homeOption shows the home directory, when a profile wants that, or as an overlay
// when the caller does.
func (c *compiler) homeOption() error {
	if c.In.EphemeralHome {
		if err := c.homeConflict(); err != nil {
			return err
		}
	}
	if !c.In.Home && !c.In.EphemeralHome || c.In.Virtual || c.In.Rootfs != "" {
		return nil
	}
	if c.Home == "" {
		c.withoutHome(c.NoHome)
		return nil
	}
	if !c.In.EphemeralHome {
		return c.readableHome()
	}
	f, links, err := c.Find(c.Home)
	if hostfs.Absent(err) {
		c.withoutHome("HOME is " + strconv.Quote(c.In.HomeDir) + ", and nothing is there")
		return nil
	}
	if err == nil {
		_, err = c.Host.ReadDir(f.Path)
	}
	if err != nil {
		return &view.Error{Option: optEphemeralHome, Path: c.Home, Err: err, Hint: c.homeHint(err)}
	}
	c.Show(view.Grant{Src: f, Access: view.Overlay, Searched: secrets.HomeDepth, Explicit: true, Option: optEphemeralHome,
		Why: optEphemeralHome + ", except secrets", Origin: view.OriginOf(optEphemeralHome, "")}, links)
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
	entries, err := c.Host.ReadDir(c.Home)
	if hostfs.Absent(err) {
		return nil
	}
	if err != nil {
		return &view.Error{Option: "home directory", Path: c.Home, Err: err, Hint: c.homeHint(err)}
	}
	dots := make(map[string]bool, len(entries))
	for _, e := range entries {
		if e.Name[0] == '.' {
			dots[e.Name] = true
		} else if c.In.MacOS && e.Name == library {
			homeLibrary(c)
		} else {
			c.homeEntry(e.Name, view.Read, secrets.HomeDepth-1, whyHome)
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
			c.RuleOf(view.Origin{Option: view.FromHome}, c.Home+"/"+x.path, view.RuleHidden, whyHome+": it holds what logs in")
		default:
			c.homeEntry(x.path, x.how, 0, whyHome+": "+x.reason)
		}
	}
	for i := range discover.Chains {
		x := &discover.Chains[i]
		if x.Home[0] != '.' || !has(x.Home) {
			continue
		}
		why := whyHome + ": tool chain: " + x.Name
		if x.Show == nil {
			c.homeEntry(x.Home, view.Read, 0, why)
		}
		for _, part := range x.Show {
			c.homeEntry(x.Home+"/"+part, view.Read, 0, why)
		}
		if len(x.Hide) > 0 {
			c.finder.Chains.Never = append(c.finder.Chains.Never, discover.Never{Root: c.Home + "/" + x.Home, Parts: x.Hide})
		}
	}
	return nil
}

// homeEntry shows one name of the home directory. One that leads elsewhere through a link
// is a link inside, too, and where that leads is shown or not by what it is there.
func (c *compiler) homeEntry(name string, how view.Access, depth int, why string) {
	at := c.Home + "/" + name
	w := hostfs.TraceFrom(c.Host, c.Home, name)
	if w.End != at || len(w.Links) > 0 {
		c.Links = append(c.Links, w.Links...)
		return
	}
	f, err := c.Host.Lstat(at)
	if err != nil || f.Mode.Type()&(fs.ModeSocket|fs.ModeNamedPipe|fs.ModeDevice) != 0 {
		return
	}
	if !f.Mode.IsDir() {
		how = view.Read
	}
	c.Show(view.Grant{Src: f, Access: how, Searched: depth, Optional: true, Why: why, Origin: view.Origin{Option: view.FromHome}}, nil)
}

// logsIn says whether a file holds a word that makes it a credential, or can't be read.
func (c *compiler) logsIn(x *homeEntry) bool {
	if x.unless == nil {
		return false
	}
	text, err := c.Host.ReadFile(c.Home+"/"+x.path, secrets.MaxSize)
	if err != nil {
		return true
	}
	text = strings.ToLower(text)
	return slices.ContainsFunc(x.unless, func(word string) bool { return strings.Contains(text, word) }) || secrets.LoginURL(text)
}

// homeConflict refuses an ephemeral home beside what shows none, whatever HOME says.
func (c *compiler) homeConflict() error {
	switch {
	case c.In.Virtual:
		return &view.Error{Option: optEphemeralHome, Path: c.Home, Err: view.ErrConflict, Hint: onlyMounts + "~:/DST:overlay"}
	case c.In.Rootfs != "":
		return &view.Error{Option: optEphemeralHome, Path: c.Home, Err: view.ErrOtherRoot, Hint: "in another tree is no home directory of yours: --mount ~:/DST:overlay"}
	}
	return nil
}

// withoutHome notes that there is no home directory that could be shown. Who has
// none, and didn't ask, needn't know.
func (c *compiler) withoutHome(why string) {
	switch {
	case c.In.EphemeralHome:
		c.table.NoHome = why
		c.Notice(optEphemeralHome + " shows nothing: " + why)
	case c.Trees.HomeLink != "":
		c.Notice("no home directory is shown: " + why)
	}
}

func (c *compiler) homeHint(err error) string {
	if c.Foreign && errors.Is(err, fs.ErrPermission) {
		uid := strconv.FormatUint(uint64(c.In.AccessUID), 10)
		return "it is where HOME leads, and uid " + uid + " can't read it: set HOME to that user's own home directory"
	}
	return c.WhyMissing(c.Home, err)
}
