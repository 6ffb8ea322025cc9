package darwin

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/status"
)

// sweep removes what came to be at paths that have to be absent, when nobody is left who could change anything meanwhile. Nothing is
// followed: what is no directory where one was missing on the way there is removed itself, since a link leads to what is obeyed.
//
// What the sandbox lets nobody make, by just that name in a directory that was there, somebody outside has made: it gets another name.
func sweep(trees []string, g *plan.Guarded) (list []status.Violation) {
	told := map[string]bool{}
	for _, at := range g.KeepAbsent {
		what, aside, err := sweepOne(trees, at, g.KeepClear)
		if what == "" || told[what] {
			continue
		}
		told[what] = true
		v := status.Violation{Kind: "file", What: what, Count: 1, Rule: status.RuleProtected, Hint: "it was removed: the path is protected"}
		switch {
		case err != nil:
			v.Rule, v.Hint = status.RuleLeft, "it could NOT be removed: "+err.Error()
		case aside != "":
			v.Rule, v.Hint = status.RuleAside, "the path is protected; it has the name "+strconv.Quote(aside)+" now: look at what is in it before you change that"
		}
		list = append(list, v)
	}
	return list
}

// sweepOne removes what is at one path, or gives it the name aside, and says what that was; "": nothing is there.
func sweepOne(trees []string, at string, clear []string) (what, aside string, err error) {
	tree := ""
	for _, t := range trees {
		if hostfs.Below(at, t) && len(t) > len(tree) {
			tree = t
		}
	}
	if tree == "" {
		return "", "", nil // where nothing could be made
	}
	root, err := os.OpenRoot(tree)
	if err != nil {
		return "", "", nil // nothing is there at all
	}
	defer root.Close()
	rel, moved := "", false
	for _, part := range strings.Split(strings.TrimPrefix(at, strings.TrimSuffix(tree, "/")+"/"), "/") {
		rel = filepath.Join(rel, part)
		full := hostfs.Rebase("/"+filepath.ToSlash(rel), "/", tree)
		info, err := root.Lstat(rel)
		missing := slices.Contains(clear, full)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return "", "", nil
		case err != nil:
			return at, "", err
		case full != at && !info.IsDir() && missing:
			return full, "", root.Remove(rel)
		case full != at && !info.IsDir():
			return "", "", nil // it was there before
		}
		moved = moved || missing || !named(root, rel)
	}
	if moved {
		return at, "", root.RemoveAll(rel)
	}
	for i := 1; ; i++ {
		name := filepath.Base(rel) + ".aside"
		if i > 1 {
			name += strconv.Itoa(i)
		}
		to := filepath.Join(filepath.Dir(rel), name)
		if _, err := root.Lstat(to); errors.Is(err, fs.ErrNotExist) {
			return at, name, root.Rename(rel, to)
		} else if err != nil {
			return at, "", err
		}
	}
}

// named says whether something has just this name, and not another that its volume takes for the same.
func named(root *os.Root, rel string) bool {
	list, err := fs.ReadDir(root.FS(), filepath.ToSlash(filepath.Dir(rel)))
	return err != nil || slices.ContainsFunc(list, func(e fs.DirEntry) bool { return e.Name() == filepath.Base(rel) })
}
