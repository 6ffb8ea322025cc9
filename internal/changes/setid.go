package changes

import "os"

// setID are the bits that lend the rights of a file's owner or group to whoever runs
// it. On a directory the second makes what is made in it the directory's group's, and
// lends nothing.
const setID = 0o6000

// wanted is the mode of what the run made, or gave new content: a file without set-id
// bits, whoever had them before, a directory without the one that means nothing there.
func (e *Entry) wanted() uint32 {
	if e.Type == Dir {
		return e.Mode & 0o3777
	}
	return e.Mode &^ setID
}

// given is the mode that is applied to what has the mode old. Where content and owner stay,
// so do the set-id bits that it has, unless the run took them off.
func (e *Entry) given(old uint32, reowned bool) uint32 {
	mode := e.wanted()
	if e.Kind == ModeOnly && !reowned {
		mode |= e.Mode & old & setID
	}
	return mode
}

// reowned: apply gives it another owner or group than it has.
func (e *Entry) reowned(uid, gid uint32) bool {
	return os.Geteuid() == 0 && (uid != e.UID || gid != e.GID)
}

// leftOut: the run gave it a set-id bit that apply doesn't.
func (e *Entry) leftOut(old uint32, reowned bool) bool {
	if t := e.now(); t != File && t != Dir {
		return false
	}
	return e.Mode&^e.given(old, reowned)&setID != 0
}

// shownLeftOut is leftOut for what the real tree had.
func (e *Entry) shownLeftOut() bool {
	return e.leftOut(e.OldMode, e.reowned(e.OldUID, e.OldGID))
}
