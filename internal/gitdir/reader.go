// Package gitdir knows which files decide what git runs: those of a repository, of its submodules and
// worktrees, and what its configuration names elsewhere. It reads what is there and changes
// nothing.
//
// [Reader] answers single questions about git directories; [Reader.Survey] finds all of them for
// a tree; [ParseConfig] reads a file of git's configuration. An attacker may have made anything that is read,
// so each kind of work is bounded, and a survey says when it is [Survey.Partial].
package gitdir

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/confine-run/confine/internal/hostfs"
)

const (
	maxPointer = 8 << 10
	MaxConfig  = 2 << 20
	maxConfigs = 64   // files for one tree, with all that is included
	MaxNames   = 512  // words of values that may be names of files, for one tree
	MaxLooks   = 8192 // looks for files of such names, for all of them
	MaxLevels  = 4096 // directories above all that is found, each of which is a mount; deep ones count for more
	MaxDirs    = 256  // of a repository, its submodules and worktrees
	MaxSearch  = 4096 // submodules that are listed, names in worktrees and below modules
)

// Reader finds out what git would look at.
type Reader struct {
	Host hostfs.Host
	Env  func(string) string
	Home string
	// Shown says whether the run sees a tree at its path; nil: it sees all.
	Shown func(tree string) bool
	read  map[string]file // files that were read
	size  int             // of all of them

	homes map[string]string // of users that were asked for
}

type file struct {
	all      []Setting
	complete bool // there isn't more of it
}

// IsGitDir: git would take a directory for a repository's.
func (g *Reader) IsGitDir(dir string) bool {
	return g.IsThere(path.Join(dir, "HEAD")) && g.IsThere(path.Join(dir, "objects")) && g.IsThere(path.Join(dir, "refs"))
}

// IsBare: these are the names in a repository without a work tree, or in a git directory.
func IsBare(entries []hostfs.Entry) bool {
	found := 0
	for i := range entries {
		switch entries[i].Name {
		case "HEAD", "objects", "refs":
			found++
		}
	}
	return found == 3
}

// Dirs are the git directories of a tree: its own, which is the tree itself in a bare
// repository, and the one that this has things in common with, if that is another one.
func (g *Reader) Dirs(tree string) []string {
	at := path.Join(tree, ".git")
	f, err := g.Host.Resolve(at)
	switch {
	case err != nil && g.IsGitDir(tree):
		at = tree
	case err != nil:
		return nil
	case f.Mode.IsDir():
		at = f.Path
	default:
		if at = g.Pointer(at, "gitdir: ", tree); at == "" {
			return nil
		}
	}
	if common := g.Pointer(path.Join(at, "commondir"), "", at); common != "" && common != at {
		return []string{at, common}
	}
	return []string{at}
}

// named is the absolute path that a file of git's holds after a prefix, not resolved; or nothing.
func (g *Reader) named(file, prefix, relativeTo string) string {
	text, err := g.Host.ReadFile(file, maxPointer)
	to, found := strings.CutPrefix(strings.TrimRight(text, "\r\n"), prefix)
	if err != nil || !found {
		return ""
	}
	return absolute(to, relativeTo)
}

// absolute is a name in a file of git's as an absolute path; or nothing.
func absolute(name, relativeTo string) string {
	switch {
	case name == "" || strings.IndexByte(name, 0) >= 0:
		return ""
	case path.IsAbs(name):
		return name
	}
	return relativeTo + "/" + name
}

// Pointer reads a file that holds the path of a directory, and resolves that.
func (g *Reader) Pointer(file, prefix, relativeTo string) string {
	f, err := g.resolve(g.named(file, prefix, relativeTo))
	if err != nil || !f.Mode.IsDir() {
		return ""
	}
	return f.Path
}

// leadsTo is what a name in a file of git's leads to, or nothing.
func (g *Reader) leadsTo(name, relativeTo string) string {
	f, err := g.resolve(absolute(name, relativeTo))
	if err != nil {
		return ""
	}
	return f.Path
}

func (g *Reader) resolve(name string) (hostfs.File, error) {
	if name == "" {
		return hostfs.File{}, fs.ErrNotExist
	}
	return g.Host.Resolve(name)
}

// WorkTreeOf is the tree that GIT/worktrees/NAME says it is of, as its file names it and where that leads; or nothing.
func (g *Reader) WorkTreeOf(dir string) (name, tree string) {
	if name = g.named(path.Join(dir, "gitdir"), "", dir); name == "" {
		return "", ""
	}
	if strings.HasPrefix(name, dir+"/") { // it is relative
		name = path.Clean(name)
	}
	return name, g.leadsTo(path.Dir(name), dir)
}

