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
	dir := c.pointer(git, "gitdir: ", root)
	if dir == "" || under(dir, root) {
		return
	}
	show := dir
	switch {
	case c.isWorktree(dir, root):
		show = path.Dir(path.Dir(dir))
	case c.isModule(dir, root):
	default:
		c.notice("the git directory " + quote(dir) + " is not shown: it doesn't say that it belongs to " + quote(root) + "; name it with --allow-read or --allow-write")
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
	common := c.pointer(path.Join(dir, "commondir"), "", dir)
	if common == "" || path.Join(common, "worktrees") != path.Dir(dir) {
		return false
	}
	text, err := c.host.ReadFile(path.Join(dir, "gitdir"), maxGitFile)
	back := strings.TrimRight(text, "\r\n")
	return err == nil && path.Base(back) == ".git" && c.leadsTo(path.Dir(back), dir) == root
}

// isModule: the configuration of dir names root as its tree.
func (c *compiler) isModule(dir, root string) bool {
	return slices.Contains(c.workTrees(dir), root)
}

// workTrees are the trees that the configuration of a git directory names as its own:
// the last of them is, and who reads it otherwise takes another.
func (c *compiler) workTrees(dir string) (trees []string) {
	text, err := c.host.ReadFile(path.Join(dir, "config"), maxGitConfig)
	if err != nil {
		return nil
	}
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = strings.ToLower(line)
		}
		name, value, ok := strings.Cut(line, "=")
		if ok && section == "[core]" && strings.EqualFold(strings.TrimSpace(name), "worktree") {
			if tree := c.leadsTo(strings.Trim(strings.TrimSpace(value), `"`), dir); tree != "" {
				trees = append(trees, tree)
			}
		}
	}
	return trees
}

// leadsTo is what a name in a file of git's leads to, or nothing.
func (c *compiler) leadsTo(name, relativeTo string) string {
	if name == "" || strings.IndexByte(name, 0) >= 0 {
		return ""
	}
	if !path.IsAbs(name) {
		name = relativeTo + "/" + name
	}
	f, err := c.host.Resolve(name)
	if err != nil {
		return ""
	}
	return f.Path
}
