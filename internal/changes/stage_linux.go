package changes

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

// builtFile is the first name of a file that was built.
type builtFile struct {
	tree   int
	path   string // where it stands now
	digest string
}

// staging is what an apply builds beside the destinations.
type staging struct {
	*applying
	blobs   int
	built   map[treePath]builtFile // the first name of each file
	moved   map[treePath]bool      // what a move brings about
	modes   map[treePath]*modeStep
	stopped error
}

// stage builds every new object beside its destination, and has it on the disk.
func stage(a *applying) error {
	blobs, err := a.run.openBlobs()
	if err != nil {
		return err
	}
	defer unix.Close(blobs)
	g := &staging{applying: a, blobs: blobs, built: map[treePath]builtFile{}, moved: map[treePath]bool{}, modes: map[treePath]*modeStep{}}
	for _, s := range g.journal.Moves {
		g.moved[treePath{s.Tree, s.Path}] = true
		for _, i := range s.members {
			g.moved[treePath{s.Tree, g.run.m.Changes[i].Path}] = true
		}
		if s.builds() {
			g.objects += 1 + len(s.members)
		}
	}
	for _, s := range g.journal.Modes {
		g.modes[treePath{s.Tree, s.Path}] = s
	}
	// Modes and times of directories come last: they may close them to the links of what is in them.
	for _, do := range []func(*move, int) error{g.build, g.finishDirs} {
		for _, s := range g.journal.Moves {
			if !s.builds() {
				continue
			}
			dir, _, err := g.parent(s.Tree, s.Path)
			if err == nil {
				err = do(s, dir)
			}
			if g.stopped != nil {
				return g.stopped // and not which path was its turn
			}
			if err != nil {
				return failed("make", g.full(s.Tree, s.Path), g.notWritable(s.Tree, s.Path, err))
			}
		}
	}
	return g.syncTrees()
}

