package rootfs

import (
	"errors"
	"io/fs"
	"path"
	"slices"

	"github.com/confine-run/confine/confine/gitdir"
	"github.com/confine-run/confine/confine/hostfs"
	"github.com/confine-run/confine/confine/secrets"
)

// secrets hides the set of that name: what lies in homes wherever it is shown, and
// by name what is found in the trees that the caller works in. A home directory
// that a profile shows is never without its part of it. What the caller named
// stays, since a path says more than a set.
func (c *compiler) secrets() error {
	asked := slices.Contains(c.in.Deny, secrets.Set)
	if asked || (c.in.Home || c.in.EphemeralHome) && !c.in.Virtual {
		if err := c.homeSecrets(asked); err != nil {
			return err
		}
	}
	if err := c.searchSecrets(asked); err != nil {
		return err
	}
	for _, n := range c.chains.never {
		root, err := c.host.Resolve(n.root)
		if err != nil {
			continue
		}
		for _, part := range n.parts {
			if at := root.Path + "/" + part; c.visible(at) {
				if f, err := c.host.Resolve(at); err == nil {
					c.hideSecret(f.Path, secrets.WhyTokens, Origin{})
				}
			}
		}
	}
	return nil
}

// homeSecrets hides what has its place in a home directory: the caller's, and
// other people's where these are shown too.
func (c *compiler) homeSecrets(asked bool) error {
	homes, err := c.homes(asked)
	if err != nil {
		return err
	}
	for _, home := range homes {
		for rest, s := range secrets.AtHome() {
			f, err := c.host.Resolve(home + "/" + rest)
			if hostfs.Absent(err) {
				continue
			}
			at := f.Path
			if err != nil { // it is there, and this user can't reach it now
				at = home + "/" + rest
			}
			c.hideSecret(at, "secrets: "+s.Reason, FromSecrets)
		}
	}
	return nil
}

// maxHomes bounds how many people's homes are looked at.
const maxHomes = 256

func (c *compiler) homes(asked bool) ([]string, error) {
	var homes []string
	add := func(dir string) {
		if f, err := c.host.Resolve(dir); err == nil && f.Mode.IsDir() && f.Path != "/" && !slices.Contains(homes, f.Path) && c.anyShown(f.Path) {
			homes = append(homes, f.Path)
		}
	}
	if path.IsAbs(c.in.HomeDir) {
		add(c.in.HomeDir)
	}
	if !asked {
		return homes, nil
	}
	add("/root")
	if !c.anyShown("/home") {
		return homes, nil
	}
	entries, err := c.host.ReadDir("/home")
	if err != nil {
		return homes, nil // nobody can be looked up there, inside neither
	}
	for _, e := range entries {
		if add("/home/" + e.Name); len(homes) > maxHomes {
			return nil, &Error{Option: optDeny, Path: secrets.Set, Err: ErrLimit, Hint: "there are too many home directories: show only those that are needed"}
		}
	}
	return homes, nil
}

// anyShown says whether anything at, below or above a path of the caller's is shown.
func (c *compiler) anyShown(outside string) bool {
	return slices.ContainsFunc(c.grants, func(g grant) bool {
		return g.access != private && (hostfs.Under(outside, g.src.Path) || hostfs.Under(g.src.Path, outside))
	})
}

// hideSecret hides a path of the caller's wherever it is shown, but where the
// caller asked for just that.
func (c *compiler) hideSecret(outside, why string, by Origin) {
next:
	for _, at := range c.shownAt(outside) {
		for i := range c.asked {
			if g := &c.asked[i]; g.dst == at && g.explicit {
				continue next
			}
		}
		c.hide(at, why, by)
	}
}

