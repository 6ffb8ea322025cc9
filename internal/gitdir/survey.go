package gitdir

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/confine-run/confine/internal/gitindex"
	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/plan"
)

// Name is a file or directory that decides what git runs. Its path is absolute, and not resolved.
type Name struct {
	Path, Why string
	Listed    bool // it was found by looking into git directories, where a run can make more
}

// Survey finds what decides what git runs in a tree. An attacker may have made what it reads:
// trees are known by their canonical paths, and each kind of work is bounded.
type Survey struct {
	*Reader
	Found   []Name
	Indexes []plan.GitIndex
	known   map[string]bool // names
	seen    map[string]bool // git directories, and trees by their .gitmodules
	levels  map[string]bool // directories on the way to names
	depth   int             // of them
	dirs    int
	entries int
	looks   int
	indexed int // bytes of indexes
	Partial bool
	// later is what is still to be looked at: nearest first, so that what an earlier run
	// could make uses up no bound before what the caller goes by is found.
	later  []func()
	listed bool // what is looked at was
}

const (
	whyRuns    = "git runs what it says"
	whyPointer = "it says where the git directory is"
	WhyNamed   = "git's configuration names it"
	whyHead    = "with it the directory could be taken for a repository"
	whyRebase  = "git runs what it says when the rebase goes on"
	whyAbsent  = "a submodule of this name is not there, and git would take what is"
	whyRemote  = "git takes sources from, and sends to, where it points"
	whyTooMuch = "there is too much in it to tell what git obeys"
	whyPruned  = "the worktree is elsewhere: git would take it for gone, and prune this"
)

// parts of a git directory decide what git runs, where it looks for that, or what a remote is that the configuration doesn't know.
var parts = [...]struct{ name, why string }{
	{"config", whyRuns}, {"config.worktree", whyRuns}, {"hooks", whyRuns}, {"commondir", whyRuns}, {"remotes", whyRemote}, {"branches", whyRemote},
}

