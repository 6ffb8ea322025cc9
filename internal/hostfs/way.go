package hostfs

import (
	"path"
	"strings"
)

// Way is where a name leads: through links, and through directories that a ".." comes after.
// These decide where it ends as links do, if they are there or not: another directory, or a link,
// in the place of one leads elsewhere.
type Way struct {
	Links []Link
	Turns []string
	End   string // whether anything is there or not; nowhere when there are too many links
}

// AppendTo adds the names of a way. Of a directory that it turns around in, it is what would be
// below a link in its place: that link leads on to something obeyed.
func (w *Way) AppendTo(found []string) []string {
	for _, l := range w.Links {
		found = append(found, l.At)
	}
	for _, dir := range w.Turns {
		found = append(found, dir+"/..")
	}
	if w.End != "" {
		found = append(found, w.End)
	}
	return found
}

// Link is a symbolic link that a name leads through.
type Link struct{ At, Target string }

// ResolveWay resolves a name, and says what way it takes there.
func ResolveWay(h Host, name string) (File, Way, error) {
	f, err := h.Resolve(name)
	if err != nil || f.Path == name || f.Path == path.Clean(name) && !strings.Contains(name, "..") {
		return f, Way{End: f.Path}, err
	}
	return f, Trace(h, name), nil
}

// MaxLinks is MAXSYMLINKS of the kernel.
const MaxLinks = 40

// maxTurns bounds the turns of a way.
const maxTurns = 256

// Trace walks a name. Only names come of this, and no file is opened by it, so nothing is lost
// when something is swapped meanwhile.
func Trace(h Host, name string) Way { return TraceFrom(h, "/", name) }

// TraceFrom walks a name below a canonical directory.
func TraceFrom(h Host, at, rest string) (w Way) {
	down := false // a component led here
	for rest != "" {
		var component string
		component, rest, _ = strings.Cut(rest, "/")
		switch component {
		case "", ".":
			continue
		case "..":
			if down && at != "/" {
				if len(w.Turns) == maxTurns {
					return w
				}
				w.Turns = append(w.Turns, at)
			}
			at = path.Dir(at)
			continue
		}
		down = true
		next := path.Join(at, component)
		target, err := h.Readlink(next)
		if err != nil {
			at = next
			continue
		}
		if len(w.Links) == MaxLinks {
			return w
		}
		w.Links = append(w.Links, Link{next, target})
		if path.IsAbs(target) {
			at = "/"
		}
		rest = target + "/" + rest
	}
	w.End = at
	return w
}
