package rootfs

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/confine-run/confine/confine/hostfs"
	"github.com/confine-run/confine/internal/gitindex"
	"github.com/confine-run/confine/internal/plan"
)

const (
	whyPointer = "it says where the git directory is"
	whyNamed   = "git's configuration names it"
	whyHead    = "with it the directory could be taken for a repository"
	whyRebase  = "git runs what it says when the rebase goes on"
	whyAbsent  = "a submodule of this name is not there, and git would take what is"
	whyTooMuch = "there is too much in it to tell what git obeys"
	whyPruned  = "the worktree is elsewhere: git would take it for gone, and prune this"
)

// gitParts of a git directory decide what git runs, or where it looks for that.
var gitParts = [...]string{"config", "config.worktree", "hooks", "commondir"}

// protectGit protects what git obeys in a tree beside what is plainly in .git. It does so
// only when the policy protects .git at all. What is found by looking into git directories
// is left for later: it doesn't use up any bound before what the caller goes by.
func (c *compiler) protectGit(root string) (later func()) {
	wanted := false
	for _, p := range c.in.Protect {
		wanted = wanted || strings.HasPrefix(p, ".git/")
	}
	if !wanted {
		return func() {}
	}
	s := c.git.obeyed(root)
	names := s.names
	c.table.GitIndexes = append(c.table.GitIndexes, s.indexes...)
	if s.partial {
		c.protectsLess("not all that git obeys in " + quote(root) + " is protected: there is too much of it")
	}
	shield := func(listed bool) {
		for _, n := range names {
			if n.listed != listed {
				continue
			}
			if end := c.shieldNamed(n.path, n.why); n.why == whyNamed && end != "" && hostfs.Under(root, end) {
				c.protectsLess(quote(end) + " is not protected, though git's configuration names it: " + quote(root) + " is writable")
			}
		}
	}
	shield(false)
	return func() { shield(true) }
}

// protectsLess says what of that which should stay as it is may not.
func (c *compiler) protectsLess(text string) {
	c.notice(text)
	c.table.ProtectsLess = true
}

// gitName is something that git obeys. Its path is absolute, and not resolved.
type gitName struct {
	path, why string
	listed    bool // it was found by looking into git directories, where a run can make more
}

// survey finds what git obeys in a tree. What it finds out of, an attacker may have made:
// trees are known by their canonical paths, and each kind of work is bounded.
type survey struct {
	*git
	names   []gitName
	indexes []plan.GitIndex
	known   map[string]bool // names
	seen    map[string]bool // git directories, and trees by their .gitmodules
	levels  map[string]bool // directories on the way to names
	depth   int             // of them
	dirs    int
	entries int
	looks   int
	indexed int // bytes of indexes
	partial bool
	// later is what is still to be looked at: nearest first, so that what an earlier run
	// could make uses up no bound before what the caller goes by is found.
	later  []func()
	listed bool // what is looked at was
}

// obeyed finds it for a tree, or a directory in one: the parts of git directories, which may
// be elsewhere, those of the submodules and worktrees that belong to it included; what leads
// git there; and what the configuration names.
func (g *git) obeyed(tree string) *survey {
	g.read, g.size = nil, 0 // what another tree is full of doesn't count here
	s := &survey{git: g, known: map[string]bool{}, seen: map[string]bool{}, levels: map[string]bool{}}
	top := tree
	dirs := g.dirs(top)
	for len(dirs) == 0 && top != "/" {
		top = path.Dir(top)
		dirs = g.dirs(top)
	}
	if !g.isGitDir(tree) {
		s.add(path.Join(tree, "HEAD"), whyHead)
	} else if !slices.Contains(dirs, tree) {
		s.gitDir(tree)
	}
	if len(dirs) == 0 {
		s.nowhere(path.Join(tree, ".git"), "gitdir: ", tree)
		s.config(tree, nil)
	} else {
		s.repository(top, dirs)
	}
	s.index(tree, path.Join(tree, ".git"), nil) // where there is no repository yet
	for len(s.later) > 0 {
		look := s.later[0]
		s.later = s.later[1:]
		look()
	}
	if s.partial {
		for _, dir := range dirs {
			s.whole(path.Join(dir, "worktrees"))
			s.whole(path.Join(dir, "modules"))
		}
	}
	return s
}

func (s *survey) add(name, why string) {
	if s.known[name] {
		return
	}
	s.known[name] = true
	for dir := path.Dir(name); !s.levels[dir]; dir = path.Dir(dir) {
		s.depth += 1 + len(dir)/64 // for a deep one the kernel walks a long way
		if s.depth > maxGitLevels {
			s.partial = true
			return
		}
		s.levels[dir] = true
	}
	s.names = append(s.names, gitName{name, why, s.listed})
}

