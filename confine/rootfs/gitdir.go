package rootfs

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/confine-run/confine/confine/gitdir"
	"github.com/confine-run/confine/confine/hostfs"
	"github.com/confine-run/confine/confine/secrets"
	"github.com/confine-run/confine/confine/view"
)

// gitElsewhere shows the git directory of the current directory where that lies
// in another tree, as a worktree's and a submodule's does: without it git knows
// no repository. Whoever wrote the file .git may want to see something else of the
// caller's by it. So only a directory that points back is shown.
func (c *compiler) gitElsewhere(root string, a view.Access) {
	dir, show, why := c.git.PointsBack(root)
	if dir == "" {
		return
	}
	if why != "" {
		c.Notice("the git directory " + strconv.Quote(dir) + " is not shown: " + why + "; name it with --allow-read or --allow-write")
		return
	}
	if g := c.Nearest(show); g != nil && g.Explicit || c.tooBroad(show) {
		return
	}
	if f, err := c.Host.Resolve(show); err == nil && f.Path == show {
		c.Show(view.Grant{Src: f, Access: a, Git: true, Why: "git directory of the current directory", Origin: view.Origin{Option: view.FromWorkdir}}, nil)
	}
}

// gitDir looks for what logs in in a git directory, in those of its worktrees and submodules, and in what is
// between them.
func (t *secretTree) gitDir(dir string) error {
	entries, err := t.read(dir)
	if errors.Is(err, fs.ErrPermission) {
		if f, err := t.c.Host.Resolve(dir); err == nil && !t.c.git.Needs(t.c.dir.Path, f.Path) {
			t.found = append(t.found, secretAt{f.Path, "it can't be searched by this user"})
		}
		return nil
	}
	if err != nil {
		return t.tooMany(err)
	}
	isGit := slices.ContainsFunc(entries, func(e hostfs.Entry) bool { return e.Name == "HEAD" })
	for _, e := range entries {
		name := path.Join(dir, e.Name)
		switch {
		case !e.Type.IsDir():
			if e.Name != "credentials" && (e.Name != "config" && e.Name != "config.worktree" || !t.logsIn(name) || t.c.git.Needs(t.c.dir.Path, name)) {
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

// worktrees keeps git from taking worktrees that the run doesn't see for gone: what the
// repository keeps of them, their index and HEAD, would be pruned, by gc too. In the place
// of each one's .git file stands an empty one.
func (c *compiler) worktrees() error {
	if c.In.Bare || c.In.Rootfs != "" {
		return nil
	}
	count := 0
	for i := range c.Asked {
		if g := &c.Asked[i]; g.Access != view.Write && g.Access != view.Overlay || !g.Src.Mode.IsDir() {
			continue
		}
		for _, git := range c.git.Dirs(c.Asked[i].Src.Path) {
			entries, err := c.Host.ReadDir(path.Join(git, "worktrees"))
			if err != nil {
				continue
			}
			for _, e := range entries {
				if count++; count > gitdir.MaxDirs {
					return nil // those of a writable tree are read-only: see survey.worktrees
				}
				c.standIn(path.Join(git, "worktrees", e.Name))
			}
		}
	}
	return nil
}

// standIn makes the file for a worktree whose directory in the repository is dir. Whoever
// wrote in there may want to know what else there is: so only for one that points back.
func (c *compiler) standIn(dir string) {
	text, err := c.Host.ReadFile(path.Join(dir, "gitdir"), gitdir.MaxPointer)
	name := strings.TrimRight(text, "\r\n")
	if err != nil || path.Base(name) != ".git" {
		return
	}
	if !path.IsAbs(name) {
		name = path.Join(dir, name)
	}
	tree := c.git.LeadsTo(path.Dir(name), "/")
	if tree == "" || name != path.Join(tree, ".git") || c.sees(tree) || c.git.Pointer(name, "gitdir: ", tree) != dir {
		return
	}
	if g := c.Nearest(name); g != nil && g.Access != view.Private || c.Masked(name) {
		return
	}
	c.Made = append(c.Made, view.Made{Kind: view.File, Dst: name, Mode: 0o444, Optional: true})
	c.Rule(name, view.RulePrivate, "worktree that is elsewhere")
	c.standIns = append(c.standIns, tree)
}

// sees: git inside finds a tree of the caller's at its path, or takes it for there.
func (c *compiler) sees(tree string) bool {
	return slices.Contains(c.standIns, tree) || c.Visible(tree) && !c.Masked(tree)
}
