package remains

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/gitindex"
	"github.com/confine-run/confine/internal/linux"
	"github.com/confine-run/confine/internal/plan"
)

// gitlinks takes away the repositories that lie below gitlinks which the run has added to an
// index: git status and git diff in the tree would run what their configuration says. One that
// came to be in the run is removed; one that was there before is the caller's, or an earlier run's, and
// gets another name. An index that can't be read any more gets another name, too: git may see more in it.
//
// Nothing is touched that the target could not write to: an index can name anything in its tree.
func (r *Remains) gitlinks(indexes []plan.GitIndex, places []plan.Place, began time.Time) {
	known := make(map[string]bool)
	for i := range indexes {
		x := &indexes[i]
		known[x.Tree] = known[x.Tree] || x.Repository
		for _, name := range x.Gitlinks {
			known[filepath.Join(x.Tree, name)] = true // protected, or kept absent
		}
	}
	for i := range indexes {
		x := &indexes[i]
		for _, name := range r.readIndex(x) {
			at := filepath.Join(x.Tree, name)
			if known[at] || !plan.Writable(places, at+"/.git") {
				continue
			}
			known[at] = true
			r.repository(at, began)
		}
	}
}

// readIndex gives the gitlinks of an index, which it takes away when it can't be read.
func (r *Remains) readIndex(x *plan.GitIndex) []string {
	dir, shut, err := openThrough(x.Dir)
	if err != nil {
		if err == unix.EACCES {
			r.all = append(r.all, taken{path: x.Dir, left: true})
		}
		return nil // there is no git directory
	}
	defer shut()
	found, err := gitindex.Read(x.Hash, func(name string) (string, error) { return readAt(dir, name) })
	if err == unix.ENOENT {
		return nil
	}
	for _, sparse := range found.Sparse {
		if _, shut, failed := openThrough(filepath.Join(x.Tree, sparse)); failed == nil {
			shut()
			err = gitindex.ErrBroken // what is named in it can't be told, and is there
		}
	}
	if err != nil {
		r.setAside(dir, "index", filepath.Join(x.Dir, "index"))
	}
	return found.Gitlinks
}

// readAt reads a file of a git directory. A link is none.
func readAt(dir int, name string) (string, error) {
	const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, err := unix.Openat(dir, name, flags, 0)
	if err == unix.EACCES {
		if restore, failed := linux.OpenUp(dir); failed == nil {
			fd, err = unix.Openat(dir, name, flags, 0)
			restore()
		}
	}
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return "", err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > gitindex.MaxSize {
		return "", gitindex.ErrBroken
	}
	var text strings.Builder
	text.Grow(int(st.Size))
	buf := make([]byte, min(int(st.Size)+1, 64<<10))
	for {
		n, err := unix.Read(fd, buf)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return "", err
		case n == 0:
			return text.String(), nil
		case text.Len()+n > gitindex.MaxSize:
			return "", gitindex.ErrBroken // it grows
		default:
			text.Write(buf[:n])
		}
	}
}

// repository takes away what makes a directory one, be that a directory, a file that leads to one, or a link.
func (r *Remains) repository(tree string, began time.Time) {
	at := filepath.Join(tree, ".git")
	dir, shut, err := openThrough(tree)
	if err == unix.EACCES {
		r.all = append(r.all, taken{path: at, left: true})
	}
	if err != nil {
		return // git goes through no link to there
	}
	defer shut()
	var st unix.Statx_t
	err = unix.Statx(dir, ".git", unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &st)
	switch {
	case err == unix.ENOENT:
	case err == nil && st.Mask&unix.STATX_BTIME != 0 && !time.Unix(st.Btime.Sec, int64(st.Btime.Nsec)).Before(began):
		r.remove(dir, ".git", at)
	default:
		r.setAside(dir, ".git", at)
	}
}

// maxGitEntries bounds the names in one git directory that are looked at, those of objects left out.
const maxGitEntries = 1 << 20

// links takes away the symbolic links that the run has made in git directories. Git makes none there, and
// writes to the files that it knows without looking whether they are: to COMMIT_EDITMSG, to logs; and it
// removes what is in worktrees, through a link, too. Those that are older than the run are the caller's.
func (r *Remains) links(indexes []plan.GitIndex, places []plan.Place, began time.Time) {
	var seen []string
	for i := range indexes {
		for _, dir := range []string{indexes[i].Common, indexes[i].Dir} {
			below := func(above string) bool {
				return dir == above || len(dir) > len(above) && dir[:len(above)+1] == above+"/"
			}
			if plan.Writable(places, dir) && !slices.ContainsFunc(seen, below) {
				seen = append(seen, dir)
				r.linksBelow(dir, began)
			}
		}
	}
}

