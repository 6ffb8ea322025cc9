package names

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/view"
)

// Trees are what a clone, a build or an earlier run fills, so that nothing in them decides
// what else is shown or where anything is written:
//
//   - the current directory, with the checkout around it;
//   - what the policy names: trees, a prepared root, and the directories of policy files in use;
//   - what other runs may fill, where a ceiling says so;
//   - every other checkout;
//   - what lies in directories for temporary files.
//
// A directory that is too broad to be shown without being named (/, /tmp, a home directory) is
// one only where the policy makes it writable: it holds the caller's own links.
//
// Names of the policy, and HOME, are held to just these; discovery has more (package discover).
// A tree that an earlier run could write to and that is none of these isn't known.
type Trees struct {
	host hostfs.Host
	in   *view.Input
	Done bool // it has looked
	home string
	// HomeLink is the link of a tree of work that HOME leads through. There is no home then: whoever
	// made the link could have it that everything around is too broad to be a tree of work.
	HomeLink string
	Named    []NamedTree
	tops     map[string]string // of directories: the checkouts that they lie in
}

// NamedTree is a canonical directory. One that is too broad counts if the policy makes it writable.
type NamedTree struct {
	Path     string
	Writable bool
}

// checkouts have one of these at their top.
var checkouts = [...]string{".git", ".hg", ".jj", ".svn"}

// scratchDirs are where everybody makes trees.
var scratchDirs = [...]string{TmpDir, VarTmpDir, "/dev/shm", "/private/tmp", "/private/var/tmp", "/private/var/folders"}

// Look finds what is named, once.
func (t *Trees) Look() {
	if t.Done {
		return
	}
	t.Done = true
	in := t.in
	add := func(name string, writable bool) {
		if name != "" && !path.IsAbs(name) {
			name = in.Dir + "/" + name
		}
		if f, err := t.host.Resolve(name); name != "" && err == nil && f.Mode.IsDir() {
			t.Named = append(t.Named, NamedTree{f.Path, writable})
		}
	}
	for _, p := range slices.Concat(in.AllowRead, in.Overlay, []string{in.Rootfs}) {
		add(p, false)
	}
	for _, p := range slices.Concat(in.AllowWrite, in.Work) {
		add(p, true)
	}
	for _, m := range in.Mounts {
		add(m.Src, m.Mode == "rw")
	}
	for _, f := range in.ConfigFiles {
		add(path.Dir(f), false)
	}
	others := len(t.Named)
	add(in.Dir, false)
	t.findHome()
	for i := range t.Named[others:] {
		dir := &t.Named[others+i].Path
		*dir = cmp.Or(t.CheckoutOf(*dir), *dir)
	}
}

// findHome goes by the trees as they are without a home.
func (t *Trees) findHome() {
	if !path.IsAbs(t.in.HomeDir) {
		return
	}
	home := path.Clean(t.in.HomeDir)
	f, w, err := hostfs.ResolveWay(t.host, home)
	if err != nil {
		w = hostfs.Trace(t.host, home)
	}
	for i := range w.Links {
		if t.Of(w.Links[i].At, path.Dir(w.Links[i].At)) != "" {
			t.HomeLink = w.Links[i].At
			return
		}
	}
	if t.home, t.tops = home, nil; err == nil {
		t.home = f.Path
	}
}

// NamedAround is the innermost of the named trees that a canonical path lies in, or empty.
func (t *Trees) NamedAround(p string) (best string) {
	t.Look()
	for i := range t.Named {
		n := &t.Named[i]
		if hostfs.Under(p, n.Path) && len(n.Path) > len(best) && (n.Writable || !TooBroad(n.Path, t.home)) {
			best = n.Path
		}
	}
	return best
}

// Of is the innermost tree of work that a canonical path lies in, or empty. Of a link dir is
// the directory that has it, and otherwise the path itself.
func (t *Trees) Of(p, dir string) string {
	best := t.NamedAround(p)
	for _, tmp := range scratchDirs {
		if rest, ok := strings.CutPrefix(p, tmp+"/"); ok && best == "" {
			name, _, _ := strings.Cut(rest, "/")
			if best = tmp + "/" + name; t.home != "" && hostfs.Under(t.home, best) {
				best = ""
			}
		}
	}
	if top := t.CheckoutOf(dir); len(top) > len(best) {
		return top
	}
	return best
}

// CheckoutOf is the top of the checkout that a canonical directory lies in, or empty.
func (t *Trees) CheckoutOf(dir string) string {
	if TooBroad(dir, t.home) {
		return ""
	}
	top, known := t.tops[dir]
	if known {
		return top
	}
	for _, sign := range checkouts {
		if _, err := t.host.Lstat(dir + "/" + sign); err == nil {
			top = dir
			break
		}
	}
	if top == "" {
		top = t.CheckoutOf(path.Dir(dir))
	}
	if t.tops == nil {
		t.tops = make(map[string]string)
	}
	t.tops[dir] = top
	return top
}
