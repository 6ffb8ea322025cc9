package changes

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// lines words a run's changes for who is in a directory.
type lines struct {
	*Run
	from string // absolute; or empty: everything is told with its absolute path
	// outside says how a symbolic link leads out of its tree, or "".
	outside func(*Entry) string
}

// line is one change in a line: a letter, the name, and all else that apply would do.
func (l *lines) line(e *Entry) string {
	name := Quote(l.title(e))
	if e.Kind == Deleted {
		return "D " + name + unkept(e)
	}
	rest := mode(e) + l.annotations(e) + unkept(e)
	if l.outside(e) != "" {
		rest = " (leads out of the tree)" + rest
	}
	switch e.Kind {
	case Added:
		switch {
		case e.Type == Symlink:
			name += " → " + Quote(e.Target)
		case e.Type.special():
			name += " (" + string(e.Type) + ")"
		}
		return "A " + name + rest
	case ModeOnly:
		if rest == "" {
			rest = " (owner or attributes)"
		}
		return "m " + name + rest
	case Relinked:
		switch {
		case e.Type == Symlink && e.Was == Symlink:
			name += " → " + Quote(e.Target)
		case e.Type == Symlink:
			name += " → " + Quote(e.Target) + " (was a " + string(e.Was) + ")"
		default:
			name += " (a " + string(e.Type) + ", was a symlink)"
		}
		return "L " + name + rest
	}
	if e.Was != e.Type {
		name += " (" + string(e.Was) + " → " + string(e.Type) + ")"
	}
	return "M " + name + rest
}

// mode is what is to say about the permission bits.
func mode(e *Entry) string {
	switch {
	case e.Type == Symlink || e.Type.special() && e.Type != e.Was:
		return ""
	case e.Type == e.Was && e.Mode == e.OldMode && e.shownLeftOut():
		return fmt.Sprintf(" %04o (set-id is not applied)", e.Mode)
	case e.Type == e.Was && e.Mode != e.OldMode:
		return fmt.Sprintf(" %04o → %04o", e.OldMode, e.Mode)
	case e.Type == e.Was || usual(e.Type, e.Mode):
		return ""
	}
	return fmt.Sprintf(" %04o", e.Mode)
}

// usual: what a umask that isn't too wide makes of a new object.
func usual(t Type, mode uint32) bool {
	switch mode {
	case 0o755, 0o775, 0o700:
		return true
	case 0o644, 0o664, 0o600:
		return t == File
	}
	return false
}

// unkept marks what apply refuses, because it couldn't be kept whole.
func unkept(e *Entry) string {
	if e.Unkept == "" {
		return ""
	}
	return " (can't be applied)"
}

func (l *lines) annotations(e *Entry) (text string) {
	if e.shownLeftOut() && (e.Type != e.Was || e.Mode != e.OldMode) {
		text += " (set-id is not applied)"
	}
	if e.OldLinks > 1 {
		text += fmt.Sprintf(" (one of %d hard links; the others stay as they are)", e.OldLinks)
	}
	if link := l.m.linkOf(e); link != "" {
		text += " (hard link of " + Quote(l.place(e, link)) + ")"
	}
	if e.otherAttributes() {
		text += " (attributes)"
	}
	if os.Geteuid() != 0 {
		return text // apply sets no owner
	}
	switch {
	case e.Was == Absent && (e.UID != 0 || e.GID != 0):
		text += fmt.Sprintf(" (owner %d:%d)", e.UID, e.GID)
	case e.Was != Absent && (e.UID != e.OldUID || e.GID != e.OldGID):
		text += fmt.Sprintf(" (owner %d:%d, was %d:%d)", e.UID, e.GID, e.OldUID, e.OldGID)
	}
	return text
}

// otherAttributes: they aren't what they were.
func (e *Entry) otherAttributes() bool {
	return e.now() != Absent && digestXattrs(e.Xattrs) != e.Base.Xattrs
}

// place is a path in the tree of e as this program takes it: what is shown can be named.
func (l *lines) place(e *Entry, path string) string {
	tree := l.m.Trees[e.Tree].Path
	path = strings.TrimSuffix(tree, "/") + "/" + path
	if len(l.m.Trees) > 1 || l.from == "" {
		return path
	}
	_, below := relative(l.from, tree)
	_, above := relative(tree, l.from)
	if !below && !above {
		return path
	}
	name, err := filepath.Rel(l.from, path)
	if err != nil {
		return path
	}
	if strings.HasPrefix(name, "-") {
		return "./" + name // it would be an option
	}
	return name
}

// title is how a change's path is written.
func (l *lines) title(e *Entry) string {
	path := l.place(e, e.Path)
	if e.Type == Dir {
		path += "/"
	}
	return path
}
