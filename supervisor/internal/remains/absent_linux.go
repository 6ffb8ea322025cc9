package remains

import (
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/status"
)

// taken is what became of something that had come to be at a protected path.
type taken struct {
	path  string
	aside string // its new name beside; "": it was removed
	left  bool   // neither could be done
	other bool   // it took the place of something that had been protected
	link  bool   // a symbolic link in a git directory
}

// Remains are what a run left where it may not be. It is taken away with no more rights than the target had: that could have
// put there what it couldn't have removed.
type Remains struct {
	uid, gid  uint32 // the target's, outside
	all       []taken
	protected int // of all: the first were at protected paths, the others have to do with gitlinks
}

// Take takes away what a run that began then has left.
func Take(p *plan.Plan, began time.Time) *Remains {
	r := &Remains{uid: p.UIDMap.Outside, gid: p.GIDMap.Outside}
	r.covered(p.Covered)
	r.absent(p.KeepAbsent, p.KeepClear)
	r.protected = len(r.all)
	r.gitlinks(p.GitIndexes, p.Places, began)
	r.links(p.GitIndexes, p.Places, began)
	return r
}

// Left says whether something could not be taken away. None of a nil one is.
func (r *Remains) Left() bool {
	return r != nil && slices.ContainsFunc(r.all, func(t taken) bool { return t.left })
}

// maxGitlinks is how many of those that have to do with gitlinks are told one by one.
const maxGitlinks = 50

// Violations tells of everything that was taken away.
func (r *Remains) Violations() (list []status.Violation) {
	if r == nil {
		return nil
	}
	for i := range r.all {
		t := &r.all[i]
		if i >= r.protected+maxGitlinks && !t.left { // as many as the run has wanted
			list[len(list)-1].Count++
			continue
		}
		list = append(list, t.violation(i >= r.protected))
	}
	return list
}

const unprotect = "; --workdir overlay takes it, and protect = [] under [sandbox.filesystem] in a --config FILE outside of the tree allows it"

// violation tells of something that was taken away.
func (t *taken) violation(gitlink bool) status.Violation {
	v := status.Violation{Kind: "file", What: t.path, Count: 1, Rule: status.RuleProtected}
	why := "it did not exist before"
	switch {
	case t.other:
		why = "what was protected there was replaced or moved away from outside during the run, and whether the run wrote this can't be told"
	case t.link:
		why = "git would have written through it, or removed what it leads to"
	case gitlink && path.Base(t.path) == "index":
		why = "git's index can't be read any more (git reset makes a new one)"
	case gitlink:
		why = "git's index names it since the run: git status would have run what its configuration says"
	}
	switch {
	case t.left:
		v.Rule = status.RuleLeft
		v.Hint = why + ", and it could NOT be removed: look at it before any program of yours does"
	case t.aside != "":
		v.Rule = status.RuleAside
		v.Hint = why + "; it has the name " + strconv.Quote(t.aside) + " now: look at what is in it before you change that"
	case gitlink:
		v.Hint = why + "; it was removed again" + unprotect
	default:
		v.Hint = why + " and was removed again" + unprotect
	}
	return v
}

// absent removes what came to be at protected paths that did not exist
// when the run was planned: a git hook or an editor's settings left there would
// be run by the caller's own programs. Nothing is followed on the way: the
// target may have left links.
//
// clear are directories that were missing on the way to them. A link there, or a
// file that says where to look instead, as git's do, is removed first.
//
// Nearly all of them are in one directory, which is opened and read once for those that follow each other.
func (r *Remains) absent(paths, clear []string) {
	at, dir, shut := "", -1, func() {}
	defer func() { shut() }()
	var err error
	var names map[string]bool // in dir; nil if that can't be told
	for i, path := range append(slices.Clone(clear), paths...) {
		if in := filepath.Dir(path); in != at {
			shut()
			at, names = in, nil
			if dir, shut, err = openThrough(in); err == nil {
				names = namesIn(dir)
			} else {
				shut = func() {}
			}
		}
		name := filepath.Base(path)
		switch {
		case err == unix.EACCES:
			r.all = append(r.all, taken{path: path, left: true}) // a directory on the way is closed, and not ours: what is behind it can't be told
		case err != nil: // its directory isn't there, or is a link now: not the protected place
		case names != nil && !names[name], names == nil && !isThere(dir, name):
		case i < len(clear) && isDir(dir, name):
		default:
			r.remove(dir, name, path)
		}
	}
}

// covered gives another name to what has taken the place of something protected: a mount that covers a file is
// gone as soon as somebody outside replaces the file, and stays with it when it is renamed. Whose
// the new one is, the caller's or the target's, nobody can tell.
func (r *Remains) covered(list []plan.Covered) {
	at, dir, shut := "", -1, func() {}
	defer func() { shut() }()
	var err error
	for i := range list {
		c := &list[i]
		if in := filepath.Dir(c.Path); in != at {
			shut()
			at = in
			if dir, shut, err = openThrough(in); err != nil {
				shut = func() {}
			}
		}
		before := len(r.all)
		name := filepath.Base(c.Path)
		same, unseen := true, err
		if err == nil {
			same, unseen = stands(dir, name, c)
		}
		switch {
		case err != nil && err != unix.EACCES: // its directory isn't there, or is a link now, which was renamed before this
		case unseen != nil:
			r.all = append(r.all, taken{path: c.Path, left: true})
		case !same:
			r.setAside(dir, name, c.Path)
		}
		for j := before; j < len(r.all); j++ {
			r.all[j].other = true
		}
	}
}

