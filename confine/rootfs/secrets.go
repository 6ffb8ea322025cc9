package rootfs

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/confine-run/confine/confine/hostfs"
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
					c.hideSecret(f.Path, whyTokens, Origin{})
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
			if hostfs.Absent(err) {
				continue
			}
			at := f.Path
			if err != nil { // it is there, and this user can't reach it now
				at = home + "/" + rest
			}
			c.hideSecret(at, "secrets: "+secrets[i].Reason, FromSecrets)
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
			return nil, &Error{Option: optDeny, Path: SetSecrets, Err: ErrLimit, Hint: "there are too many home directories: show only those that are needed"}
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
	s := search{c: c, given: SetSecrets, hint: "show less of it, or turn the set off with --deny none", until: c.deadline()}
	var found []secretAt
	names := secretNames()
	for _, g := range slices.Clone(c.grants) {
		if g.searched == 0 || c.isSecret(g.src.Path) || !asked && !g.ofWork {
			continue
		}
		if !g.src.Mode.IsDir() {
			if w := names.match(g.src.Path); w != nil && !g.explicit && s.holds(w, g.src.Path) {
				found = append(found, secretAt{g.src.Path, w.Reason})
			}
			continue
		}
		if asked {
			c.later(&g)
		}
		if slices.ContainsFunc(published[:], func(p string) bool { return hostfs.Under(g.src.Path, p) }) {
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

// isSecret: the caller named what a home's part of the set has, or a part of that.
func (c *compiler) isSecret(outside string) bool {
	for i := range secrets {
		if rest, ok := strings.CutPrefix(secrets[i].Pattern, inHomes); ok && c.home != "" && hostfs.Under(outside, c.home+"/"+rest) {
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

// byName are the entries that are looked for in searched trees.
type byName struct {
	exact      map[string][]*Secret // by the last component, in lower case
	extensions map[string]*Secret   // of "*.EXTENSION"
	globs      []*Secret
}

func secretNames() byName {
	n := byName{exact: make(map[string][]*Secret, 2*len(secrets)), extensions: make(map[string]*Secret, 32)}
	for i := range secrets {
		s := &secrets[i]
		name, ok := strings.CutPrefix(s.Pattern, inTrees)
		switch {
		case !ok && !s.anywhere():
		case !ok || !strings.ContainsAny(name, "*?["):
			last := strings.ToLower(path.Base(s.Pattern))
			n.exact[last] = append(n.exact[last], s)
		case name[0] == '*' && path.Ext(name) == name[1:]:
			n.extensions[name[1:]] = s
		default:
			n.globs = append(n.globs, s)
		}
	}
	return n
}

// anywhere: the entry of a home directory also counts in a directory or a copy of one that lies in
// a searched tree. Keys, browsers, mail, wallets and what was typed are somebody's wherever they
// are; the settings of tools (.npmrc, .docker, .claude) a project has of its own, so that of those
// the files which hold tokens have entries by name.
func (s *Secret) anywhere() bool {
	switch s.Reason {
	case whyKeys, whyBrowser, whyHistory, whyWallet, whyMessages:
		return strings.HasPrefix(s.Pattern, inHomes+".")
	}
	return false
}

// match is the entry that has a canonical path, or nil. One of a home directory has directories, too.
func (n *byName) match(full string) *Secret {
	dir, name := path.Split(full)
	name = original(strings.ToLower(name))
	for _, s := range n.exact[name] {
		at := s.Pattern[strings.IndexByte(s.Pattern, '/')+1:]
		parents := at[:len(at)-len(path.Base(at))]
		if parents == "" || strings.HasSuffix(strings.ToLower(dir), "/"+strings.ToLower(parents)) {
			return s
		}
	}
	for _, s := range n.globs {
		if ok, _ := path.Match(s.Pattern[len(inTrees):], name); ok && !isPublic(name) {
			return s
		}
	}
	if s := n.extensions[path.Ext(name)]; s != nil && !isPublic(name) {
		return s
	}
	return nil
}

// original is the name that a copy has been made of.
func original(name string) string {
	for i := 0; i < len(copies); i++ {
		if rest, ok := strings.CutSuffix(name, copies[i]); ok {
			name, i = rest, -1
		}
	}
	return name
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
	if isBare(entries) {
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
			if s := t.names.match(name); s != nil && strings.HasPrefix(s.Pattern, inHomes) && !(tests && s.Reason == whyKeys) {
				t.found = append(t.found, secretAt{name, s.Reason})
				continue
			}
			if slices.Contains(unsearched[:], e.Name) || t.home && e.Name[0] == '.' {
				continue
			}
			if depth == 0 {
				if err := t.gitDir(name + "/.git"); err != nil {
					return err
				}
				continue
			}
			inTests := tests || slices.Contains(testDirs[:], e.Name)
			if err := t.directory(g, name, path.Join(inside, e.Name), max(depth-1, -1), inTests); err != nil {
				return err
			}
		case e.Type == fs.ModeSocket:
			t.c.lies(g, name)
		case e.Type.IsRegular() || e.Type == fs.ModeSymlink:
			s := t.names.match(name)
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

func (t *search) holds(s *Secret, name string) bool {
	if s.Holds == "" {
		return true
	}
	text, err := t.c.host.ReadFile(name, maxHolds)
	if err != nil {
		return !errors.Is(err, syscall.EFBIG) // what can't be told is hidden
	}
	return strings.Contains(text, s.Holds)
}