// Survey finds it for a tree, or a directory in one: the parts of git directories, which may
// be elsewhere, those of the submodules and worktrees that belong to it included; what leads
// git there; and what the configuration names.
func (g *Reader) Survey(tree string) *Survey {
	g.read, g.size = nil, 0 // what another tree is full of doesn't count here
	s := &Survey{Reader: g, known: map[string]bool{}, seen: map[string]bool{}, levels: map[string]bool{}}
	top := tree
	dirs := g.Dirs(top)
	for len(dirs) == 0 && top != "/" {
		top = path.Dir(top)
		dirs = g.Dirs(top)
	}
	if !g.IsGitDir(tree) {
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
	if s.Partial {
		for _, dir := range dirs {
			s.whole(path.Join(dir, "worktrees"))
			s.whole(path.Join(dir, "modules"))
		}
	}
	return s
}

func (s *Survey) add(name, why string) {
	if s.known[name] {
		return
	}
	s.known[name] = true
	for dir := path.Dir(name); !s.levels[dir]; dir = path.Dir(dir) {
		s.depth += 1 + len(dir)/64 // for a deep one the kernel walks a long way
		if s.depth > MaxLevels {
			s.Partial = true
			return
		}
		s.levels[dir] = true
	}
	s.Found = append(s.Found, Name{name, why, s.listed})
}

// afterwards puts off what listing finds.
func (s *Survey) afterwards(listed bool, look func()) {
	s.later = append(s.later, func() {
		s.listed = listed
		look()
	})
}

// whole adds a directory of which not all could be looked at.
func (s *Survey) whole(dir string) {
	if s.IsThere(dir) {
		s.add(dir, whyTooMuch)
	}
}

// enough counts one more of something, and says whether that is too many.
func (s *Survey) enough(count *int, most int) bool {
	*count++
	s.Partial = s.Partial || *count > most
	return *count > most
}

// once is true the first time.
func (s *Survey) once(what string) bool {
	if s.seen[what] {
		return false
	}
	s.seen[what] = true
	return true
}

// repository adds what decides that in a tree that has git directories.
func (s *Survey) repository(tree string, dirs []string) {
	if f, err := s.Host.Lstat(path.Join(tree, ".git")); err == nil && !f.Mode.IsDir() {
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
func (s *Survey) pointed(tree string) {
	if dir := s.named(path.Join(tree, ".git"), "gitdir: ", tree); strings.Contains(strings.TrimPrefix(dir, tree), "..") {
		s.add(dir+"/config", whyRuns)
	}
}

// nowhere adds the directory that a file of git's leads to where it isn't there: none may come to be.
func (s *Survey) nowhere(file, prefix, relativeTo string) {
	if dir := s.named(file, prefix, relativeTo); dir != "" && !s.IsThere(dir) {
		s.add(dir, whyPointer)
	}
}

// config adds what the configuration of git directories names.
func (s *Survey) config(tree string, dirs []string) {
	if s.once(strings.Join(append([]string{tree}, dirs...), "\x00")) {
		for _, name := range s.configured(tree, dirs) {
			s.add(name, WhyNamed)
		}
	}
}

// index notes the one of a tree whose git directory is dir, and gives its gitlinks.
func (s *Survey) index(tree, dir string, dirs []string) []string {
	if !s.once(tree + "\x00index\x00" + dir) {
		return nil
	}
	if len(s.Indexes) == MaxDirs {
		s.Partial = true
		return nil
	}
	x := plan.GitIndex{Tree: tree, Dir: dir, Common: dir, Hash: gitindex.SHA1, Repository: len(dirs) > 0}
	if x.Repository {
		x.Common = dirs[len(dirs)-1]
		x.Hash = s.hash(x.Common)
	}
	found, err := gitindex.Read(x.Hash, func(name string) (string, error) {
		text, err := s.Host.ReadFile(path.Join(dir, name), gitindex.MaxSize-s.indexed)
		s.indexed += len(text)
		return text, err
	})
	if err == nil && !slices.ContainsFunc(found.Sparse, func(name string) bool { return s.IsThere(path.Join(tree, name)) }) ||
		hostfs.Absent(err) && !errors.Is(err, gitindex.ErrBroken) {
		x.Gitlinks = found.Gitlinks
		s.Indexes = append(s.Indexes, x)
	} else {
		s.Partial = true
	}
	return found.Gitlinks
}

// hash is the size of object names in a git directory.
func (g *Reader) hash(dir string) int {
	size := gitindex.SHA1
	all, _ := g.settings(path.Join(dir, "config"))
	for i := range all {
		if s := &all[i]; s.section == "extensions" && s.Key == "objectformat" && s.Value == "sha256" {
			size = gitindex.SHA256
		}
	}
	return size
}

// submodules goes through those of a tree: those that .gitmodules lists, and the gitlinks of its index.
func (s *Survey) submodules(tree string, dirs, gitlinks []string) {
	list := path.Join(tree, ".gitmodules")
	if !s.once(list) {
		return
	}
	all, complete := s.settings(list)
	s.Partial = s.Partial || !complete
	for i := range all {
		if m := &all[i]; m.section == "submodule" && m.Key == "path" && !path.IsAbs(m.Value) {
			s.submodule(tree, dirs, m.Value, m.subsection)
		}
	}
	for _, name := range gitlinks {
		s.submodule(tree, nil, name, "")
	}
}

// submodule is about one whose git directory is where it is, or in one of dirs. Where there
// is none, none may come to be: git would take it for the submodule's.
func (s *Survey) submodule(tree string, dirs []string, name, called string) {
	if s.entries > MaxSearch || s.enough(&s.entries, MaxSearch) {
		return
	}
	sub := s.leadsTo(name, tree)
	if sub == "" { // its directory isn't there
		sub = path.Join(tree, name)
	}
	if !hostfs.Below(sub, tree) {
		return
	}
	if dirs := s.Reader.Dirs(sub); len(dirs) > 0 {
		s.repository(sub, dirs)
		return
	}
	s.add(path.Join(sub, ".git"), whyAbsent)
	s.nowhere(path.Join(sub, ".git"), "gitdir: ", sub)
	for _, dir := range dirs {
		if git := path.Join(dir, "modules", called); !hostfs.Below(git, path.Join(dir, "modules")) {
			continue
		} else if s.IsThere(git) {
			s.gitDir(git)
		} else {
			s.add(git, whyAbsent)
		}
	}
}

// gitDir adds the parts of a git directory.
func (s *Survey) gitDir(dir string) {
	if !s.once(dir) || s.enough(&s.dirs, MaxDirs) {
		return
	}
	for _, p := range parts {
		s.add(path.Join(dir, p.name), p.why)
	}
	s.nowhere(path.Join(dir, "commondir"), "", dir)
	// One that is begun inside is left to go on outside: without it the repository is in between.
	if todo := path.Join(dir, "rebase-merge"); s.IsThere(todo) {
		s.add(todo, whyRebase)
	}
}

// listing looks for worktrees and submodules in a git directory, later.
func (s *Survey) listing(dir string) {
	if s.once(path.Join(dir, "worktrees")) {
		s.afterwards(true, func() { s.worktrees(dir) })
		s.afterwards(true, func() { s.modules(path.Join(dir, "modules")) })
	}
}

// worktrees goes through those of a git directory; each has submodules of its own.
func (s *Survey) worktrees(git string) {
	entries, err := s.Host.ReadDir(path.Join(git, "worktrees"))
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.Type.IsDir() {
			continue
		}
		if s.enough(&s.entries, MaxSearch) || s.dirs > MaxDirs {
			return
		}
		dir := path.Join(git, "worktrees", e.Name)
		_, tree := s.WorkTreeOf(dir)
		if tree != "" && s.Shown != nil && !s.Shown(tree) {
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
func (s *Survey) modules(dir string) {
	entries, err := s.Host.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.Type != fs.ModeDir {
			continue
		}
		if s.enough(&s.entries, MaxSearch) || s.dirs > MaxDirs {
			return
		}
		sub := path.Join(dir, e.Name)
		if s.IsThere(path.Join(sub, "config")) || s.IsThere(path.Join(sub, "HEAD")) {
			s.gitDir(sub)
			s.listing(sub)
			for _, tree := range s.workTrees(sub) {
				switch git := path.Join(tree, ".git"); {
				case s.Pointer(git, "gitdir: ", tree) == sub:
					s.add(git, whyPointer)
					s.repository(tree, []string{sub})
				case !s.IsThere(git):
					s.add(git, whyPointer)
				}
			}
			continue
		}
		s.modules(sub) // names of submodules can have slashes
	}
}

func (g *Reader) IsThere(name string) bool {
	_, err := g.Host.Lstat(name)
	return err == nil
}