// afterwards puts off what listing finds.
func (s *survey) afterwards(listed bool, look func()) {
	s.later = append(s.later, func() {
		s.listed = listed
		look()
	})
}

// whole adds a directory of which not all could be looked at.
func (s *survey) whole(dir string) {
	if s.isThere(dir) {
		s.add(dir, whyTooMuch)
	}
}

// enough counts one more of something, and says whether that is too many.
func (s *survey) enough(count *int, most int) bool {
	*count++
	s.partial = s.partial || *count > most
	return *count > most
}

// once is true the first time.
func (s *survey) once(what string) bool {
	if s.seen[what] {
		return false
	}
	s.seen[what] = true
	return true
}

// repository adds what is obeyed in a tree that has git directories.
func (s *survey) repository(tree string, dirs []string) {
	if f, err := s.host.Lstat(path.Join(tree, ".git")); err == nil && !f.Mode.IsDir() {
		s.add(path.Join(tree, ".git"), whyPointer)
		s.pointed(tree)
	}
	for _, dir := range dirs {
		s.gitDir(dir)
	}
	s.config(tree, dirs)
	listed := s.listed
	for _, tree := range append([]string{tree}, s.workTrees(dirs[0])...) {
		gitlinks := s.index(tree, dirs[0], dirs)
		s.afterwards(listed, func() { s.submodules(tree, dirs, gitlinks) })
	}
	for _, dir := range dirs {
		s.listing(dir)
	}
}

// pointed adds a part of the git directory by the name that a .git file has for it, which can turn around.
func (s *survey) pointed(tree string) {
	text, err := s.host.ReadFile(path.Join(tree, ".git"), maxGitFile)
	dir, found := strings.CutPrefix(strings.TrimRight(text, "\r\n"), "gitdir: ")
	if err != nil || !found || !strings.Contains(dir, "..") {
		return
	}
	if !path.IsAbs(dir) {
		dir = tree + "/" + dir
	}
	s.add(dir+"/config", whyGit)
}

// nowhere adds the directory that a file of git's leads to where it isn't there: none may come to be.
func (s *survey) nowhere(file, prefix, relativeTo string) {
	text, err := s.host.ReadFile(file, maxGitFile)
	dir, found := strings.CutPrefix(strings.TrimRight(text, "\r\n"), prefix)
	if err != nil || !found || dir == "" || strings.IndexByte(dir, 0) >= 0 {
		return
	}
	if !path.IsAbs(dir) {
		dir = relativeTo + "/" + dir
	}
	if !s.isThere(dir) {
		s.add(dir, whyPointer)
	}
}

// config adds what the configuration of git directories names.
func (s *survey) config(tree string, dirs []string) {
	if s.once(strings.Join(append([]string{tree}, dirs...), "\x00")) {
		for _, name := range s.named(tree, dirs) {
			s.add(name, whyNamed)
		}
	}
}

// index notes the one of a tree whose git directory is dir, and gives its gitlinks.
func (s *survey) index(tree, dir string, dirs []string) []string {
	if !s.once(tree + "\x00index\x00" + dir) {
		return nil
	}
	if len(s.indexes) == maxGitDirs {
		s.partial = true
		return nil
	}
	x := plan.GitIndex{Tree: tree, Dir: dir, Common: dir, Hash: gitindex.SHA1, Repository: len(dirs) > 0}
	if x.Repository {
		x.Common = dirs[len(dirs)-1]
		x.Hash = s.hash(x.Common)
	}
	found, err := gitindex.Read(x.Hash, func(name string) (string, error) {
		text, err := s.host.ReadFile(path.Join(dir, name), gitindex.MaxSize-s.indexed)
		s.indexed += len(text)
		return text, err
	})
	if err == nil && !slices.ContainsFunc(found.Sparse, func(name string) bool { return s.isThere(path.Join(tree, name)) }) ||
		hostfs.Absent(err) && !errors.Is(err, gitindex.ErrBroken) {
		x.Gitlinks = found.Gitlinks
		s.indexes = append(s.indexes, x)
	} else {
		s.partial = true
	}
	return found.Gitlinks
}

// hash is the size of object names in a git directory.
func (g *git) hash(dir string) int {
	size := gitindex.SHA1
	all, _ := g.settings(path.Join(dir, "config"))
	for i := range all {
		if s := &all[i]; s.section == "extensions" && s.key == "objectformat" && s.value == "sha256" {
			size = gitindex.SHA256
		}
	}
	return size
}