// searchSecrets looks for the names of the set: where the caller asked for it, and in what
// discovery shows of trees of work. How much that is, whoever fills the tree decides: what is
// too much isn't shown.
func (c *compiler) searchSecrets(asked bool) error {
	if !asked && !slices.ContainsFunc(c.grants, func(g grant) bool { return g.ofWork }) {
		return nil
	}
	s := search{c: c, given: secrets.Set, hint: "show less of it, or turn the set off with --deny none", until: c.deadline()}
	var found []secretAt
	names := secrets.ByName()
	for _, g := range slices.Clone(c.grants) {
		if g.searched == 0 || secrets.InHome(c.home, g.src.Path) != nil || !asked && !g.ofWork {
			continue
		}
		if !g.src.Mode.IsDir() {
			if w := names.Match(g.src.Path); w != nil && !g.explicit && w.In(c.host, g.src.Path) {
				found = append(found, secretAt{g.src.Path, w.Reason})
			}
			continue
		}
		if asked {
			c.later(&g)
		}
		if slices.ContainsFunc(secrets.Published[:], func(p string) bool { return hostfs.Under(g.src.Path, p) }) {
			continue
		}
		t := secretTree{search: &s, names: names, home: g.searched > 0}
		if err := t.directory(&g, g.src.Path, g.dst, g.searched, false); err != nil {
			if !g.ofWork {
				return err
			}
			c.hide(g.dst, "there is too much in it to search for secrets", Origin{})
			c.notice(quote(g.src.Path) + " is not shown, because there is too much in it to search for secrets: name it with --allow-read")
			s.seen = 0
			continue
		}
		found = append(found, t.found...)
	}
	for _, f := range found {
		c.hideSecret(f.outside, "secrets: "+f.reason, FromSecrets)
	}
	return nil
}

type secretAt struct{ outside, reason string }

// secretTree is the search of one tree.
type secretTree struct {
	*search
	names secrets.Names
	home  bool // a home directory that a profile shows
	found []secretAt
}

// directory searches one, and depth levels below it; -1 is all of them.
func (t *secretTree) directory(g *grant, outside, inside string, depth int, tests bool) error {
	if n := nearest(t.c.grants, inside); n == nil || n.dst != g.dst {
		return nil // another grant shows what is here
	}
	entries, err := t.read(outside)
	if errors.Is(err, fs.ErrPermission) {
		// Names in it may be opened without being listed, or its mode changed.
		t.found = append(t.found, secretAt{outside, "it can't be searched by this user"})
		return nil
	}
	if err != nil {
		return t.tooMany(err)
	}
	if gitdir.IsBare(entries) {
		return t.gitDir(outside)
	}
	for _, e := range entries {
		name := path.Join(outside, e.Name)
		switch {
		case e.Type.IsDir():
			if e.Name == ".git" {
				if err := t.gitDir(name); err != nil {
					return err
				}
				continue
			}
			if s := t.names.Match(name); s.IsTree() && !s.MadeUp(tests) {
				t.found = append(t.found, secretAt{name, s.Reason})
				continue
			}
			if slices.Contains(secrets.Unsearched[:], e.Name) || t.home && e.Name[0] == '.' {
				continue
			}
			if depth == 0 {
				if err := t.gitDir(name + "/.git"); err != nil {
					return err
				}
				continue
			}
			inTests := tests || slices.Contains(secrets.TestDirs[:], e.Name)
			if err := t.directory(g, name, path.Join(inside, e.Name), max(depth-1, -1), inTests); err != nil {
				return err
			}
		case e.Type == fs.ModeSocket:
			t.c.lies(g, name)
		case e.Type.IsRegular() || e.Type == fs.ModeSymlink:
			s := t.names.Match(name)
			if s == nil || s.MadeUp(tests) {
				continue
			}
			// Of a link, what it leads to is the secret, whatever that is called.
			if f, err := t.c.host.Resolve(name); err == nil && f.Mode.IsRegular() && s.In(t.c.host, f.Path) {
				t.found = append(t.found, secretAt{f.Path, s.Reason})
			}
		}
	}
	return nil
}
