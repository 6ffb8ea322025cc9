package rootfs

import (
	"path"
	"slices"
	"strconv"

	"github.com/confine-run/confine/internal/gitdir"
	"github.com/confine-run/confine/internal/view"
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
		c.Notice("the git directory "+strconv.Quote(dir)+" is not shown: "+why+"; name it with --allow-read or --allow-write", dir)
		return
	}
	if g := c.Nearest(show); g != nil && g.Explicit || c.TooBroad(show) {
		return
	}
	if f, err := c.Host.Resolve(show); err == nil && f.Path == show {
		c.Show(view.Grant{Src: f, Access: a, Git: true, Why: "git directory of the current directory", Origin: view.Origin{Option: view.FromWorkdir}}, nil)
	}
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
					return nil // those of a writable tree are read-only: see gitdir.Survey
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
	name, tree := c.git.WorkTreeOf(dir)
	if path.Base(name) != ".git" || tree == "" || name != path.Join(tree, ".git") || c.sees(tree) || c.git.Pointer(name, "gitdir: ", tree) != dir {
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