// submodules goes through those of a tree: those that .gitmodules lists, and the gitlinks of its index.
func (s *survey) submodules(tree string, dirs, gitlinks []string) {
	list := path.Join(tree, ".gitmodules")
	if !s.once(list) {
		return
	}
	all, complete := s.settings(list)
	s.partial = s.partial || !complete
	for i := range all {
		if m := &all[i]; m.section == "submodule" && m.key == "path" && !path.IsAbs(m.value) {
			s.submodule(tree, dirs, m.value, m.subsection)
		}
	}
	for _, name := range gitlinks {
		s.submodule(tree, nil, name, "")
	}
}

// submodule is about one whose git directory is where it is, or in one of dirs. Where there
// is none, none may come to be: git would take it for the submodule's.
func (s *survey) submodule(tree string, dirs []string, name, called string) {
	if s.entries > maxGitSearch || s.enough(&s.entries, maxGitSearch) {
		return
	}
	sub := s.leadsTo(name, tree)
	if sub == "" { // its directory isn't there
		sub = path.Join(tree, name)
	}
	if !hostfs.Below(sub, tree) {
		return
	}
	if dirs := s.git.dirs(sub); len(dirs) > 0 {
		s.repository(sub, dirs)
		return
	}
	s.add(path.Join(sub, ".git"), whyAbsent)
	s.nowhere(path.Join(sub, ".git"), "gitdir: ", sub)
	for _, dir := range dirs {
		if git := path.Join(dir, "modules", called); !hostfs.Below(git, path.Join(dir, "modules")) {
			continue
		} else if s.isThere(git) {
			s.gitDir(git)
		} else {
			s.add(git, whyAbsent)
		}
	}
}

// gitDir adds the parts of a git directory.
func (s *survey) gitDir(dir string) {
	if !s.once(dir) || s.enough(&s.dirs, maxGitDirs) {
		return
	}
	for _, p := range gitParts {
		s.add(path.Join(dir, p), whyGit)
	}
	s.nowhere(path.Join(dir, "commondir"), "", dir)
	// One that is begun inside is left to go on outside: without it the repository is in between.
	if todo := path.Join(dir, "rebase-merge"); s.isThere(todo) {
		s.add(todo, whyRebase)
	}
}

// listing looks for worktrees and submodules in a git directory, later.
func (s *survey) listing(dir string) {
	if s.once(path.Join(dir, "worktrees")) {
		s.afterwards(true, func() { s.worktrees(dir) })
		s.afterwards(true, func() { s.modules(path.Join(dir, "modules")) })
	}
}

// worktrees goes through those of a git directory; each has submodules of its own.
func (s *survey) worktrees(git string) {
	entries, err := s.host.ReadDir(path.Join(git, "worktrees"))
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.Type.IsDir() {
			continue
		}
		if s.enough(&s.entries, maxGitSearch) || s.dirs > maxGitDirs {
			return
		}
		dir, tree := path.Join(git, "worktrees", e.Name), ""
		if text, err := s.host.ReadFile(path.Join(dir, "gitdir"), maxGitFile); err == nil {
			tree = s.leadsTo(path.Dir(strings.TrimRight(text, "\r\n")), dir)
		}
		if tree != "" && s.shown != nil && !s.shown(tree) {
			s.add(dir, whyPruned)
		} else {
			s.gitDir(dir)
			s.listing(dir)
			s.add(path.Join(dir, "gitdir"), whyPointer)
		}
		if tree != "" {
			s.add(path.Join(tree, ".git"), whyPointer)
			s.repository(tree, []string{dir, git})
		}
	}
}

// modules goes through the git directories of submodules.
func (s *survey) modules(dir string) {
	entries, err := s.host.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.Type != fs.ModeDir {
			continue
		}
		if s.enough(&s.entries, maxGitSearch) || s.dirs > maxGitDirs {
			return
		}
		sub := path.Join(dir, e.Name)
		if s.isThere(path.Join(sub, "config")) || s.isThere(path.Join(sub, "HEAD")) {
			s.gitDir(sub)
			s.listing(sub)
			for _, tree := range s.workTrees(sub) {
				switch git := path.Join(tree, ".git"); {
				case s.pointer(git, "gitdir: ", tree) == sub:
					s.add(git, whyPointer)
					s.repository(tree, []string{sub})
				case !s.isThere(git):
					s.add(git, whyPointer)
				}
			}
			continue
		}
		s.modules(sub) // names of submodules can have slashes
	}
}

func (g *git) isThere(name string) bool {
	_, err := g.host.Lstat(name)
	return err == nil
}
