package darwin

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/status"
)

// sweep removes what came to be at paths that have to be absent, when nobody is left who could change anything meanwhile. Nothing is
// followed: what is no directory where one was missing on the way there is removed itself, since a link leads to what is obeyed.
func sweep(trees []string, g *plan.Guarded) (list []status.Violation) {
	told := map[string]bool{}
	for _, at := range g.KeepAbsent {
		what, err := sweepOne(trees, at, g.KeepClear)
		if what == "" || told[what] {
			continue
		}
		told[what] = true
		v := status.Violation{Kind: "file", What: what, Count: 1, Rule: status.RuleProtected, Hint: "it was removed: the path is protected"}
		if err != nil {
			v.Rule, v.Hint = status.RuleLeft, "it could NOT be removed: "+err.Error()
		}
		list = append(list, v)
	}
	return list
}

// sweepOne removes what is at one path, and says what that was; "": nothing is there.
func sweepOne(trees []string, at string, clear []string) (what string, err error) {
	tree := ""
	for _, t := range trees {
		if hostfs.Below(at, t) && len(t) > len(tree) {
			tree = t
		}
	}
	if tree == "" {
		return "", nil // where nothing could be made
	}
	root, err := os.OpenRoot(tree)
	if err != nil {
		return "", nil // nothing is there at all
	}
	defer root.Close()
	rel := ""
	for _, part := range strings.Split(strings.TrimPrefix(at, strings.TrimSuffix(tree, "/")+"/"), "/") {
		rel = filepath.Join(rel, part)
		full := hostfs.Rebase("/"+filepath.ToSlash(rel), "/", tree)
		switch info, err := root.Lstat(rel); {
		case errors.Is(err, fs.ErrNotExist):
			return "", nil
		case err != nil:
			return at, err
		case !info.IsDir() && (full == at || slices.Contains(clear, full)):
			return full, root.Remove(rel)
		case !info.IsDir():
			return "", nil // it was there before
		}
	}
	return at, root.RemoveAll(rel)
}