// workTrees are the trees that the configuration of a git directory names as its own:
// the last of them is, and who reads it otherwise takes another.
func (g *Reader) workTrees(dir string) (trees []string) {
	for _, name := range [...]string{"config", "config.worktree"} {
		all, _ := g.settings(path.Join(dir, name))
		for i := range all {
			if s := &all[i]; s.section == "core" && s.Key == "worktree" {
				if tree := g.leadsTo(s.Value, dir); tree != "" {
					trees = append(trees, tree)
				}
			}
		}
	}
	return trees
}

// settings reads a file of git's configuration, once. complete says that there isn't more.
func (g *Reader) settings(name string) (all []Setting, complete bool) {
	f, known := g.read[name]
	if known {
		return f.all, f.complete
	}
	text, err := g.Host.ReadFile(name, MaxConfig)
	f.complete = !errors.Is(err, syscall.EFBIG)
	if g.size += len(text); g.size > MaxConfig {
		text, f.complete = "", false
	}
	f.all = ParseConfig(text)
	if g.read == nil {
		g.read = make(map[string]file)
	}
	g.read[name] = f
	return f.all, f.complete
}

// homeOf is a user's home directory, or nothing.
func (g *Reader) homeOf(user string) string {
	if user == "" {
		return g.Home
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

func (g *Reader) lookUp(user string) string {
	passwd, _ := g.Host.ReadFile("/etc/passwd", MaxConfig)
	for line := range strings.Lines(passwd) {
		if fields := strings.Split(strings.TrimSpace(line), ":"); len(fields) == 7 && fields[0] == user {
			return fields[5]
		}
	}
	if user == g.Env("USER") || user == g.Env("LOGNAME") { // known to the host by other means
		return g.Home
	}
	return ""
}

// PointsBack gives the git directory that the file .git of a tree names elsewhere, or none: show is
// it, or for a worktree the repository's; why says why it isn't taken for the tree's.
func (g *Reader) PointsBack(root string) (dir, show, why string) {
	git := path.Join(root, ".git")
	if f, err := g.Host.Lstat(git); err != nil || !f.Mode.IsRegular() {
		return "", "", ""
	}
	dir = g.Pointer(git, "gitdir: ", root)
	if dir == "" || hostfs.Under(dir, root) {
		return "", "", ""
	}
	show = dir
	switch {
	case g.isWorktree(dir, root):
		show = path.Dir(path.Dir(dir))
	case !g.isModule(dir, root):
		return dir, "", "it doesn't say that it belongs to " + strconv.Quote(root)
	}
	switch {
	case hostfs.Under(root, show):
		why = "it would show all that is around " + strconv.Quote(root)
	case !g.IsGitDir(show):
		why = "it is none"
	}
	return dir, show, why
}

// own is the tree of git's that a canonical directory lies in, and its git directory.
func (g *Reader) own(dir string) (tree, git string) {
	for tree = dir; ; tree = path.Dir(tree) {
		at := path.Join(tree, ".git")
		switch f, err := g.Host.Lstat(at); {
		case err == nil && f.Mode.IsDir():
			return tree, at
		case err == nil:
			if _, show, why := g.PointsBack(tree); why == "" {
				return tree, show
			}
			return "", ""
		case g.IsGitDir(tree):
			return tree, tree
		case tree == "/":
			return "", ""
		}
	}
}

// Needs says whether git reads this file of a git directory when it works in a canonical directory: it is
// of the same repository, or of a submodule's. No directory needs nothing.
func (g *Reader) Needs(dir, name string) bool {
	if dir == "" {
		return false
	}
	tree, git := g.own(dir)
	return git != "" && (hostfs.Under(name, git) ||
		hostfs.Under(name, tree) && slices.ContainsFunc(g.Survey(tree).Found, func(n Name) bool { return n.Path == name && n.Why == whyRuns }))
}

// isWorktree: dir is GIT/worktrees/NAME, of which git says that it is root's.
func (g *Reader) isWorktree(dir, root string) bool {
	common := g.Pointer(path.Join(dir, "commondir"), "", dir)
	if common == "" || path.Join(common, "worktrees") != path.Dir(dir) {
		return false
	}
	back, tree := g.WorkTreeOf(dir)
	return path.Base(back) == ".git" && tree == root
}

// isModule: the configuration of dir names root as its tree.
func (g *Reader) isModule(dir, root string) bool {
	return slices.Contains(g.workTrees(dir), root)
}
