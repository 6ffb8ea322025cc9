package changes

import (
	"fmt"
	"os"
)

// line is one change in a line: a letter, the name, and all else that apply would do.
func (r *Run) line(e *Entry) string {
	name := Quote(r.title(e))
	if e.Kind == Deleted {
		return "D " + name
	}
	rest := r.mode(e) + r.annotations(e)
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
func (r *Run) mode(e *Entry) string {
	switch {
	case e.Type == Symlink || e.Type.special() && e.Type != e.Was:
		return ""
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

func (r *Run) annotations(e *Entry) (text string) {
	if e.Link != "" {
		text += " (hard link of " + Quote(r.place(e, e.Link)) + ")"
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
