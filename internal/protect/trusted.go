package protect

import (
	"path"
	"slices"

	"github.com/confine-run/confine/internal/gitdir"
	"github.com/confine-run/confine/internal/gitindex"
	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/names"
	"github.com/confine-run/confine/internal/plan"
)

// Trusted finds files that programs outside execute or read as configuration although their names don't
// show it: what protected names lead to by symbolic links, and what git's configuration names.
type Trusted struct {
	names []string
	home  string // canonical; "" if there is none
	git   gitdir.Reader
	// indexes are those of the directories that were asked about.
	indexes []plan.GitIndex
}

// NewTrusted makes one for protected names, each relative to a tree or, with "~/", to home. home and env are the
// caller's.
func NewTrusted(host hostfs.Host, names []string, home string, env func(string) string) *Trusted {
	o := &Trusted{names: names, git: gitdir.Reader{Host: host, Env: env, Home: home}}
	if f, err := host.Resolve(home); err == nil && path.IsAbs(home) && f.Path != "/" {
		o.home = f.Path
	}
	return o
}

// AtHome gives the canonical paths of the names that count in the home directory only, and
// the links that lead there.
func (o *Trusted) AtHome() (found []string) {
	if home := o.git.Home; path.IsAbs(home) && home != "/" {
		for _, name := range o.names {
			if rest, ok := names.AtHome(name); ok {
				w := hostfs.Trace(o.git.Host, path.Join(home, rest))
				found = w.AppendTo(found)
			}
		}
	}
	return found
}

// In gives the canonical paths that are trusted because of what is in a directory, itself
// canonical: links, and what they lead to, whether that exists or not. top says that
// dir is the top of a tree, which may lie in a repository or be one. complete says that
// nothing was left out.
func (o *Trusted) In(dir string, top bool) (found []string, complete bool) {
	complete = true
	h := o.git.Host
	for _, name := range o.names {
		rest, atHome := names.AtHome(name)
		if atHome && dir != o.home {
			continue
		}
		w := hostfs.TraceFrom(h, dir, rest)
		if len(w.Links) > 0 {
			found = w.AppendTo(found)
		}
		if w.End == "" || name == library {
			continue
		}
		inside, _, all := linksBelow(h, w.End)
		complete = complete && all
		for _, l := range inside {
			w := hostfs.Trace(h, l)
			found = w.AppendTo(found)
		}
	}
	if !top && len(o.git.Dirs(dir)) == 0 {
		return found, complete
	}
	s := o.git.Survey(dir)
	o.indexes = append(o.indexes, s.Indexes...)
	for _, n := range s.Found {
		w := hostfs.Trace(h, n.Path)
		found = w.AppendTo(found)
	}
	return found, complete && !s.Partial
}

// AddsGitlink says whether an index of this name, once it has the content that open gives, makes git take
// a repository that exists for a submodule, and the index before didn't. It is true as well where that can't be
// told.
func (o *Trusted) AddsGitlink(name string, open func(name string) (string, error)) bool {
	for i := range o.indexes {
		x := &o.indexes[i]
		if path.Join(x.Dir, "index") != name {
			continue
		}
		found, err := gitindex.Read(x.Hash, func(part string) (string, error) {
			text, err := open(part)
			if hostfs.Absent(err) { // the shared part of an index needn't be changed
				text, err = o.git.Host.ReadFile(path.Join(x.Dir, part), gitindex.MaxSize)
			}
			return text, err
		})
		if err != nil || len(found.Sparse) > 0 {
			return true
		}
		for _, link := range found.Gitlinks {
			if !slices.Contains(x.Gitlinks, link) && !o.isRepository(path.Join(x.Tree, link)) && o.git.IsThere(path.Join(x.Tree, link, ".git")) {
				return true
			}
		}
	}
	return false
}

// IsGitDir says whether git would take a directory for a repository's.
func (o *Trusted) IsGitDir(dir string) bool { return o.git.IsGitDir(dir) }

// isRepository: the survey knew it as one, by .gitmodules say, and found what git runs and reads in it.
func (o *Trusted) isRepository(tree string) bool {
	return slices.ContainsFunc(o.indexes, func(x plan.GitIndex) bool { return x.Tree == tree && x.Repository })
}
