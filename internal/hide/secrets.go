package hide

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/confine-run/confine/internal/discover"
	"github.com/confine-run/confine/internal/gitdir"
	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/secrets"
	"github.com/confine-run/confine/internal/view"
)

// Secrets hides the set of that name: what lies in homes wherever it is shown, and
// by name what is found in the trees that the caller works in. A home directory
// that a profile shows is never without its part of it. What the caller named
// stays, since a path says more than a set.
func (c *Hider) Secrets(ofChains []discover.Never) error {
	asked := slices.Contains(c.In.Deny, secrets.Set)
	if asked || (c.In.Home || c.In.EphemeralHome) && !c.In.Virtual {
		if err := c.homeSecrets(asked); err != nil {
			return err
		}
	}
	if err := c.searchSecrets(asked); err != nil {
		return err
	}
	for _, n := range ofChains {
		root, err := c.Host.Resolve(n.Root)
		if err != nil {
			continue
		}
		for _, part := range n.Parts {
			if at := root.Path + "/" + part; c.Visible(at) {
				if f, err := c.Host.Resolve(at); err == nil {
					c.hideSecret(f.Path, secrets.WhyTokens, view.Origin{})
				}
			}
		}
	}
	return nil
}

// homeSecrets hides what has its place in a home directory: the caller's, and
// other people's where these are shown too.
func (c *Hider) homeSecrets(asked bool) error {
	homes, err := c.homes(asked)
	if err != nil {
		return err
	}
	for _, home := range homes {
		for rest, s := range secrets.AtHome() {
			f, err := c.Host.Resolve(home + "/" + rest)
			if hostfs.Absent(err) {
				continue
			}
			at := f.Path
			if err != nil { // it is there, and this user can't reach it now
				at = home + "/" + rest
			}
			c.hideSecret(at, "secrets: "+s.Reason, view.FromSecrets)
		}
	}
	return nil
}

// maxHomes bounds how many people's homes are looked at.
const maxHomes = 256

func (c *Hider) homes(asked bool) ([]string, error) {
	var homes []string
	add := func(dir string) {
		if f, err := c.Host.Resolve(dir); err == nil && f.Mode.IsDir() && f.Path != "/" && !slices.Contains(homes, f.Path) && c.AnyShown(f.Path) {
			homes = append(homes, f.Path)
		}
	}
	if path.IsAbs(c.In.HomeDir) {
		add(c.In.HomeDir)
	}
	if !asked {
		return homes, nil
	}
	add("/root")
	if !c.AnyShown("/home") {
		return homes, nil
	}
	entries, err := c.Host.ReadDir("/home")
	if err != nil {
		return homes, nil // nobody can be looked up there, inside neither
	}
	for _, e := range entries {
		if add("/home/" + e.Name); len(homes) > maxHomes {
			return nil, &view.Error{Option: optDeny, Path: secrets.Set, Err: view.ErrLimit, Hint: "there are too many home directories: show only those that are needed"}
		}
	}
	return homes, nil
}

// hideSecret hides a path of the caller's wherever it is shown, but where the
// caller asked for just that.
func (c *Hider) hideSecret(outside, why string, by view.Origin) {
	for _, at := range c.ShownAt(outside) {
		if !c.Named(at, view.Private) {
			c.Hide(at, why, by)
		}
	}
}

