package learn

import (
	"strings"

	"github.com/confine-run/confine/confine/rootfs"
)

// protectedBy is the reason why a path stays as it is in a writable tree, if it does.
func (w *World) protectedBy(p string) string {
	for _, e := range rootfs.DefaultProtect() {
		if rest, ok := rootfs.AtHome(e.Path); ok {
			if w.Home != "" && under(p, w.Home+"/"+rest) {
				return e.Reason
			}
			continue
		}
		if strings.HasSuffix(p, "/"+e.Path) || strings.Contains(p, "/"+e.Path+"/") {
			return e.Reason
		}
	}
	return ""
}

// protect are the rests of protected paths, for trees that begin below where these are
// looked for: in ./.git, "hooks" is what ".git/hooks" is in the project.
func (f *files) protect(lines []Line) Line {
	out := Line{Key: "protect", list: true}
	for _, l := range lines {
		if l.Key != "allow_write" {
			continue
		}
		for _, item := range l.Items {
			for _, e := range rootfs.DefaultProtect() {
				for i := range len(e.Path) {
					if e.Path[i] == '/' && strings.HasSuffix(item.Word, "/"+e.Path[:i]) {
						out.Items = append(out.Items, Item{e.Path[i+1:], "of " + item.Word + ": " + e.Reason})
					}
				}
			}
		}
	}
	return out
}
