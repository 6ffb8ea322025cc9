package linux

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// maxRemovals bounds how often RemoveAll begins again, when somebody else puts things into what
// it removes or moves them about.
const maxRemovals = 100

// RemoveAll removes name in the directory at dir, and what is below it on the same file
// system. That nothing is there is as good. It follows no link, holds no more than three
// descriptors however deep the tree is, and gives a directory's owner the permissions that it
// lacks. What can't be removed keeps nothing else; the first reason comes back. A directory
// has to have the inode number ino, unless that is 0: somebody may put another one there.
func RemoveAll(dir int, name string, ino uint64) error {
	for again := 0; ; again++ {
		err := unix.Unlinkat(dir, name, 0)
		if err == unix.EISDIR {
			err = removeTree(dir, name, ino)
		}
		switch {
		case err == unix.ENOENT:
			return nil
		case (err == unix.ENOTEMPTY || err == errMoved) && again < maxRemovals:
		default:
			return err
		}
	}
}

// errMoved is that of a directory that isn't any more where it was.
const errMoved = unix.ESTALE

// removal is under way in one directory. way has those from the top to it.
type removal struct {
	dev   uint64
	dir   int
	way   []removed
	first error
	buf   [16 << 10]byte
}

// removed is a directory that is being removed.
type removed struct {
	name string
	ino  uint64
	subs []string // directories in it that are still to be removed
}

func (r *removal) failed(err error) {
	if r.first == nil && err != unix.ENOENT { // somebody else has removed it
		r.first = err
	}
}

func removeTree(top int, name string, ino uint64) error {
	var st unix.Stat_t
	if err := unix.Fstat(top, &st); err != nil {
		return err
	}
	r := &removal{dev: st.Dev, dir: -1}
	if err := r.enter(top, name, ino); err != nil {
		return err
	}
	defer func() { _ = unix.Close(r.dir) }()
	for {
		here := &r.way[len(r.way)-1]
		if last := len(here.subs) - 1; last >= 0 {
			sub := here.subs[last]
			here.subs = here.subs[:last]
			if err := r.enter(r.dir, sub, 0); err != nil {
				r.failed(err)
			}
			continue
		}
		if len(r.way) == 1 {
			if err := unix.Unlinkat(top, name, unix.AT_REMOVEDIR); err != nil {
				r.failed(err)
			}
			return r.first
		}
		gone := here.name
		if err := r.leave(); err != nil {
			r.failed(err)
			return r.first
		}
		if err := unix.Unlinkat(r.dir, gone, unix.AT_REMOVEDIR); err != nil {
			r.failed(err)
		}
	}
}

// enter goes to a directory and removes the files in it. What somebody has mounted stays.
func (r *removal) enter(in int, name string, ino uint64) error {
	path, err := unix.Openat(in, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(path)
	var st unix.Stat_t
	if err := unix.Fstat(path, &st); err != nil {
		return err
	}
	switch {
	case st.Dev != r.dev:
		return unix.EXDEV
	case ino != 0 && st.Ino != ino:
		return unix.ESTALE
	case st.Mode&0o700 != 0o700:
		// fchmod takes no O_PATH. It may fail: not only its owner may remove what is in it.
		_ = unix.Chmod("/proc/self/fd/"+strconv.Itoa(path), st.Mode&0o7777|0o700)
	}
	fd, err := unix.Openat(path, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if r.dir >= 0 {
		_ = unix.Close(r.dir)
	}
	r.dir = fd
	r.way = append(r.way, removed{name, st.Ino, r.unlinkFiles()})
	return nil
}

// unlinkFiles removes the files of the directory, and gives its directories.
func (r *removal) unlinkFiles() (subs []string) {
	for e, err := range Dirents(r.dir, r.buf[:]) {
		name := string(e.Name)
		if err == nil {
			err = unix.Unlinkat(r.dir, name, 0)
		}
		if err == unix.EISDIR {
			subs = append(subs, name)
		} else if err != nil {
			r.failed(err)
		}
	}
	return subs
}

// leave goes to the directory above, which has to be the one that it was.
func (r *removal) leave() error {
	above, err := unix.Openat(r.dir, "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_ = unix.Close(r.dir)
	r.dir = above
	r.way = r.way[:len(r.way)-1]
	var st unix.Stat_t
	if err := unix.Fstat(above, &st); err != nil {
		return err
	}
	if st.Ino != r.way[len(r.way)-1].ino || st.Dev != r.dev {
		return errMoved
	}
	return nil
}
