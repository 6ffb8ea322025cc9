package config

import (
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/names"
	"github.com/confine-run/confine/internal/protect"
)

// Guard tells what programs outside a run read as orders: git hooks, start-up files of
// shells and editors, what confine itself keeps. Such things can't be written in a writable
// tree, and are not taken over from an overlay unasked.
type Guard struct {
	names       []protect.Path
	own         []string
	obeyed      *protect.Trusted
	looked      map[string]bool
	linkTargets map[string]bool // what the others lead to, by links or configuration

	gitDirs map[string]bool // of what was looked at
}

// NewGuard makes one that knows what is protected by its name. Further names, relative to
// any tree or, with "~/", to the home directory, are those of a policy. env looks up the caller's variables.
func NewGuard(env func(string) string, further []string) *Guard {
	g := &Guard{names: protect.Default(), own: ownDirs(env), looked: map[string]bool{}, linkTargets: map[string]bool{}, gitDirs: map[string]bool{}}
	all := slices.Clone(further)
	for _, p := range g.names {
		all = append(all, p.Path)
	}
	g.obeyed = protect.NewTrusted(hostfs.This(), all, env("HOME"), env)
	for _, name := range g.obeyed.AtHome() {
		g.linkTargets[name] = true
	}
	g.names = slices.DeleteFunc(g.names, func(p protect.Path) bool { _, ok := names.AtHome(p.Path); return ok })
	return g
}

// Look takes in what is protected because of what is in a directory, whose path is
// canonical: what names in it lead to, and what git obeys there. top says that it is the top
// of a tree. Look gives false where there is too much of it to look at all.
func (g *Guard) Look(dir string, top bool) bool {
	if g.looked[dir] {
		return true
	}
	g.looked[dir] = true
	g.gitDirs[dir] = g.obeyed.IsGitDir(dir)
	found, complete := g.obeyed.In(dir, top)
	for _, name := range found {
		g.linkTargets[name] = true
	}
	return complete
}

// Index takes in that git's index of that name, absolute, becomes what open gives: it is protected if it leads git
// to a repository that it wasn't led to before.
func (g *Guard) Index(name string, open func(name string) (string, error)) {
	if g.obeyed.AddsGitlink(name, open) {
		g.linkTargets[name] = true
	}
}

// Protects tells it of an absolute path, not of what is below. kind has the type of what
// is, or is to be, there.
func (g *Guard) Protects(name string, kind fs.FileMode) bool {
	isLink := kind.Type() == fs.ModeSymlink
	switch {
	case g.linkTargets[name], slices.Contains(g.own, name), ofGit(name):
		return true
	case path.Base(name) == ".git" && !kind.IsDir():
		return true // a file or link that says where git is to look instead
	case isLink && g.inGitDir(name):
		return true // git writes through it, and removes what it leads to
	}
	for i := range g.names {
		if p := g.names[i].Path; strings.HasSuffix(name, "/"+p) || isLink && isParentOf(name, p) {
			return true
		}
	}
	if isLink {
		for p := range g.linkTargets {
			if strings.HasPrefix(p, name+"/") {
				return true
			}
		}
	}
	return false
}

// inGitDir: it lies in a git directory, which in a bare repository has any name.
func (g *Guard) inGitDir(name string) bool {
	for up := path.Dir(name); len(up) > 1; up = path.Dir(up) {
		if path.Base(up) == ".git" || g.gitDirs[up] {
			return true
		}
	}
	return false
}

// isParentOf: a link of that name would stand on the way to a protected one.
func isParentOf(name, protected string) bool {
	for up := path.Dir(protected); up != "."; up = path.Dir(up) {
		if strings.HasSuffix(name, "/"+up) {
			return true
		}
	}
	return false
}

// ofGit: it lies in a git directory, of a submodule or worktree perhaps, and git
// runs what it says, or goes where it points.
func ofGit(name string) bool {
	_, rest, found := strings.Cut(name, "/.git/")
	if !found {
		return false
	}
	for _, data := range [...]string{"refs/", "logs/", "objects/", "rr-cache/"} { // names in there are anything
		if strings.HasPrefix(rest, data) {
			return false
		}
	}
	switch path.Base(rest) {
	case "config", "config.worktree", "commondir", "hooks", "remotes", "branches", "gitdir", "rebase-merge":
		return true
	}
	return false
}

// ownDirs are rootfs.OwnDirs without symbolic links on the way.
func ownDirs(env func(string) string) []string {
	all := names.OwnDirs(env, env("HOME"))
	for i, own := range all {
		if real, err := filepath.EvalSymlinks(filepath.Dir(own)); err == nil {
			all[i] = filepath.Join(real, filepath.Base(own))
		}
	}
	return all
}
