package confine

import (
	"slices"
	"strings"

	"github.com/confine-run/confine/confine/rootfs"
)

// Protected tells, by its path below a project's directory, what programs outside a
// run read as orders: git hooks, start-up files of shells and editors. They can't be
// written in a writable tree, and are not taken over from an overlay unasked.
func Protected(rel string) bool {
	return slices.ContainsFunc(rootfs.DefaultProtect(), func(p rootfs.Protected) bool {
		return rel == p.Path || strings.HasSuffix(rel, "/"+p.Path)
	})
}
