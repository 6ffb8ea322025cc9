package changes

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// stagedAt is where the first of several hard links was built.
type stagedAt struct {
	step   *step
	rel    string // below the temporary name; "" is that itself
	digest string
}

// staging is what an apply builds beside the destinations.
type staging struct {
	*applying
	blobs   int
	built   map[applied]stagedAt // the first name of each file
	steps   map[applied]*step    // see stepAt
	stopped error
}

// stage builds every new object beside its destination, and has it on the disk.
func stage(a *applying) error {
	blobs, err := a.run.openBlobs()
	if err != nil {
		return err
	}
	defer unix.Close(blobs)
	g := &staging{applying: a, blobs: blobs, built: map[applied]stagedAt{}}
	for _, s := range g.journal.moves() {
		if s.builds() {
			g.objects += 1 + len(s.members)
		}
	}
	// Modes and times of directories come last: they may close them to the links of what is in them.
	for _, do := range []func(*step) error{g.one, g.finishDirs} {
		for _, s := range g.journal.moves() {
			if !s.builds() {
				continue
			}
			if err := do(s); err != nil {
				if g.stopped != nil {
					return g.stopped // and not which path was its turn
				}
				return failed("make", g.full(s.Tree, s.Path), g.shut(s, err))
			}
		}
	}
	return g.syncTrees()
}

