package changes

import (
	"path"
	"strings"
)

// match gives the indices of the changes at and below paths, of all without paths.
// A path is absolute, or relative to a tree.
func (m *manifest) match(paths []string) (map[int]bool, error) {
	chosen := map[int]bool{}
	if len(paths) == 0 {
		for i := range m.Changes {
			chosen[i] = true
		}
	}
	for _, p := range paths {
		found := false
		for t := range m.Trees {
			rel, ok := relative(m.Trees[t].Path, p)
			if !ok {
				continue
			}
			for i := range m.Changes {
				if e := &m.Changes[i]; e.Tree == t && below(e.Path, rel) {
					chosen[i], found = true, true
				}
			}
		}
		if !found {
			return nil, &NoMatchError{p}
		}
	}
	return chosen, nil
}

// relative is p below a tree, "" for the tree itself.
func relative(tree, p string) (rel string, ok bool) {
	if !path.IsAbs(p) {
		rel = path.Clean(p)
		if rel == "." {
			rel = ""
		}
		return rel, rel != ".." && !strings.HasPrefix(rel, "../")
	}
	p = path.Clean(p)
	switch {
	case p == tree:
		return "", true
	case tree == "/":
		return p[1:], true
	case strings.HasPrefix(p, tree+"/"):
		return p[len(tree)+1:], true
	}
	return "", false
}

// bring adds the directories that the chosen changes need and that the run made,
// and tells which those are.
func (m *manifest) bring(chosen map[int]bool) map[int]bool {
	type place struct {
		tree int
		path string
	}
	made := map[place]int{}
	for i := range m.Changes {
		if e := &m.Changes[i]; e.now() == Dir && e.Was != Dir {
			made[place{e.Tree, e.Path}] = i
		}
	}
	brought, seen := map[int]bool{}, map[place]bool{}
	for i := range chosen {
		e := &m.Changes[i]
		for dir, _ := split(e.Path); dir != "" && !seen[place{e.Tree, dir}]; dir, _ = split(dir) {
			seen[place{e.Tree, dir}] = true
			if at, ok := made[place{e.Tree, dir}]; ok && !chosen[at] {
				brought[at] = true
			}
		}
	}
	for i := range brought {
		chosen[i] = true
	}
	return brought
}
