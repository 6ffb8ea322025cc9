package learn

import (
	"strings"

	"github.com/confine-run/confine/internal/names"
	"github.com/confine-run/confine/internal/protect"
)

// Reasons why a directory is not made writable.
const (
	whyFound = "programs are found there by their names"
	whyTaken = "what is put there is run or obeyed outside, later"
)

// obeyed says why nothing may be put into a directory by a later run, if it may not: it is
// one, or lies in one, that programs outside take orders from.
func (w *World) obeyed(p string) string {
	for _, dir := range w.Path {
		if dir != "" && dir != "/" && dir != w.Home && under(p, dir) {
			return whyFound
		}
	}
	for _, dir := range w.takers() {
		if under(p, dir) {
			return whyTaken
		}
	}
	return ""
}

// holdsObeyed is one of these that lies in a directory and is there, or "".
func (w *World) holdsObeyed(dir string) string {
	for _, p := range append(w.takers(), w.Path...) {
		if p == dir || p == "" || !under(p, dir) {
			continue
		}
		if real, isDir, _ := w.resolve(p); isDir && real == p {
			return p
		}
	}
	return ""
}

func (w *World) takers() (all []string) {
	all = append(all, obeyedOnHost[:]...)
	if w.Home != "" {
		for _, rest := range obeyedAtHome {
			all = append(all, w.Home+"/"+rest)
		}
	}
	return all
}

// protectedBy is the reason why a path stays as it is in a writable tree, if it does.
func (w *World) protectedBy(p string) string {
	for _, e := range protect.Default() {
		if rest, ok := names.AtHome(e.Path); ok {
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