// stands says whether what is there now is what was there before, or nothing is. The target may have
// closed the directory.
func stands(dir int, name string, c *plan.Covered) (bool, error) {
	var x unix.Statx_t
	look := func() error {
		return unix.Statx(dir, name, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &x)
	}
	err := look()
	if err == unix.EACCES {
		if restore, failed := linux.OpenUp(dir); failed == nil {
			err = look()
			restore()
		}
	}
	switch {
	case err == unix.ENOENT:
		return true, nil
	case err != nil:
		return false, err
	case c.Ino == 0:
		return x.Mode&unix.S_IFMT == unix.S_IFDIR, nil
	case unix.Mkdev(x.Dev_major, x.Dev_minor) != c.Dev || x.Ino != c.Ino:
		return false, nil
	}
	return c.Born == 0 || x.Mask&unix.STATX_BTIME != 0 && time.Unix(x.Btime.Sec, int64(x.Btime.Nsec)).UnixNano() == c.Born, nil
}

// maxNames is how many names in a directory are worth reading them.
const maxNames = 2000

// namesIn gives the names in a directory, if they aren't very many.
func namesIn(dir int) map[string]bool {
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	names := make(map[string]bool)
	var buf [8 << 10]byte
	for e, err := range linux.Dirents(fd, buf[:]) {
		if err != nil || len(names) == maxNames {
			return nil
		}
		names[string(e.Name)] = true
	}
	return names
}

// remove removes what is at path, by its name in dir. What can't be, as files of others in
// it can't, is renamed.
func (r *Remains) remove(dir int, name, path string) {
	err := r.asTarget(func() error { return removeAt(dir, name) })
	switch err {
	case nil:
		r.all = append(r.all, taken{path: path})
	case unix.ENOENT:
	default:
		r.setAside(dir, name, path)
	}
}

// maxAside is how many names are tried for what is renamed.
const maxAside = 100

// setAside renames what is at path, by its name in dir, to a name that no program looks for.
func (r *Remains) setAside(dir int, name, path string) {
	t := taken{path: path}
	err := r.asTarget(func() (err error) {
		if t.aside, err = renameAside(dir, name); err != unix.EACCES {
			return err
		}
		restore, err := linux.OpenUp(dir)
		if err != nil {
			return err
		}
		defer restore()
		t.aside, err = renameAside(dir, name)
		return err
	})
	if err == unix.ENOENT {
		return
	}
	if err != nil {
		t.aside, t.left = "", true
	}
	r.all = append(r.all, t)
}

func renameAside(dir int, name string) (aside string, err error) {
	for i := range maxAside {
		aside = name + ".aside"
		if i > 0 {
			aside += strconv.Itoa(i)
		}
		if err = unix.Renameat2(dir, name, dir, aside, unix.RENAME_NOREPLACE); err != unix.EEXIST {
			break
		}
	}
	return aside, err
}

// asTarget does something on this thread with the target's rights to files. Only root has more.
func (r *Remains) asTarget(do func() error) error { return linux.AsUser(r.uid, r.gid, do) }

// openThrough opens a directory by its canonical path. Where the target has closed what is on the
// way, that is open until shut closes it all.
func openThrough(dir string) (fd int, shut func(), err error) {
	if fd, err = linux.OpenPath(dir, unix.O_DIRECTORY); err != unix.EACCES {
		return fd, func() { _ = unix.Close(fd) }, err
	}
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	var undo []func()
	shut = func() {
		for _, f := range slices.Backward(undo) {
			f()
		}
	}
	fd, err = unix.Open("/", flags, 0)
	for name := range strings.SplitSeq(strings.Trim(dir, "/"), "/") {
		if err != nil {
			break
		}
		at := fd
		undo = append(undo, func() { _ = unix.Close(at) })
		if fd, err = unix.Openat(at, name, flags, 0); err == unix.EACCES {
			if restore, failed := linux.OpenUp(at); failed == nil {
				undo = append(undo, restore)
				fd, err = unix.Openat(at, name, flags, 0)
			}
		}
	}
	if err != nil {
		shut()
		return -1, nil, err
	}
	last := fd
	undo = append(undo, func() { _ = unix.Close(last) })
	return fd, shut, nil
}

func isThere(dir int, name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != unix.ENOENT
}

func isDir(dir int, name string) bool {
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
}

// removeAt removes name in dir, with everything below it. The target, whose uid is
// the caller's, may have taken permissions away; they are given back to remove it.
func removeAt(dir int, name string) error {
	err := unix.Unlinkat(dir, name, 0)
	if err == unix.EROFS && !isThere(dir, name) {
		return unix.ENOENT // a read-only mount is refused first
	}
	if err == unix.EACCES {
		restore, chmodErr := linux.OpenUp(dir)
		if chmodErr != nil {
			return err
		}
		defer restore()
		err = unix.Unlinkat(dir, name, 0)
	}
	if err != unix.EISDIR {
		return err
	}
	return linux.RemoveAll(dir, name, 0)
}
