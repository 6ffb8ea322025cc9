package rootfs

import (
	"path"
	"slices"
	"strings"
)

// gitElsewhere shows the git directory of the current directory where that lies
// in another tree, as a worktree's and a submodule's does: without it git knows
// no repository. Whoever wrote the file .git may want to see something else of the
// caller's by it. So only a directory that points back is shown.
func (c *compiler) gitElsewhere(root string, a access) {
	git := path.Join(root, ".git")
	if f, err := c.host.Lstat(git); err != nil || !f.Mode.IsRegular() {
		return
	}
	dir := c.git.pointer(git, "gitdir: ", root)
	if dir == "" || under(dir, root) {
		return
	}
	show, why := dir, ""
	switch {
	case c.isWorktree(dir, root):
		show = path.Dir(path.Dir(dir))
	case c.isModule(dir, root):
	default:
		why = "it doesn't say that it belongs to " + quote(root)
	}
	switch {
	case why != "":
	case under(root, show):
		why = "it would show all that is around " + quote(root)
	case !c.git.isGitDir(show):
		why = "it is none"
	}
	if why != "" {
		c.notice("the git directory " + quote(dir) + " is not shown: " + why + "; name it with --allow-read or --allow-write")
		return
	}
	if g := nearest(c.grants, show); g != nil && g.explicit || c.tooBroad(show) {
		return
	}
	if f, err := c.host.Resolve(show); err == nil && f.Path == show {
		c.show(grant{src: f, access: a, git: true, why: "git directory of the current directory"}, nil)
	}
}

// isWorktree: dir is GIT/worktrees/NAME, of which git says that it is root's.
func (c *compiler) isWorktree(dir, root string) bool {
	common := c.git.pointer(path.Join(dir, "commondir"), "", dir)
	if common == "" || path.Join(common, "worktrees") != path.Dir(dir) {
		return false
	}
	text, err := c.host.ReadFile(path.Join(dir, "gitdir"), maxGitFile)
	back := strings.TrimRight(text, "\r\n")
	return err == nil && path.Base(back) == ".git" && c.git.leadsTo(path.Dir(back), dir) == root
}

// isModule: the configuration of dir names root as its tree.
func (c *compiler) isModule(dir, root string) bool {
	return slices.Contains(c.git.workTrees(dir), root)
}
