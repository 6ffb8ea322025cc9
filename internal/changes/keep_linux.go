package changes

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

// Keepable says beforehand whether a directory of kept runs could be written: the nearest on the way to it that is there has to be writable.
func Keepable(dir string) error {
	for at := dir; ; at = filepath.Dir(at) {
		err := unix.Faccessat(unix.AT_FDCWD, at, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
		if err != unix.ENOENT || at == filepath.Dir(at) {
			return failed("make", dir, err)
		}
	}
}

// Keep stores the changes of a run, and gives its id; none if nothing changed. Partly counts
// those that couldn't be kept whole, which are never applied: see Entry.Unkept. It reads the trees'
// descriptors once more: nobody may have written the uppers since Read.
func (s *Store) Keep(k Keeping) (id string, partly int, err error) {
	total := 0
	for _, set := range k.Sets {
		total += len(set.Changes) + set.Truncated + set.Deep
	}
	if total == 0 {
		return "", 0, nil
	}
	if len(k.Sets) != len(k.Trees) {
		return "", 0, fmt.Errorf("%d sets of changes for %d trees", len(k.Sets), len(k.Trees))
	}
	if err := s.sweep(); err != nil {
		return "", 0, err
	}
	run, fd, err := s.begin(time.Now())
	if err != nil {
		return "", 0, err
	}
	defer unix.Close(fd) // and the lock on it
	defer func() {
		if err != nil {
			_ = linux.RemoveAll(s.fd, unfinished+run, 0) // not id: the returns below have made that ""
		}
	}()
	m := &manifest{Version: manifestVersion, ID: run, Time: k.Start.UTC(), Command: k.Command, Protect: k.Protect}
	if err := s.fill(fd, m, k); err != nil {
		return "", 0, err
	}
	if err := s.at("finish keep"); err != nil {
		return "", 0, err
	}
	if err := unix.Renameat2(s.fd, unfinished+run, s.fd, run, unix.RENAME_NOREPLACE); err != nil {
		return "", 0, failed("rename", s.path+"/"+run, err)
	}
	for i := range m.Changes {
		if m.Changes[i].Unkept != "" {
			partly++
		}
	}
	return run, partly, failed("fsync", s.path, unix.Fsync(s.fd))
}

// begin makes and locks the directory of a run that isn't one yet.
func (s *Store) begin(now time.Time) (string, int, error) {
	for range 100 {
		var random [2]byte
		_, _ = rand.Read(random[:]) // never fails
		// Milliseconds first, so that two runs of one second are in order.
		id := fmt.Sprintf("%s-%03x%03x", now.UTC().Format("20060102T150405"), now.Nanosecond()/1e6,
			(uint(random[0])<<8|uint(random[1]))&0xfff)
		if n, err := statAt(s.fd, id); err != nil || n.typ != Absent {
			continue
		}
		err := unix.Mkdirat(s.fd, unfinished+id, 0o700)
		if err == unix.EEXIST {
			continue
		}
		if err != nil {
			return "", -1, failed("mkdir", s.path+"/"+id, err)
		}
		fd, err := unix.Openat(s.fd, unfinished+id, dirFlags|unix.O_CLOEXEC, 0)
		if err == unix.ENOENT {
			continue // swept before it was locked
		}
		if err != nil {
			return "", -1, failed("open", s.path+"/"+id, err)
		}
		var st unix.Stat_t
		if linux.Flock(fd, unix.LOCK_EX) == nil && unix.Fstat(fd, &st) == nil && st.Nlink > 0 {
			return id, fd, nil
		}
		_ = unix.Close(fd)
	}
	return "", -1, failed("mkdir", s.path, unix.EEXIST)
}

func (s *Store) fill(fd int, m *manifest, k Keeping) error {
	if err := unix.Mkdirat(fd, blobsName, 0o700); err != nil {
		return failed("mkdir", s.path+"/"+m.ID, err)
	}
	blobs, err := unix.Openat(fd, blobsName, dirFlags|unix.O_CLOEXEC, 0)
	if err != nil {
		return failed("open", s.path+"/"+m.ID, err)
	}
	defer unix.Close(blobs)
	w := &keeper{store: s, blobs: blobs, start: k.Start.UnixNano(), path: s.path + "/" + m.ID}
	for i, t := range k.Trees {
		n, err := statFD(t.Lower)
		if err != nil {
			return failed("fstat", t.Path, err)
		}
		m.Trees = append(m.Trees, keptTree{Path: t.Path, Ino: n.ino, Truncated: k.Sets[i].Truncated, Deep: k.Sets[i].Deep, DeepIn: k.Sets[i].DeepIn})
		entries, err := w.tree(i, t, k.Sets[i].Changes)
		if err != nil {
			return err
		}
		m.Changes = append(m.Changes, entries...)
	}
	if err := m.check(); err != nil {
		return failed("keep", w.path, err) // what can't be read back isn't kept
	}
	if w.count > fewFiles {
		if err := unix.Syncfs(blobs); err != nil {
			return failed("syncfs", w.path, err)
		}
	}
	if err := unix.Fsync(blobs); err != nil {
		return failed("fsync", w.path, err)
	}
	return failed("write", w.path+"/"+manifestName, s.writeFile(fd, manifestName, m.write))
}

// fewFiles are synced one by one; more, by syncing the file system.
const fewFiles = 100

type keeper struct {
	store *Store
	blobs int
	count int
	start int64
	path  string

	attributes int // bytes of them, so far
}

// tree makes the entries of one tree.
func (w *keeper) tree(index int, t Tree, all []Change) ([]Entry, error) {
	upper := written{uppers: newUppers(t.uppers())}
	defer upper.restore()
	lower := &parent{open: func(path string) (int, error) { return linux.OpenBeneath(t.Lower, path, lookupFlags) }}
	defer upper.close()
	defer lower.close()
	shared := map[string]int{} // the entry that holds the content of several names
	entries := make([]Entry, len(all))
	for i, c := range all {
		e := &entries[i]
		e.Change = c
		e.Tree = index
		err := w.base(e, lower)
		if closed(err) {
			e.Base.Raced, e.Unkept, err = true, "what the real tree has there can't be read: "+err.Error(), nil
		}
		if err != nil {
			return nil, failed("read", t.Path+"/"+c.Path, err)
		}
		if c.Kind == Deleted {
			continue
		}
		object := e.first().Path
		if first, ok := shared[object]; ok && c.Link != "" {
			f := &entries[first]
			e.Blob, e.Digest, e.Xattrs = f.Blob, f.Digest, f.Xattrs
			continue
		}
		if err := w.content(e, &upper); err != nil {
			return nil, failed("read (upper)", t.Path+"/"+c.Path, err)
		}
		if e.Blob != "" {
			shared[object] = i
		}
	}
	return entries, nil
}

// written is what the run left, with the directory open that was asked for last.
type written struct {
	uppers
	dir parent
	of  *upper // that dir is of
}

// at gives the upper directory that has a path.
func (w *written) at(path string) (*upper, error) {
	up, err := w.find(path)
	if err == nil && up != w.of {
		w.close()
		w.of, w.dir = up, parent{open: up.dir}
	}
	return up, err
}

func (w *written) close() { w.dir.close() }

// closed: one object is out of reach for this user. The rest is kept.
func closed(err error) bool { return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) }

