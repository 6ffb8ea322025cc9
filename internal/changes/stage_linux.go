package changes

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// stagedAt is where the first of several hard links was built.
type stagedAt struct {
	step *step
	rel  string // below the temporary name; "" is that itself
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
			return failed("make", a.full(s.Tree, s.Path), err)
		}
	}
	return a.syncTrees()
}

func (a *applying) stageOne(s *step) error {
	dir, _, err := a.parent(s.Tree, s.Path)
	if err != nil {
		return err
	}
	if err := a.object(s, dir, s.Temp, "", s.entry); err != nil {
		return err
	}
	n, err := statAt(dir, s.Temp)
	if err != nil {
		return err
	}
	s.New = n.ino
	e := &a.run.m.Changes[s.entry]
	if e.Type != Dir {
		return nil
	}
	root, err := unix.Openat(dir, s.Temp, dirFlags|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
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
			err = a.object(s, fd, name, rel, i)
		}
		if err != nil {
			return err
		}
	}
	// Modes and times of directories come last, the deepest first.
	for k := len(s.members) - 1; k >= 0; k-- {
		m := &a.run.m.Changes[s.members[k]]
		if m.now() != Dir {
			continue
		}
		if err := a.finishDir(root, m.Path[len(s.Path)+1:], m); err != nil {
			return err
		}
	}
	return a.finishDir(root, "", e)
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

// object makes one new object under a name of dir that isn't taken.
func (a *applying) object(s *step, dir int, name, rel string, i int) error {
	if err := a.store.at("stage"); err != nil {
		return err
	}
	e := &a.run.m.Changes[i]
	switch e.Type {
	case Dir:
		return unix.Mkdirat(dir, name, 0o700)
	case Symlink:
		if err := unix.Symlinkat(e.Target, dir, name); err != nil {
			return err
		}
		if isRoot() {
			if err := unix.Fchownat(dir, name, int(e.UID), int(e.GID), unix.AT_SYMLINK_NOFOLLOW); err != nil {
				return err
			}
		}
		return unix.UtimesNanoAt(dir, name, times(e), unix.AT_SYMLINK_NOFOLLOW)
	case File:
		return a.file(s, dir, name, rel, e)
	}
	return fmt.Errorf("a %s is never made", e.Type)
}

func (a *applying) file(s *step, dir int, name, rel string, e *Entry) error {
	first := applied{e.Tree, e.Link}
	if e.Link == "" {
		first.Path = e.Path
	}
	if made, ok := a.staged[first]; ok {
		if err := a.link(made, dir, name); err == nil {
			return nil
		} else if !errors.Is(err, unix.EXDEV) && !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EMLINK) && !errors.Is(err, unix.ENOENT) {
			return err
		}
		// Another file system, or one without links: a copy then.
	}
	src, from, want, err := a.source(s, dir, rel, e)
	if err != nil {
		return failed("open", from, err)
	}
	defer unix.Close(src)
	n, err := statFD(src)
	if err != nil {
		return err
	}
	fd, err := unix.Openat(dir, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	sum, err := copyContent(fd, src, n.size)
	if err != nil {
		return err
	}
	if sum != want {
		return failed("read", from, errors.New("its content is not what it was"))
	}
	var old *node
	if rel == "" && s.Op == opSwap && s.was.typ == File {
		old = &s.was
	}
	if err := a.dress(fd, e, old); err != nil {
		return err
	}
	if _, ok := a.staged[first]; !ok {
		a.staged[first] = stagedAt{s, rel}
	}
	if a.objects > fewFiles {
		return nil
	}
	return unix.Fsync(fd)
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
func (a *applying) link(made stagedAt, dir int, name string) error {
	at, _ := split(made.step.Path)
	root, err := openBeneath(a.roots[made.step.Tree], join(at, join2(made.step.Temp, made.rel)), unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	return unix.Linkat(unix.AT_FDCWD, procPath(root), dir, name, unix.AT_SYMLINK_FOLLOW)
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
	if err := unix.Fchmod(fd, e.wanted()); err != nil {
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
