package learn

import (
	"strings"

	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/names"
	"github.com/confine-run/confine/internal/protect"
)

// Reasons why a directory is not made writable.
const (
	whyInPath     = "programs are found there by their names"
	whyRunOutside = "what is put there is run or obeyed outside, later"
)

// trusted says why no later run may write to a directory, if none may: programs outside
// run what is in it, or read it as configuration.
func (w *World) trusted(p string) string {
	for _, dir := range w.Path {
		if dir != "" && dir != "/" && dir != w.Home && hostfs.Under(p, dir) {
			return whyInPath
		}
	}
	for _, dir := range w.trustedDirs() {
		if hostfs.Under(p, dir) {
			return whyRunOutside
		}
	}
	return ""
}

// holdsTrusted is such a directory below dir that exists, or "".
func (w *World) holdsTrusted(dir string) string {
	for _, p := range append(w.trustedDirs(), w.Path...) {
		if p == dir || p == "" || !hostfs.Under(p, dir) {
			continue
		}
		if real, isDir, _ := w.resolve(p); isDir && real == p {
			return p
		}
	}
	return ""
}

func (w *World) trustedDirs() (all []string) {
	all = append(all, trustedOnHost[:]...)
	if w.Home != "" {
		for _, rest := range trustedAtHome {
			all = append(all, w.Home+"/"+rest)
		}
	}
	return all
}

// protectedBy is the reason why a path stays as it is in a writable tree, if it does.
func (w *World) protectedBy(p string) string {
	for _, e := range protect.Default() {
		if rest, ok := names.AtHome(e.Path); ok {
			if w.Home != "" && hostfs.Under(p, w.Home+"/"+rest) {
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
			for _, e := range protect.Default() {
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
