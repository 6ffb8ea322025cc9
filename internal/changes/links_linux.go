package changes

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// countParted counts the files with several names of which not all are replaced or
// removed: the others, outside the tree perhaps, keep the old content, as they did in
// the overlay. To write in place instead would change names that the run never saw
// changed, and couldn't be undone.
func (a *applying) countParted() {
	names := map[inode]uint64{}
	for _, s := range a.journal.Steps {
		if (s.Op == opSwap || s.Op == opRemove) && s.was.typ == File {
			names[inode{s.was.dev, s.was.ino}]++
		}
	}
	for _, s := range a.journal.Steps {
		if s.Op == opSwap && s.was.typ == File && a.run.m.Changes[s.entry].now() == File && s.was.nlink > names[inode{s.was.dev, s.was.ino}] {
			a.result.Parted++
		}
	}
}

// linkFirst makes name another name of the file that e is a name of: of what was built
// already, or of what stands in the real tree. Where neither can be, false: it is copied.
func (a *applying) linkFirst(s *step, dir int, name, rel string, e *Entry) (ino uint64, ok bool, err error) {
	made, built := a.staged[e.first()]
	switch {
	case built && rel == "" && s.content != "" && s.content != made.digest:
		return 0, false, nil // a mode that is forced on another content
	case built:
		ino, err = a.link(made, dir, name)
	case e.Link == "" && len(a.run.m.linkedTo(e.first())) == 0:
		return 0, false, nil
	case e.Kind == ModeOnly && e.given(s.was.mode, e.reowned(s.was.uid, s.was.gid)) != e.wanted():
		return 0, false, nil // it keeps rights that it lends, and what does gets no second name
	default:
		ino, err = a.linkReal(s, e, dir, name)
	}
	if err == nil {
		return ino, true, nil
	}
	if !noLink(err) {
		return 0, false, err
	}
	later := !built && e.Link != "" && a.stepAt(e.Tree, e.Link).makes()
	if !later && e.Kind != ModeOnly && !a.run.m.comesLater(e, a.chosen) {
		a.result.Copied++
	}
	return 0, false, nil
}

// makes: the step puts something new at its name, which becomes a link of what was built before.
func (s *step) makes() bool { return s != nil && s.Op != opMode }

// errNoLink: the real file isn't one that a link may be made to.
var errNoLink = errors.New("is not what the run linked to")

// noLink: another file system, one without links, not this user's to link, or not that file.
func noLink(err error) bool {
	return errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EMLINK) || errors.Is(err, unix.ENOENT) ||
		errors.Is(err, errNoLink)
}

// linkReal makes name another name of the real file that e was a link of in the overlay,
// or of one that was applied before.
func (a *applying) linkReal(s *step, e *Entry, dir int, name string) (ino uint64, err error) {
	want := e.Digest
	if e.Kind == ModeOnly {
		want = s.content
	}
	err = errNoLink
	if e.Link != "" {
		mode := a.stepAt(e.Tree, e.Link)
		if !mode.makes() { // else it is going to be another
			ino, err = a.linkTo(e, e.Link, want, mode, dir, name)
		}
	}
	for _, path := range a.run.m.linkedTo(e.first()) {
		if !noLink(err) {
			break
		}
		ino, err = a.linkTo(e, path, want, nil, dir, name)
	}
	return ino, err
}

// linkTo links by the descriptor that was looked at.
func (a *applying) linkTo(e *Entry, path, want string, mode *step, dir int, name string) (uint64, error) {
	fd, n, err := a.linkable(e, path, want, mode)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	return n.ino, unix.Linkat(unix.AT_FDCWD, procPath(fd), dir, name, unix.AT_SYMLINK_FOLLOW)
}

// linkable opens the real file at path, if e may become another name of it: it has the run's
// content, owner and mode, or gets that mode in this apply. Protection goes by names, so what is
// protected gets no second one; and what lends rights gets none.
func (a *applying) linkable(e *Entry, path, want string, mode *step) (int, node, error) {
	if a.protects(&Entry{Change: Change{Tree: e.Tree, Path: path, Type: File}}) {
		return -1, node{}, errNoLink
	}
	at, last := split(path)
	in, err := openBeneath(a.roots[e.Tree], at, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return -1, node{}, errNoLink
	}
	defer unix.Close(in)
	fd, err := openFile(in, last)
	if err != nil {
		return -1, node{}, errNoLink
	}
	n, err := statFD(fd)
	if err == nil {
		err = e.sameAs(fd, n, want, mode)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, node{}, err
	}
	return fd, n, nil
}

// sameAs is errNoLink if the open file isn't what e is.
func (e *Entry) sameAs(fd int, n node, want string, mode *step) error {
	if n.mode&setID != 0 || n.size != e.Size || !isRoot() && n.uid != uint32(os.Geteuid()) {
		return errNoLink
	}
	if mode != nil {
		if n.ino != mode.Old.Ino {
			return errNoLink
		}
	} else if all, err := xattrs(fd); err != nil || n.mode != e.wanted() || e.reowned(n.uid, n.gid) || !sameXattrs(all, e.Xattrs) {
		return errNoLink
	}
	if sum, err := digest(fd, n.size); err != nil || sum != want {
		return errNoLink
	}
	return nil
}

// relinks: a file that gets another mode alone, where another name of it was applied before
// with that mode. It becomes a link of that.
func (a *applying) relinks(e *Entry, real Base, n node) bool {
	if e.Kind != ModeOnly || real.Type != File || e.given(n.mode, e.reowned(n.uid, n.gid)) != e.wanted() {
		return false
	}
	for _, path := range a.run.m.linkedTo(e.first()) {
		if fd, _, err := a.linkable(e, path, real.Digest, nil); err == nil {
			_ = unix.Close(fd)
			return true
		}
	}
	return false
}

// stepAt is the step that brings about what will stand at a path, if there is one.
func (a *applying) stepAt(tree int, path string) *step {
	if a.steps == nil {
		a.steps = map[applied]*step{}
		for _, s := range a.journal.Steps {
			a.steps[applied{s.Tree, s.Path}] = s
			for _, i := range s.members {
				a.steps[applied{s.Tree, a.run.m.Changes[i].Path}] = s
			}
		}
	}
	return a.steps[applied{tree, path}]
}