// content stores what the run left at a path.
func (w *keeper) content(e *Entry, in *written) error {
	up, err := in.at(e.Path)
	if err != nil {
		return err
	}
	var fd int
	done := func() { _ = unix.Close(fd) }
	switch e.Type {
	case Dir:
		fd, err = up.dir(e.Path)
	case File:
		dir, name := split(e.Path)
		var at int
		if at, err = in.dir.at(dir); err == nil {
			fd, done, err = up.file(at, name)
		}
	default:
		return nil // a symbolic link has no attributes, and specials aren't applied
	}
	if err == nil {
		defer done()
		err = w.xattrs(e, fd)
	}
	if closed(err) {
		e.Unkept = "what the run left there can't be read: " + err.Error()
		return nil
	}
	if err != nil || e.Type != File || e.Kind == ModeOnly || e.Unkept != "" {
		return err
	}
	e.Blob = strconv.Itoa(w.count)
	w.count++
	return w.blob(e, fd)
}

// maxXattrs bounds the attributes of all changes together: they are in memory, and in
// the record.
const maxXattrs = 32 << 20

func (w *keeper) xattrs(e *Entry, fd int) error {
	all, err := xattrs(fd)
	for k, v := range all {
		w.attributes += len(k) + len(v)
	}
	if err == unix.E2BIG || w.attributes > maxXattrs {
		e.Unkept = "its attributes are more than a record holds"
		return nil
	}
	e.Xattrs = all
	return err
}

