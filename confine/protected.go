package confine

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/confine-run/confine/confine/rootfs"
)

// Protected tells, by its absolute path, what programs outside a run read as orders:
// git hooks, start-up files of shells and editors, what confine itself keeps. Such things can't
// be written in a writable tree, and are not taken over from an overlay unasked.
// isDir says that it is, or is to be, a directory. env looks up the caller's variables.
func Protected(name string, isDir bool, env func(string) string) bool {
	if slices.ContainsFunc(rootfs.DefaultProtect(), func(p rootfs.Protected) bool {
		return strings.HasSuffix(name, "/"+p.Path)
	}) {
		return true
	}
	if path.Base(name) == ".git" && !isDir {
		return true // a file or link that says where git is to look instead
	}
	return ofGit(name) || slices.Contains(ownDirs(env), name)
}

// ofGit: it lies in a git directory, of a submodule or worktree perhaps, and git
// runs what it says.
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
	case "config", "config.worktree", "commondir", "hooks", "gitdir":
		return true
	}
	return false
}

// ownDirs are rootfs.OwnDirs without symbolic links on the way.
func ownDirs(env func(string) string) []string {
	all := rootfs.OwnDirs(env, env("HOME"))
	for i, own := range all {
		if real, err := filepath.EvalSymlinks(filepath.Dir(own)); err == nil {
			all[i] = filepath.Join(real, filepath.Base(own))
		}
	}
	return all
}
