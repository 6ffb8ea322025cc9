package rootfs

import (
	"io/fs"
	"path"
	"strings"
)

const (
	maxGitFile   = 8 << 10
	maxGitConfig = 256 << 10
	maxGitSearch = 4096 // directories below .git/modules
)

const whyPointer = "it says where the git directory is"

// gitParts of a git directory decide what git runs, or where it looks for that.
var gitParts = [...]string{"config", "config.worktree", "hooks", "commondir"}

// protectGit protects the git directory of a tree when it isn't plainly .git:
// that of a worktree or a submodule, and those of the submodules and worktrees
// that belong to it. It does so only when the policy protects .git at all.
func (c *compiler) protectGit(root string) {
	wanted := false
	for _, p := range c.in.Protect {
		wanted = wanted || strings.HasPrefix(p, ".git/")
	}
	if !wanted {
		return
	}
	git := path.Join(root, ".git")
	f, err := c.host.Lstat(git)
	mode := f.Mode
	switch {
	case err != nil:
		return
	case mode.IsDir():
		c.protectModules(git)
	case mode.IsRegular():
		c.shield(root, ".git", whyPointer)
		dir := c.pointer(git, "gitdir: ", root)
		if dir == "" {
			return
		}
		c.protectGitDir(dir)
		if common := c.pointer(path.Join(dir, "commondir"), "", dir); common != "" && common != dir {
			c.protectGitDir(common)
			c.protectModules(common)
		}
	}
}

// pointer reads a file that holds a path, and resolves that.
func (c *compiler) pointer(name, prefix, relativeTo string) string {
	text, err := c.host.ReadFile(name, maxGitFile)
	if err != nil {
		return ""
	}
	to, ok := strings.CutPrefix(strings.TrimRight(text, "\r\n"), prefix)
	if !ok || to == "" || strings.IndexByte(to, 0) >= 0 {
		return ""
	}
	if !path.IsAbs(to) {
		to = relativeTo + "/" + to
	}
	f, err := c.host.Resolve(to)
	if err != nil || !f.Mode.IsDir() {
		return ""
	}
	return f.Path
}

func (c *compiler) protectGitDir(dir string) {
	for _, p := range gitParts {
		c.shield(dir, p, whyGit)
	}
}

// protectModules protects the git directories of submodules and worktrees.
func (c *compiler) protectModules(git string) {
	if entries, err := c.host.ReadDir(path.Join(git, "worktrees")); err == nil {
		for _, e := range entries {
			if !e.Type.IsDir() {
				continue
			}
			dir := path.Join(git, "worktrees", e.Name)
			c.protectGitDir(dir)
			if text, err := c.host.ReadFile(path.Join(dir, "gitdir"), maxGitFile); err == nil {
				if tree := c.leadsTo(path.Dir(strings.TrimRight(text, "\r\n")), dir); tree != "" {
					c.shield(tree, ".git", whyPointer)
				}
			}
		}
	}
	left := maxGitSearch
	c.eachModule(path.Join(git, "modules"), &left)
}

func (c *compiler) eachModule(dir string, left *int) {
	entries, err := c.host.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.Type != fs.ModeDir {
			continue
		}
		if *left--; *left < 0 {
			c.notice("not every submodule's git directory below " + quote(dir) + " is protected: there are too many")
			return
		}
		sub := path.Join(dir, e.Name)
		if _, err := c.host.Lstat(path.Join(sub, "HEAD")); err != nil {
			c.eachModule(sub, left) // names of submodules can have slashes
			continue
		}
		c.protectGitDir(sub)
		for _, tree := range c.workTrees(sub) {
			c.shield(tree, ".git", whyPointer)
		}
		c.eachModule(path.Join(sub, "modules"), left)
	}
}