func (w *keeper) blob(e *Entry, src int) error {
	if err := w.store.at("blob"); err != nil {
		return err
	}
	fd, err := unix.Openat(w.blobs, e.Blob, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	dst := os.NewFile(uintptr(fd), e.Blob)
	defer dst.Close()
	e.Digest, err = copyContent(dst, src, e.Size)
	if errors.Is(err, unix.EFBIG) || errors.Is(err, unix.EINVAL) {
		// A size that the store's file system can't have, made of holes: that one
		// file isn't kept, the rest is.
		e.Unkept, e.Digest, e.Blob = "its size is more than the store can hold", "", ""
		return dst.Truncate(0)
	}
	if err != nil || w.count > fewFiles {
		return err
	}
	return dst.Sync()
}

// base notes what the real tree has at a path.
func (w *keeper) base(e *Entry, lower *parent) error {
	dir, name := split(e.Path)
	at, err := lower.at(dir)
	if gone(err) || err == unix.ELOOP {
		e.Base.Raced = e.Kind != Added
		return nil
	}
	if err != nil {
		return err
	}
	var n node
	e.Base, n, err = look(at, name)
	if err == nil && e.Kind != Deleted && e.Base.Type == e.Type && (e.Type == File || e.Type == Dir) {
		e.Base.Xattrs = attributesAt(at, name)
	}
	// A directory's time changes with every name in it, and those are looked at.
	e.Base.Raced = e.Base.Raced || n.typ != Absent && n.typ != Dir && n.ctime > w.start || e.Base.Type != e.Was
	return err
}

// attributesAt is the digest of a real object's attributes. Those that can't be read
// are none: then diff shows the run's as new.
func attributesAt(dir int, name string) string {
	fd, _, err := openPath(dir, name)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	all, _ := xattrs(fd)
	return digestXattrs(all)
}

// look is what stands at a name, as a base is noted. What changes while it is being
// looked at is raced, and has no content.
func look(dir int, name string) (Base, node, error) {
	n, err := statAt(dir, name)
	if err != nil || n.typ == Absent {
		return Base{}, n, err
	}
	b := Base{Type: n.typ, Mode: n.mode}
	switch n.typ {
	case Symlink:
		b.Mode = 0
		b.Target, err = readLink(dir, name)
		if changing(err) {
			b.Raced, err = true, nil
		}
	case File:
		fd, err2 := openFile(dir, name)
		if err2 == unix.EACCES {
			b.Stamp = fmt.Sprintf("%d %d %d", n.size, n.ino, n.mtime)
			return b, n, nil
		}
		if changing(err2) {
			b.Raced = true
			return b, n, nil
		}
		if err2 != nil {
			return b, n, err2
		}
		defer unix.Close(fd)
		if n, err = statFD(fd); err == nil {
			b.Mode = n.mode
			b.Digest, err = digest(fd, n.size)
		}
		if err == io.ErrUnexpectedEOF {
			b.Digest, b.Raced, err = "", true, nil // it is being written
		}
	}
	return b, n, err
}

// parent keeps the directory open that was asked for last: a list in order asks for
// the same one many times.
type parent struct {
	open func(path string) (int, error)
	path string
	fd   int
	is   bool
}

func (p *parent) at(path string) (int, error) {
	if p.is && p.path == path {
		return p.fd, nil
	}
	p.close()
	fd, err := p.open(path)
	if err != nil {
		return -1, err
	}
	p.path, p.fd, p.is = path, fd, true
	return fd, nil
}

func (p *parent) close() {
	if p.is {
		_ = unix.Close(p.fd)
	}
	p.is = false
}
