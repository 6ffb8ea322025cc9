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

// stage builds every new object beside its destination, and has it on the disk.
func (a *applying) stage() error {
	a.staged = map[applied]stagedAt{}
	for _, s := range a.journal.Steps {
		if s.Op == opPut || s.Op == opSwap {
			a.objects += 1 + len(s.members)
		}
	}
	for _, s := range a.journal.Steps {
		if s.Op != opPut && s.Op != opSwap {
			continue
		}
		if err := a.stageOne(s); err != nil {
			return failed("make", a.full(s.Tree, s.Path), a.shut(s, err))
		}
	}
	// Modes and times of directories come last: they may close them to the links of what is in them.
	for _, s := range a.journal.Steps {
		if s.Op != opPut && s.Op != opSwap || a.run.m.Changes[s.entry].Type != Dir {
			continue
		}
		if err := a.finishDirs(s); err != nil {
			return failed("make", a.full(s.Tree, s.Path), a.shut(s, err))
		}
	}
	return a.syncTrees()
}

func (a *applying) stageOne(s *step) error {
	dir, _, err := a.parent(s.Tree, s.Path)
	if err != nil {
		return err
	}
	e := &a.run.m.Changes[s.entry]
	ino, err := a.object(s, dir, s.Temp, "", s.entry)
	if err != nil {
		return err
	}
	s.New = ident{ino, born(dir, s.Temp)}
	if e.Type != Dir {
		return nil
	}
	root, err := a.openMade(dir, s.Temp)
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
		m := &a.run.m.Changes[i]
		if m.now() == Absent {
			continue
		}
		rel := m.Path[len(s.Path)+1:]
		at, name := split(rel)
		fd, err := in.at(at)
		if err == nil {
			_, err = a.object(s, fd, name, rel, i)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// finishDirs finishes the directories that a step has built, the deepest first.
func (a *applying) finishDirs(s *step) error {
	dir, _, err := a.parent(s.Tree, s.Path)
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
		m := &a.run.m.Changes[s.members[k]]
		if m.now() != Dir {
			continue
		}
		if err := a.finishDir(root, m.Path[len(s.Path)+1:], m); err != nil {
			return err
		}
	}
	return a.finishDir(root, "", &a.run.m.Changes[s.entry])
}

func (a *applying) finishDir(root int, rel string, e *Entry) error {
	fd, err := openBeneath(root, rel, dirFlags)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := a.dress(fd, e, nil); err != nil {
		return err
	}
	if a.objects > fewFiles {
		return nil
	}
	return unix.Fsync(fd)
}

// openMade opens the directory that was made a moment ago. Whoever may write where it
// is can have put another one there, and that one isn't given an owner and a mode.
func (a *applying) openMade(dir int, name string) (int, error) {
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
func (a *applying) object(s *step, dir int, name, rel string, i int) (uint64, error) {
	if err := a.store.at("stage"); err != nil {
		return 0, err
	}
	if a.stopped = a.options.stop(); a.stopped != nil {
		return 0, a.stopped
	}
	e := &a.run.m.Changes[i]
	switch e.Type {
	case Dir:
		return 0, unix.Mkdirat(dir, name, 0o700)
	case Symlink:
		return symlink(dir, name, e)
	case File:
		return a.file(s, dir, name, rel, e)
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

func (a *applying) file(s *step, dir int, name, rel string, e *Entry) (uint64, error) {
	if ino, ok, err := a.linkFirst(s, dir, name, rel, e); ok || err != nil {
		return ino, err
	}
	src, from, want, err := a.source(s, dir, rel, e)
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
	if err := a.dress(fd, e, old); err != nil {
		return 0, err
	}
	if _, ok := a.staged[e.first()]; !ok {
		a.staged[e.first()] = stagedAt{s, rel, sum}
	}
	if a.objects > fewFiles {
		return made.ino, nil
	}
	return made.ino, unix.Fsync(fd)
}

// source opens what a file's content is copied from, and says which it has to be.
func (a *applying) source(s *step, dir int, rel string, e *Entry) (fd int, from, want string, err error) {
	if rel == "" && s.content != "" {
		_, name := split(s.Path)
		fd, err = openFile(dir, name)
		return fd, a.full(s.Tree, s.Path), s.content, err
	}
	fd, err = openFile(a.blobs, e.Blob)
	return fd, a.run.path + "/" + blobsName + "/" + e.Blob, e.Digest, err
}

// link makes name another name of a file that was built before.
func (a *applying) link(made stagedAt, dir int, name string) (uint64, error) {
	at, _ := split(made.step.Path)
	root, err := openBeneath(a.roots[made.step.Tree], join(at, join2(made.step.Temp, made.rel)), unix.O_PATH|unix.O_NOFOLLOW)
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
func (a *applying) dress(fd int, e *Entry, old *node) error {
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

// syncTrees has the names in all directories of the steps on the disk: directory by
// directory, or the file system if there are many.
func (a *applying) syncTrees() error {
	if err := a.store.at("sync"); err != nil {
		return err
	}
	if a.objects > fewFiles || len(a.journal.Steps) > fewFiles {
		return a.syncRoots()
	}
	done := map[applied]bool{}
	for _, s := range a.journal.Steps {
		at, _ := split(s.Path)
		if done[applied{s.Tree, at}] {
			continue
		}
		done[applied{s.Tree, at}] = true
		dir, _, err := a.parent(s.Tree, s.Path)
		if err == unix.ENOENT || err == unix.ENOTDIR {
			continue
		}
		if err == nil {
			err = unix.Fsync(dir)
		}
		if err != nil {
			return failed("fsync", a.full(s.Tree, at), err)
		}
	}
	return nil
}

// syncRoots syncs each file system that a step was taken on.
func (a *applying) syncRoots() error {
	devs := map[uint64]bool{}
	for _, s := range a.journal.Steps {
		dir, _, err := a.parent(s.Tree, s.Path)
		if err == unix.ENOENT || err == unix.ENOTDIR {
			continue
		}
		if err != nil {
			return failed("openat2", a.full(s.Tree, s.Path), err)
		}
		n, err := statFD(dir)
		if err == nil && !devs[n.dev] {
			devs[n.dev] = true
			err = unix.Syncfs(dir)
		}
		if err != nil {
			return failed("syncfs", a.full(s.Tree, s.Path), err)
		}
	}
	return nil
}