// build makes what a step puts at its name, with all below it, under the temporary name in dir.
func (g *staging) build(s *move, dir int) error {
	n, err := g.object(s, dir, s.Temp, "", s.entry)
	if err != nil || g.entry(s).Type != Dir {
		s.New = n.ident()
		return err
	}
	root, n, err := openMade(dir, s.Temp)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	s.New = n.ident()
	in := &parent{open: func(path string) (int, error) { return linux.OpenBeneath(root, path, dirFlags) }}
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
func (g *staging) finishDirs(s *move, dir int) error {
	if g.entry(s).Type != Dir {
		return nil
	}
	root, err := linux.OpenBeneath(dir, s.Temp, dirFlags)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	if n, err := statFD(root); err != nil {
		return err
	} else if !n.is(s.New) {
		return errForeign
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
	return g.finishDir(root, "", g.entry(s))
}

func (g *staging) finishDir(root int, rel string, e *Entry) error {
	fd, err := linux.OpenBeneath(root, rel, dirFlags)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return g.finishObject(fd, e, nil)
}

// openMade opens the directory that was made a moment ago. Whoever may write where it
// is can have put another one there, and that one isn't given an owner and a mode.
func openMade(dir int, name string) (int, node, error) {
	fd, n, err := opened(dir, name, dirFlags)
	if err != nil {
		return -1, n, err
	}
	if n.uid != uint32(os.Geteuid()) || n.mode&0o077 != 0 {
		err = errForeign
	} else {
		err = names(fd, func(string) error { return errForeign })
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, n, err
	}
	return fd, n, nil
}

// object makes one new object under a name of dir that isn't taken, and gives what it is;
// of a directory it doesn't.
func (g *staging) object(s *move, dir int, name, rel string, i int) (n node, err error) {
	if err := g.store.at("stage"); err != nil {
		return n, err
	}
	if g.stopped = g.options.stop(); g.stopped != nil {
		return n, g.stopped
	}
	e := &g.run.m.Changes[i]
	switch e.Type {
	case Dir:
		return n, unix.Mkdirat(dir, name, 0o700)
	case Symlink:
		return symlink(dir, name, e)
	case File:
		n, linked, err := g.linked(s, dir, name, rel, e)
		if linked || err != nil {
			return n, err
		}
		return g.copied(s, dir, name, rel, e)
	}
	return n, fmt.Errorf("a %s is never made", e.Type)
}

func symlink(dir int, name string, e *Entry) (node, error) {
	if err := unix.Symlinkat(e.Target, dir, name); err != nil {
		return node{}, err
	}
	fd, n, err := openPath(dir, name)
	if err != nil {
		return n, err
	}
	defer unix.Close(fd)
	if n.typ != Symlink {
		return n, errForeign // see openMade
	}
	if isRoot() {
		if err := unix.Fchownat(fd, "", int(e.UID), int(e.GID), unix.AT_EMPTY_PATH); err != nil {
			return n, err
		}
	}
	// Times of a link by descriptor: where the kernel can't yet, they are of now.
	if err := unix.UtimesNanoAt(fd, "", times(e), unix.AT_EMPTY_PATH); err != nil && err != unix.EINVAL && err != unix.ENOENT {
		return n, err
	}
	return n, nil
}

// copied makes a new file, of a blob or of the real file that gets another mode.
func (g *staging) copied(s *move, dir int, name, rel string, e *Entry) (node, error) {
	in, from, path, want := g.blobs, e.Blob, g.run.path+"/"+blobsName+"/"+e.Blob, e.Digest
	if rel == "" && s.content != "" {
		_, last := split(s.Path)
		in, from, path, want = dir, last, g.full(s.Tree, s.Path), s.content
	}
	src, err := openFile(in, from)
	if err != nil {
		return node{}, failed("open", path, err)
	}
	defer unix.Close(src)
	n, err := statFD(src)
	if err != nil {
		return n, err
	}
	fd, made, err := opened(dir, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return made, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	sum, err := copyContent(f, src, n.size)
	if err != nil {
		return made, err
	}
	if sum != want {
		return made, failed("read", path, errors.New("its content is not what it was"))
	}
	var old *node
	if rel == "" && s.Op == opSwap && s.was.typ == File {
		old = &s.was
	}
	if _, ok := g.built[e.first()]; !ok {
		at, _ := split(s.Path)
		g.built[e.first()] = builtFile{s.Tree, join(at, join2(s.Temp, rel)), sum}
	}
	return made, g.finishObject(fd, e, old)
}

// finishObject gives a new object its owner, attributes, mode and time, in this order: each
// of them undoes something of those after it.
func (g *staging) finishObject(fd int, e *Entry, old *node) error {
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
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, linux.FDPath(fd), times(e), 0); err != nil || g.objects > fewFiles {
		return err
	}
	return unix.Fsync(fd)
}

func times(e *Entry) []unix.Timespec {
	return []unix.Timespec{unix.NsecToTimespec(time.Now().UnixNano()), unix.NsecToTimespec(e.MTime)}
}

// errNoLink: the real file isn't one that a link may be made to.
var errNoLink = errors.New("is not what the run linked to")

// linked makes name another name of the file that e is a name of: of what was built
// already, or of what stands in the real tree. Where neither can be, false: it is copied.
func (g *staging) linked(s *move, dir int, name, rel string, e *Entry) (n node, ok bool, err error) {
	made, built := g.built[e.first()]
	fd := -1
	switch {
	case built && rel == "" && s.content != "" && s.content != made.digest:
		return n, false, nil // a mode that is forced on another content
	case built:
		fd, err = linux.OpenBeneath(g.roots[made.tree], made.path, unix.O_PATH|unix.O_NOFOLLOW)
	case e.Link == "" && len(g.run.m.linkedTo(e.first())) == 0:
		return n, false, nil
	case e.Kind == ModeOnly && e.given(s.was.mode, e.reowned(s.was.uid, s.was.gid)) != e.wanted():
		return n, false, nil // it keeps rights that it lends, and what does gets no second name
	default:
		fd, err = g.realFile(s, e)
	}
	if err == nil {
		defer unix.Close(fd)
		err = unix.Linkat(unix.AT_FDCWD, linux.FDPath(fd), dir, name, unix.AT_SYMLINK_FOLLOW)
	}
	switch err {
	case nil:
		n, err = statFD(fd)
		return n, true, err
	case unix.EXDEV, unix.EPERM, unix.EMLINK, unix.ENOENT, errNoLink:
		// Another file system, one without links, not this user's to link, or not that file.
	default:
		return n, false, err
	}
	later := !built && e.Link != "" && g.moved[treePath{e.Tree, e.Link}] || g.run.m.comesLater(e, g.chosen)
	if !later && e.Kind != ModeOnly {
		g.result.Copied++
	}
	return n, false, nil
}

// realFile opens the real file that e was a link of in the overlay, or one that was applied before.
func (g *staging) realFile(s *move, e *Entry) (int, error) {
	want := e.Digest
	if e.Kind == ModeOnly {
		want = s.content
	}
	if at := (treePath{e.Tree, e.Link}); e.Link != "" && !g.moved[at] { // else it is going to be another
		if fd, err := g.linkable(e, e.Link, want, g.modes[at]); err == nil {
			return fd, nil
		}
	}
	for _, path := range g.run.m.linkedTo(e.first()) {
		if fd, err := g.linkable(e, path, want, nil); err == nil {
			return fd, nil
		}
	}
	return -1, errNoLink
}

// linkable opens the real file at path, if e may become another name of it: it has the run's
// content, owner and mode, or gets that mode in this apply. Protection goes by names, so what is
// protected gets no second one; and what lends rights gets none.
func (a *applying) linkable(e *Entry, path, want string, mode *modeStep) (int, error) {
	if a.protects(&Entry{Change: Change{Tree: e.Tree, Path: path, Type: File}}) {
		return -1, errNoLink
	}
	at, last := split(path)
	in, err := linux.OpenBeneath(a.roots[e.Tree], at, lookupFlags)
	if err != nil {
		return -1, errNoLink
	}
	defer unix.Close(in)
	fd, err := openFile(in, last)
	if err != nil {
		return -1, errNoLink
	}
	if !e.sameAs(fd, want, mode) {
		_ = unix.Close(fd)
		return -1, errNoLink
	}
	return fd, nil
}

// sameAs: the open file is what e is.
func (e *Entry) sameAs(fd int, want string, mode *modeStep) bool {
	n, err := statFD(fd)
	if err != nil || n.mode&setID != 0 || n.size != e.Size || !isRoot() && n.uid != uint32(os.Geteuid()) {
		return false
	}
	if mode != nil {
		if !n.is(mode.Old) {
			return false
		}
	} else if all, err := xattrs(fd); err != nil || n.mode != e.wanted() || e.reowned(n.uid, n.gid) || !sameXattrs(all, e.Xattrs) {
		return false
	}
	sum, err := digest(fd, n.size)
	return err == nil && sum == want
}
