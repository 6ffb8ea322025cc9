package rootfs

import (
	"errors"
	"path"
	"strings"
	"syscall"

	"github.com/confine-run/confine/confine/hostfs"
)

const (
	maxGitFile    = 8 << 10
	maxGitConfig  = 2 << 20
	maxGitConfigs = 64   // files for one tree, with all that is included
	maxGitNames   = 512  // words of values that may be names of files, for one tree
	maxGitLooks   = 8192 // looks for files of such names, for all of them
	maxGitLevels  = 4096 // directories on the ways to all that is obeyed, each of which is a mount; deep ones count for more
	maxGitDirs    = 256  // of a repository, its submodules and worktrees
	maxGitSearch  = 4096 // submodules that are listed, names in worktrees and below modules
)

// git finds out what git would look at.
type git struct {
	host hostfs.Host
	env  func(string) string
	home string
	// shown says whether the run sees a tree at its path; nil: it sees all.
	shown func(tree string) bool
	read  map[string]gitFile // files that were read
	size  int                // of all of them

	homes map[string]string // of users that were asked for
}

type gitFile struct {
	all      []gitSetting
	complete bool // there isn't more of it
}

// isGitDir: git would take a directory for a repository's.
func (g *git) isGitDir(dir string) bool {
	for _, part := range [...]string{"HEAD", "objects", "refs"} {
		if !g.isThere(path.Join(dir, part)) {
			return false
		}
	}
	return true
}

// isBare: these are the names in a repository without a work tree, or in a git directory.
func isBare(entries []hostfs.Entry) bool {
	found := 0
	for i := range entries {
		switch entries[i].Name {
		case "HEAD", "objects", "refs":
			found++
		}
	}
	return found == 3
}

// dirs are the git directories of a tree: its own, which is the tree itself in a bare
// repository, and the one that this has things in common with, if that is another one.
func (g *git) dirs(tree string) []string {
	at := path.Join(tree, ".git")
	f, err := g.host.Resolve(at)
	switch {
	case err != nil && g.isGitDir(tree):
		at = tree
	case err != nil:
		return nil
	case f.Mode.IsDir():
		at = f.Path
	default:
		if at = g.pointer(at, "gitdir: ", tree); at == "" {
			return nil
		}
	}
	if common := g.pointer(path.Join(at, "commondir"), "", at); common != "" && common != at {
		return []string{at, common}
	}
	return []string{at}
}

// pointer reads a file that holds a path, and resolves that.
func (g *git) pointer(name, prefix, relativeTo string) string {
	text, err := g.host.ReadFile(name, maxGitFile)
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
	f, err := g.host.Resolve(to)
	if err != nil || !f.Mode.IsDir() {
		return ""
	}
	return f.Path
}

// leadsTo is what a name in a file of git's leads to, or nothing.
func (g *git) leadsTo(name, relativeTo string) string {
	if name == "" || strings.IndexByte(name, 0) >= 0 {
		return ""
	}
	if !path.IsAbs(name) {
		name = relativeTo + "/" + name
	}
	f, err := g.host.Resolve(name)
	if err != nil {
		return ""
	}
	return f.Path
}

// workTrees are the trees that the configuration of a git directory names as its own:
// the last of them is, and who reads it otherwise takes another.
func (g *git) workTrees(dir string) (trees []string) {
	for _, name := range [...]string{"config", "config.worktree"} {
		all, _ := g.settings(path.Join(dir, name))
		for i := range all {
			if s := &all[i]; s.section == "core" && s.key == "worktree" {
				if tree := g.leadsTo(s.value, dir); tree != "" {
					trees = append(trees, tree)
				}
			}
		}
	}
	return trees
}

// settings reads a file of git's configuration, once. complete says that there isn't more.
func (g *git) settings(name string) (all []gitSetting, complete bool) {
	f, known := g.read[name]
	if known {
		return f.all, f.complete
	}
	text, err := g.host.ReadFile(name, maxGitConfig)
	f.complete = !errors.Is(err, syscall.EFBIG)
	if g.size += len(text); g.size > maxGitConfig {
		text, f.complete = "", false
	}
	f.all = parseGitConfig(text)
	if g.read == nil {
		g.read = make(map[string]gitFile)
	}
	g.read[name] = f
	return f.all, f.complete
}

// homeOf is a user's home directory, or nothing.
func (g *git) homeOf(user string) string {
	if user == "" {
		return g.home
	}
	home, known := g.homes[user]
	if !known {
		home = g.lookUp(user)
		if g.homes == nil {
			g.homes = make(map[string]string)
		}
		g.homes[user] = home
	}
	return home
}

func (g *git) lookUp(user string) string {
	passwd, _ := g.host.ReadFile("/etc/passwd", maxGitConfig)
	for line := range strings.Lines(passwd) {
		if fields := strings.Split(strings.TrimSpace(line), ":"); len(fields) == 7 && fields[0] == user {
			return fields[5]
		}
	}
	if user == g.env("USER") || user == g.env("LOGNAME") { // known to the host by other means
		return g.home
	}
	return ""
}