func (g *staging) one(s *step) error {
	dir, _, err := g.parent(s.Tree, s.Path)
	if err != nil {
		return err
	}
	e := g.entry(s)
	ino, err := g.object(s, dir, s.Temp, "", s.entry)
	if err != nil {
		return err
	}
	s.New = ident{ino, born(dir, s.Temp)}
	if e.Type != Dir {
		return nil
	}
	root, err := g.openMade(dir, s.Temp)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	n, err := statFD(root)
	if err != nil {
		return err
	}
	s.New = ident{n.ino, born(root, "")}
	in := &parent{open: func(path string) (int, error) { return openBeneath(root, path, dirFlags) }}
	defer in.close()
	for _, i := range s.members {
		m := &g.run.m.Changes[i]
		if m.now() == Absent {
			continue
		}
		rel := m.Path[len(s.Path)+1:]
		at, name := split(rel)
		fd, err := in.at(at)
		if err == nil {
			_, err = g.object(s, fd, name, rel, i)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// finishDirs finishes the directories that a step has built, the deepest first.
func (g *staging) finishDirs(s *step) error {
	if g.entry(s).Type != Dir {
		return nil
	}
	dir, _, err := g.parent(s.Tree, s.Path)
	if err != nil {
		return err
	}
	root, err := openBeneath(dir, s.Temp, dirFlags)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	n, err := statFD(root)
	n.born = born(root, "")
	if err == nil && !n.is(s.New) {
		err = errForeign
	}
	if err != nil {
		return err
	}
	for k := len(s.members) - 1; k >= 0; k-- {
		m := &g.run.m.Changes[s.members[k]]
		if m.now() != Dir {
			continue
		}
		if err := g.finishDir(root, m.Path[len(s.Path)+1:], m); err != nil {
			return err
		}
	}
	return g.finishDir(root, "", &g.run.m.Changes[s.entry])
}

func (g *staging) finishDir(root int, rel string, e *Entry) error {
	fd, err := openBeneath(root, rel, dirFlags)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := g.dress(fd, e, nil); err != nil {
		return err
	}
	if g.objects > fewFiles {
		return nil
	}
	return unix.Fsync(fd)
}

// openMade opens the directory that was made a moment ago. Whoever may write where it
// is can have put another one there, and that one isn't given an owner and a mode.
func (g *staging) openMade(dir int, name string) (int, error) {
	fd, err := unix.Openat(dir, name, dirFlags|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	n, err := statFD(fd)
	if err == nil && (n.uid != uint32(os.Geteuid()) || n.mode&0o077 != 0) {
		err = errForeign
	}
	if err == nil {
		err = names(fd, func(string) error { return errForeign })
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// object makes one new object under a name of dir that isn't taken, and gives its
// inode number; not that of a directory.
func (g *staging) object(s *step, dir int, name, rel string, i int) (uint64, error) {
	if err := g.store.at("stage"); err != nil {
		return 0, err
	}
	if g.stopped = g.options.stop(); g.stopped != nil {
		return 0, g.stopped
	}
	e := &g.run.m.Changes[i]
	switch e.Type {
	case Dir:
		return 0, unix.Mkdirat(dir, name, 0o700)
	case Symlink:
		return symlink(dir, name, e)
	case File:
		return g.file(s, dir, name, rel, e)
	}
	return 0, fmt.Errorf("a %s is never made", e.Type)
}

func symlink(dir int, name string, e *Entry) (uint64, error) {
	if err := unix.Symlinkat(e.Target, dir, name); err != nil {
		return 0, err
	}
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	n, err := statFD(fd)
	if err != nil {
		return 0, err
	}
	if n.typ != Symlink {
		return 0, errForeign // see openMade
	}
	if isRoot() {
		if err := unix.Fchownat(fd, "", int(e.UID), int(e.GID), unix.AT_EMPTY_PATH); err != nil {
			return 0, err
		}
	}
	// Times of a link by descriptor: where the kernel can't yet, they are of now.
	if err := unix.UtimesNanoAt(fd, "", times(e), unix.AT_EMPTY_PATH); err != nil && err != unix.EINVAL && err != unix.ENOENT {
		return 0, err
	}
	return n.ino, nil
}

func (g *staging) file(s *step, dir int, name, rel string, e *Entry) (uint64, error) {
	if ino, ok, err := g.linkFirst(s, dir, name, rel, e); ok || err != nil {
		return ino, err
	}
	src, from, want, err := g.source(s, dir, rel, e)
	if err != nil {
		return 0, failed("open", from, err)
	}
	defer unix.Close(src)
	n, err := statFD(src)
	if err != nil {
		return 0, err
	}
	fd, err := unix.Openat(dir, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	made, err := statFD(fd)
	if err != nil {
		return 0, err
	}
	sum, err := copyContent(fd, src, n.size)
	if err != nil {
		return 0, err
	}
	if sum != want {
		return 0, failed("read", from, errors.New("its content is not what it was"))
	}
	var old *node
	if rel == "" && s.Op == opSwap && s.was.typ == File {
		old = &s.was
	}
	if err := g.dress(fd, e, old); err != nil {
		return 0, err
	}
	if _, ok := g.built[e.first()]; !ok {
		g.built[e.first()] = stagedAt{s, rel, sum}
	}
	if g.objects > fewFiles {
		return made.ino, nil
	}
	return made.ino, unix.Fsync(fd)
}

// source opens what a file's content is copied from, and says which it has to be.
func (g *staging) source(s *step, dir int, rel string, e *Entry) (fd int, from, want string, err error) {
	if rel == "" && s.content != "" {
		_, name := split(s.Path)
		fd, err = openFile(dir, name)
		return fd, g.full(s.Tree, s.Path), s.content, err
	}
	fd, err = openFile(g.blobs, e.Blob)
	return fd, g.run.path + "/" + blobsName + "/" + e.Blob, e.Digest, err
}

// link makes name another name of a file that was built before.
func (g *staging) link(made stagedAt, dir int, name string) (uint64, error) {
	at, _ := split(made.step.Path)
	root, err := openBeneath(g.roots[made.step.Tree], join(at, join2(made.step.Temp, made.rel)), unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return 0, err
	}
	defer unix.Close(root)
	n, err := statFD(root)
	if err != nil {
		return 0, err
	}
	return n.ino, unix.Linkat(unix.AT_FDCWD, procPath(root), dir, name, unix.AT_SYMLINK_FOLLOW)
}

// dress gives a new object its owner, attributes, mode and time, in this order: each
// of them undoes something of those after it.
func (g *staging) dress(fd int, e *Entry, old *node) error {
	if isRoot() {
		if err := unix.Fchown(fd, int(e.UID), int(e.GID)); err != nil {
			return err
		}
	} else if old != nil {
		// The group that the replaced file had, if this user is in it.
		_ = unix.Fchown(fd, -1, int(old.gid))
	}
	if err := setXattrs(fd, e.Xattrs); err != nil {
		return err
	}
	mode := e.wanted()
	if old != nil && e.Kind == ModeOnly {
		n, err := statFD(fd)
		if err != nil {
			return err
		}
		mode |= e.given(old.mode, n.uid != old.uid || n.gid != old.gid) & setID
	}
	if err := unix.Fchmod(fd, mode); err != nil {
		return err
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, procPath(fd), times(e), 0)
}

func times(e *Entry) []unix.Timespec {
	t := unix.NsecToTimespec(e.MTime)
	now := unix.NsecToTimespec(time.Now().UnixNano())
	return []unix.Timespec{now, t}
}

// linkFirst makes name another name of the file that e is a name of: of what was built
// already, or of what stands in the real tree. Where neither can be, false: it is copied.
func (g *staging) linkFirst(s *step, dir int, name, rel string, e *Entry) (ino uint64, ok bool, err error) {
	made, built := g.built[e.first()]
	switch {
	case built && rel == "" && s.content != "" && s.content != made.digest:
		return 0, false, nil // a mode that is forced on another content
	case built:
		ino, err = g.link(made, dir, name)
	case e.Link == "" && len(g.run.m.linkedTo(e.first())) == 0:
		return 0, false, nil
	case e.Kind == ModeOnly && e.given(s.was.mode, e.reowned(s.was.uid, s.was.gid)) != e.wanted():
		return 0, false, nil // it keeps rights that it lends, and what does gets no second name
	default:
		ino, err = g.linkReal(s, e, dir, name)
	}
	if err == nil {
		return ino, true, nil
	}
	if !noLink(err) {
		return 0, false, err
	}
	later := !built && e.Link != "" && g.stepAt(e.Tree, e.Link).makes()
	if !later && e.Kind != ModeOnly && !g.run.m.comesLater(e, g.chosen) {
		g.result.Copied++
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
func (g *staging) linkReal(s *step, e *Entry, dir int, name string) (ino uint64, err error) {
	want := e.Digest
	if e.Kind == ModeOnly {
		want = s.content
	}
	err = errNoLink
	if e.Link != "" {
		mode := g.stepAt(e.Tree, e.Link)
		if !mode.makes() { // else it is going to be another
			ino, err = g.linkTo(e, e.Link, want, mode, dir, name)
		}
	}
	for _, path := range g.run.m.linkedTo(e.first()) {
		if !noLink(err) {
			break
		}
		ino, err = g.linkTo(e, path, want, nil, dir, name)
	}
	return ino, err
}

// linkTo links by the descriptor that was looked at.
func (g *staging) linkTo(e *Entry, path, want string, mode *step, dir int, name string) (uint64, error) {
	fd, n, err := g.linkable(e, path, want, mode)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	return n.ino, unix.Linkat(unix.AT_FDCWD, procPath(fd), dir, name, unix.AT_SYMLINK_FOLLOW)
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

// stepAt is the step that brings about what will stand at a path, if there is one.
func (g *staging) stepAt(tree int, path string) *step {
	if g.steps == nil {
		g.steps = map[applied]*step{}
		for _, s := range g.journal.Steps {
			g.steps[applied{s.Tree, s.Path}] = s
			for _, i := range s.members {
				g.steps[applied{s.Tree, g.run.m.Changes[i].Path}] = s
			}
		}
	}
	return g.steps[applied{tree, path}]
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