// linksBelow goes through a git directory, however deep it is, with two descriptors.
func (r *Remains) linksBelow(top string, began time.Time) {
	dir, shut, err := openThrough(top)
	switch err {
	case nil:
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP:
		return // it isn't there, or is none
	default:
		r.all = append(r.all, taken{path: top, left: true, link: true})
		return
	}
	defer shut()
	var st unix.Stat_t
	if unix.Fstat(dir, &st) != nil {
		return
	}
	w := gitWalk{Remains: r, objects: path.Join(top, "objects"), began: began, dev: st.Dev, left: maxGitEntries}
	at, err := unix.Openat(dir, ".", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(at) }()
	way := []gitLevel{{ino: st.Ino, name: top, subs: w.look(at, top)}}
	for len(way) > 0 {
		here := &way[len(way)-1]
		if last := len(here.subs) - 1; last >= 0 {
			sub := here.subs[last]
			here.subs = here.subs[:last]
			fd, err := unix.Openat(at, sub, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
			if err == nil {
				err = unix.Fstat(fd, &st)
			}
			if err != nil || st.Dev != w.dev {
				if fd >= 0 {
					_ = unix.Close(fd)
				}
				continue // it is gone, or somebody has mounted it
			}
			_ = unix.Close(at)
			at = fd
			name := path.Join(here.name, sub)
			way = append(way, gitLevel{ino: st.Ino, name: name, subs: w.look(at, name)})
			continue
		}
		if way = way[:len(way)-1]; len(way) == 0 {
			break
		}
		above, err := leave(at, way[len(way)-1].ino)
		if err != nil {
			w.partly(top)
			return
		}
		_ = unix.Close(at)
		at = above
	}
	if w.left <= 0 {
		w.partly(top)
	}
}

// gitLevel is a directory on the way down.
type gitLevel struct {
	name string
	ino  uint64
	subs []string // still to be looked at
}

// leave opens the directory above, which has to be the one that it was.
func leave(dir int, ino uint64) (above int, err error) {
	above, err = unix.Openat(dir, "..", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(above, &st); err == nil && st.Ino != ino {
		err = unix.ESTALE
	}
	if err != nil {
		_ = unix.Close(above)
		return -1, err
	}
	return above, nil
}

// isHash: a name is the beginning of those of objects.
func isHash(name string) bool {
	return len(name) == 2 && strings.Trim(name, "0123456789abcdef") == ""
}

type gitWalk struct {
	*Remains
	objects string // the directory of git's objects
	began   time.Time
	dev     uint64
	left    int
}

// partly says that not all of a git directory was looked at.
func (w *gitWalk) partly(top string) {
	w.all = append(w.all, taken{path: top, left: true, link: true})
}

// look takes away the links of one directory, and gives its directories. at is O_PATH.
func (w *gitWalk) look(at int, name string) (subs []string) {
	if w.left <= 0 {
		return nil
	}
	if unix.Faccessat(at, ".", unix.R_OK|unix.X_OK, unix.AT_EACCESS) != nil {
		_, _ = linux.OpenUp(at) // the target has closed it. It stays open: the way leads through it
	}
	fd, err := unix.Openat(at, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		w.partly(name)
		return nil
	}
	defer unix.Close(fd)
	buf := make([]byte, 32<<10)
	for w.left > 0 {
		n, err := unix.Getdents(fd, buf)
		if err != nil {
			w.partly(name)
		}
		if err != nil || n == 0 {
			break
		}
		_, _, names := unix.ParseDirent(buf[:n], -1, nil)
		w.left -= len(names)
		for _, entry := range names {
			var st unix.Stat_t
			if err := unix.Fstatat(at, entry, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
				if err != unix.ENOENT {
					w.partly(name)
				}
				continue
			}
			switch st.Mode & unix.S_IFMT {
			case unix.S_IFDIR:
				// What is in there is found by its hash, and written beside it first. Directories of this name
				// elsewhere, as of a branch or a submodule, are others.
				if name == w.objects && isHash(entry) {
					continue
				}
				subs = append(subs, entry)
			case unix.S_IFLNK:
				changed, began := time.Unix(st.Ctim.Unix()), w.began
				if changed.Nanosecond() == 0 { // of a file system that counts seconds
					began = began.Truncate(time.Second)
				}
				if changed.Before(began) {
					continue
				}
				before := len(w.all)
				w.remove(at, entry, path.Join(name, entry))
				for i := before; i < len(w.all); i++ {
					w.all[i].link = true
				}
			}
		}
	}
	return subs
}