// searchSecrets looks for the names of the set: where the caller asked for it, and in what
// discovery shows of trees of work. How much that is, whoever fills the tree decides: what is
// too much isn't shown.
func (c *Hider) searchSecrets(asked bool) error {
	if !asked && !slices.ContainsFunc(c.Grants, func(g view.Grant) bool { return g.OfWork }) {
		return nil
	}
	s := search{c: c, given: secrets.Set, hint: "show less of it, or turn the set off with --deny none", until: c.deadline()}
	var found []secretAt
	names := secrets.ByName()
	for _, g := range slices.Clone(c.Grants) {
		if g.Searched == 0 || secrets.InHome(c.Home, g.Src.Path) != nil || !asked && !g.OfWork {
			continue
		}
		if !g.Src.Mode.IsDir() {
			if w := names.Match(g.Src.Path); w != nil && !g.Explicit && w.In(c.Host, g.Src.Path) {
				found = append(found, secretAt{g.Src.Path, w.Reason})
			}
			continue
		}
		if asked {
			c.noteLater(&g)
		}
		if slices.ContainsFunc(secrets.Published[:], func(p string) bool { return hostfs.Under(g.Src.Path, p) }) {
			continue
		}
		t := secretTree{search: &s, names: names, home: g.Searched > 0}
		if err := t.directory(&g, g.Src.Path, g.Dst, g.Searched, false); err != nil {
			if !g.OfWork {
				return err
			}
			c.Hide(g.Dst, "there is too much in it to search for secrets", view.Origin{})
			c.Notice(strconv.Quote(g.Src.Path)+" is not shown, because there is too much in it to search for secrets: name it with --allow-read", g.Src.Path)
			s.seen = 0
			continue
		}
		found = append(found, t.found...)
	}
	for _, f := range found {
		c.hideSecret(f.outside, "secrets: "+f.reason, view.FromSecrets)
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
func (t *secretTree) directory(g *view.Grant, outside, inside string, depth int, tests bool) error {
	if n := t.c.Nearest(inside); n == nil || n.Dst != g.Dst {
		return nil // another grant shows what is here
	}
	entries, err := t.read(outside)
	if errors.Is(err, fs.ErrPermission) {
		// Names in it may be opened without being listed, or its mode changed.
		t.found = append(t.found, secretAt{outside, "it can't be searched by this user"})
		return nil
	}
	if err != nil {
		return t.overBound(err)
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
			t.c.noteSocket(g, name)
		case e.Type.IsRegular() || e.Type == fs.ModeSymlink:
			s := t.names.Match(name)
			if s == nil || s.MadeUp(tests) {
				continue
			}
			// Of a link, what it leads to is the secret, whatever that is called.
			if f, err := t.c.Host.Resolve(name); err == nil && f.Mode.IsRegular() && s.In(t.c.Host, f.Path) {
				t.found = append(t.found, secretAt{f.Path, s.Reason})
			}
		}
	}
	return nil
}

// gitDir looks for what logs in in a git directory, in those of its worktrees and submodules, and in what is
// between them.
func (t *secretTree) gitDir(dir string) error {
	entries, err := t.read(dir)
	if errors.Is(err, fs.ErrPermission) {
		if f, err := t.c.Host.Resolve(dir); err == nil && !t.c.git.Needs(t.c.Cwd.Path, f.Path) {
			t.found = append(t.found, secretAt{f.Path, "it can't be searched by this user"})
		}
		return nil
	}
	if err != nil {
		return t.overBound(err)
	}
	isGit := slices.ContainsFunc(entries, func(e hostfs.Entry) bool { return e.Name == "HEAD" })
	for _, e := range entries {
		name := path.Join(dir, e.Name)
		switch {
		case !e.Type.IsDir():
			if e.Name != "credentials" && (e.Name != "config" && e.Name != "config.worktree" || !t.logsIn(name) || t.c.git.Needs(t.c.Cwd.Path, name)) {
				continue
			}
			if f, err := t.c.Host.Resolve(name); err == nil && f.Mode.IsRegular() {
				t.found = append(t.found, secretAt{f.Path, secrets.WhyTokens})
			}
		case !isGit || e.Name == "modules" || e.Name == "worktrees":
			if err := t.gitDir(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// logsIn says whether git's configuration has a URL with a password or token in it, or a setting that is one.
func (t *secretTree) logsIn(name string) bool {
	text, err := t.c.Host.ReadFile(name, secrets.MaxSize)
	if err != nil {
		return !errors.Is(err, syscall.EFBIG)
	}
	if secrets.LoginURL(text) {
		return true
	}
	text = strings.ToLower(text)
	return slices.ContainsFunc(secrets.LoginWords[:], func(word string) bool {
		return strings.Contains(text, word) && slices.ContainsFunc(gitdir.ParseConfig(text), func(s gitdir.Setting) bool {
			return strings.Contains(s.Key, word) || s.Key == "helper" && strings.Contains(s.Value, word)
		})
	})
}
