package learn

import (
	"io/fs"
	"iter"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/names"
	"github.com/confine-run/confine/internal/secrets"
)

// Host is what is asked of the host's files, after the run.
type Host interface {
	Resolve(path string) (hostfs.File, error)
	Lstat(path string) (hostfs.File, error)
	Readlink(path string) (string, error)
	ReadFile(path string, limit int) (string, error)
}

// Given is what the profile strict gives by itself.
type Given struct {
	Yes     bool
	Private bool // in a place of the run's own, which is empty at first and gone afterwards
}

// World is where a run took place.
type World struct {
	Dir  string   // the current directory, canonical; empty when it is none of a project
	Home string   // canonical, or empty
	Out  string   // the directory of the profile's file, canonical
	Temp []string // places for temporary files, canonical
	Path []string // where the caller's shell looks for programs, canonical
	Host Host
	Base func(path string, w Op) Given
	// Readable and Writable say whether permissions let the caller, whatever rules say.
	Readable, Writable func(path string) bool
	// Secret says what a file is, if it is one of the set "secrets".
	Secret func(path string) string
}

// Real is this host.
func Real() Host { return hostfs.This() }

// Secrets says what is a secret on a host.
func Secrets(h Host, home string) func(path string) string {
	all, _ := h.(hostfs.Host)
	return func(p string) string {
		for _, s := range secretsOfHost {
			if ok, _ := path.Match(s, p); ok || hostfs.Under(p, s) {
				return "keys and passwords of the host"
			}
		}
		return secrets.Of(all, p, home, "/root")
	}
}

// Project is a canonical current directory, if it is shown as one; or "".
func Project(dir, home string) string {
	if names.TooBroad(dir, home) {
		return ""
	}
	return dir
}

// Owned says whether a directory is the caller's own.
func Owned(dir string) bool {
	at, err := hostfs.ThisInspector().Inspect(dir)
	return err == nil && at.Mode.IsDir() && int(at.UID) == os.Geteuid()
}

// isBroad: never granted because of something in it.
func (w *World) isBroad(dir string) bool {
	if dir == "/" || strings.Count(dir, "/") == 1 || slices.Contains(broad[:], dir) || dir == w.Home {
		return true
	}
	if w.Home != "" && hostfs.Under(w.Home, dir) {
		return true
	}
	if rest, ok := strings.CutPrefix(dir, w.Home+"/"); ok && w.Home != "" {
		return slices.Contains(broadHome[:], rest)
	}
	return path.Dir(dir) == "/home" || slices.Contains(w.Temp, dir)
}

// word is a path as the profile's file names it.
func (w *World) word(p string) string {
	rest, inHome := strings.CutPrefix(p, w.Home+"/")
	switch {
	case w.Dir != "" && w.Dir == w.Out && p == w.Dir:
		return "."
	case w.Dir != "" && w.Dir == w.Out && hostfs.Under(p, w.Dir):
		return "./" + p[len(w.Dir)+1:]
	case inHome && w.Home != "":
		return "~/" + rest
	}
	return p
}

// inProject: in the current directory, or it itself.
func (w *World) inProject(p string) bool { return w.Dir != "" && hostfs.Under(p, w.Dir) }

// resolve follows a name. dir and file say what it leads to; neither is nothing.
func (w *World) resolve(name string) (real string, dir, file bool) {
	f, err := w.Host.Resolve(name)
	if err != nil {
		return "", false, false
	}
	return f.Path, f.Mode.IsDir(), !f.Mode.IsDir()
}

// links are the names of the symbolic links that a name leads through, as far as the
// first two hops of each go; a link at the end is one of them.
func (w *World) links(name string) (all []string) {
	for at := range prefixes(name, 1) {
		if f, err := w.Host.Lstat(at); err == nil && f.Mode.Type() == fs.ModeSymlink {
			all = append(all, at)
		}
	}
	return all
}

// prefixes are the paths on the way to a name, and that, from those of so many bytes on.
func prefixes(name string, from int) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := from; i <= len(name); i++ {
			if (i == len(name) || name[i] == '/') && !yield(name[:i]) {
				return
			}
		}
	}
}
