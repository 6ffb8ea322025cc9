package rootfs

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
)

// secrets hides the set of that name: what lies in homes wherever it is shown, and
// by name what is found in the trees that the caller works in. A home directory
// that a profile shows is never without its part of it. What the caller named
// stays, since a path says more than a set.
func (c *compiler) secrets() error {
	asked := slices.Contains(c.in.Deny, SetSecrets)
	if asked || (c.in.Home || c.in.EphemeralHome) && !c.in.Virtual {
		if err := c.homeSecrets(asked); err != nil {
			return err
		}
	}
	if asked {
		if err := c.searchSecrets(); err != nil {
			return err
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

// homeSecrets hides what has its place in a home directory: the caller's, and
// other people's where these are shown too.
func (c *compiler) homeSecrets(asked bool) error {
	homes, err := c.homes(asked)
	if err != nil {
		return err
	}
	for _, home := range homes {
		for i := range secrets {
			rest, ok := strings.CutPrefix(secrets[i].Pattern, inHomes)
			if !ok {
				continue
			}
			f, err := c.host.Resolve(home + "/" + rest)
			if absent(err) {
				continue
			}
			at := f.Path
			if err != nil { // it is there, and this user can't reach it now
				at = home + "/" + rest
			}
			c.hideSecret(at, "secrets: "+secrets[i].Reason)
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
	if c.homeGiven() {
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
			return nil, &Error{Option: optDeny, Path: SetSecrets, Err: ErrLimit, Hint: "there are too many home directories: show only those that are needed"}
		}
	}
	return homes, nil
}

// anyShown says whether anything at, below or above a path of the caller's is shown.
func (c *compiler) anyShown(outside string) bool {
	return slices.ContainsFunc(c.grants, func(g grant) bool {
		return g.access != private && (under(outside, g.src.Path) || under(g.src.Path, outside))
	})
}

// hideSecret hides a path of the caller's wherever it is shown, but where the
// caller asked for just that.
func (c *compiler) hideSecret(outside, why string) {
next:
	for _, at := range c.shownAt(outside) {
		for i := range c.asked {
			if g := &c.asked[i]; g.dst == at && g.explicit {
				continue next
			}
		}
		c.hide(at, why)
	}
}

// searchSecrets looks for the names of the set.
func (c *compiler) searchSecrets() error {
	s := search{c: c, given: SetSecrets, hint: "show less of it, or turn the set off with --deny none", until: c.deadline()}
	var found []secretAt
	names := secretNames()
	for _, g := range slices.Clone(c.grants) {
		if g.searched == 0 || !g.src.Mode.IsDir() || c.isSecret(g.src.Path) {
			continue
		}
		c.later(&g)
		if slices.ContainsFunc(published[:], func(p string) bool { return under(g.src.Path, p) }) {
			continue
		}
		t := secretTree{search: &s, names: names, home: g.searched > 0}
		if err := t.directory(&g, g.src.Path, g.dst, g.searched, false); err != nil {
			return err
		}
		found = append(found, t.found...)
	}
	for _, f := range found {
		c.hideSecret(f.outside, "secrets: "+f.reason)
	}
	return nil
}

// isSecret: the caller named what a home's part of the set has, or a part of that.
func (c *compiler) isSecret(outside string) bool {
	for i := range secrets {
		if rest, ok := strings.CutPrefix(secrets[i].Pattern, inHomes); ok && c.home != "" && under(outside, c.home+"/"+rest) {
			return true
		}
	}
	return false
}

type secretAt struct{ outside, reason string }

// secretTree is the search of one tree.
type secretTree struct {
	*search
	names byName
	home  bool // a home directory that a profile shows
	found []secretAt
}

// byName are the entries that are found by name.
type byName struct {
	exact map[string]*Secret
	globs []*Secret
}

func secretNames() byName {
	n := byName{exact: make(map[string]*Secret, 32)}
	for i := range secrets {
		name, ok := strings.CutPrefix(secrets[i].Pattern, inTrees)
		switch {
		case !ok:
		case strings.ContainsAny(name, "*?["):
			n.globs = append(n.globs, &secrets[i])
		default:
			n.exact[name] = &secrets[i]
		}
	}
	return n
}

// match is the entry that has a name, or nil.
func (n *byName) match(name string) *Secret {
	if s := n.exact[name]; s != nil {
		return s
	}
	for _, s := range n.globs {
		if ok, _ := path.Match(s.Pattern[len(inTrees):], name); ok && !isPublic(name) {
			return s
		}
	}
	return nil
}

func isPublic(name string) bool {
	return slices.ContainsFunc(public[:], func(p string) bool { ok, _ := path.Match(p, name); return ok })
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
	for _, e := range entries {
		name := path.Join(outside, e.Name)
		switch {
		case e.Type.IsDir():
			if depth == 0 || slices.Contains(unsearched[:], e.Name) || t.home && e.Name[0] == '.' {
				continue
			}
			inTests := tests || slices.Contains(testDirs[:], e.Name)
			if err := t.directory(g, name, path.Join(inside, e.Name), max(depth-1, -1), inTests); err != nil {
				return err
			}
		case e.Type == fs.ModeSocket:
			t.c.lies(g, name)
		case e.Type.IsRegular() || e.Type == fs.ModeSymlink:
			s := t.names.match(e.Name)
			if s == nil || tests && s.Reason == whyKeys {
				continue
			}
			// Of a link, what it leads to is the secret, whatever that is called.
			if f, err := t.c.host.Resolve(name); err == nil && f.Mode.IsRegular() && t.holds(s, f.Path) {
				t.found = append(t.found, secretAt{f.Path, s.Reason})
			}
		}
	}
	return nil
}

// maxHolds is the size up to which a file is read. A bundle of certificates has
// less, and no file that holds a key has more.
const maxHolds = 1 << 20

func (t *secretTree) holds(s *Secret, name string) bool {
	if s.Holds == "" {
		return true
	}
	text, err := t.c.host.ReadFile(name, maxHolds)
	if err != nil {
		return !errors.Is(err, syscall.EFBIG) // what can't be told is hidden
	}
	return strings.Contains(text, s.Holds)
}
