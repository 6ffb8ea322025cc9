package changes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/linux"
)

const (
	manifestName = "manifest.json"
	blobsName    = "blobs"
	unfinished   = ".unfinished-"
	// maxManifest bounds what is read into memory.
	maxManifest = 1 << 30
)

// Store keeps runs, each in a directory of its id.
type Store struct {
	// OnRecovered is called with each interrupted apply that was brought to an end.
	OnRecovered func(Recovered)
	// Waiting is called once when Apply, Discard or Recover waits for another one of them
	// for more than a moment.
	Waiting func()

	fd        int
	path      string
	recovered map[string]Recovered
	hook      func(point string) error // of tests: before every change to a disk
	// A wait is told after silence, and ends after patience.
	silence, patience time.Duration
}

func (s *Store) at(point string) error {
	if s.hook == nil {
		return nil
	}
	return s.hook(point)
}

// Run is a kept run.
type Run struct {
	m    *manifest
	fd   int
	path string
}

// Close closes the run.
func (r *Run) Close() error { return unix.Close(r.fd) }

func (r *Run) openBlobs() (int, error) {
	fd, err := unix.Openat(r.fd, blobsName, dirFlags|unix.O_CLOEXEC, 0)
	return fd, failed("open", r.path+"/"+blobsName, err)
}

// Open opens a kept run.
func (s *Store) Open(id string) (*Run, error) { return s.open(id, parseManifest) }

// open opens a kept run with as much of its record as parse reads; nil reads none.
func (s *Store) open(id string, parse func(io.Reader) (*manifest, error)) (*Run, error) {
	if !validID(id) || s.empty() {
		return nil, fmt.Errorf("%s: %w", Quote(id), ErrNoRun)
	}
	fd, err := unix.Openat(s.fd, id, dirFlags|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT {
		if s.recovered[id].Finished {
			return nil, fmt.Errorf("run %s %w: its apply had been committed when it was interrupted, and is finished now", id, errApplied)
		}
		return nil, fmt.Errorf("%s: %w", id, ErrNoRun)
	}
	path := s.path + "/" + id
	if err != nil {
		return nil, failed("open", path, err)
	}
	r := &Run{fd: fd, path: path, m: &manifest{ID: id}}
	if parse == nil {
		return r, nil
	}
	if r.m, err = readRecord(fd, parse); err == nil && r.m.ID != id {
		err = fmt.Errorf("it is the record of %s", r.m.ID)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, &BrokenError{id, failed("read", path+"/"+manifestName, err)}
	}
	return r, nil
}

// ids are the kept runs, the newest first.
func (s *Store) ids() ([]string, error) {
	if s.empty() {
		return nil, nil
	}
	var all []string
	err := names(s.fd, func(name string) error {
		if validID(name) {
			all = append(all, name)
		}
		return nil
	})
	slices.Sort(all)
	slices.Reverse(all)
	return all, failed("readdir", s.path, err)
}

// List lists the kept runs, the newest first.
func (s *Store) List() ([]Info, error) {
	if err := s.sweep(); err != nil {
		return nil, err
	}
	ids, err := s.ids()
	if err != nil {
		return nil, err
	}
	all := make([]Info, 0, len(ids))
	for _, id := range ids {
		r, err := s.open(id, parseHead)
		if errors.Is(err, ErrNoRun) {
			continue // it went meanwhile
		}
		if err != nil {
			all = append(all, Info{ID: id, Err: err})
			continue
		}
		all = append(all, r.Info())
		_ = r.Close()
	}
	return all, nil
}

// Latest opens the newest run that changed a tree which about says, of all with nil;
// ErrNoRun if there is none.
func (s *Store) Latest(about func(tree string) bool) (*Run, error) {
	ids, err := s.ids()
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		r, err := s.Open(id)
		switch {
		case errors.Is(err, ErrNoRun): // discarded meanwhile
		case err != nil:
			return nil, err
		case about == nil || slices.ContainsFunc(r.m.Trees, func(t keptTree) bool { return about(t.Path) }):
			return r, nil
		default:
			_ = r.Close()
		}
	}
	return nil, ErrNoRun
}

// Discard drops the changes at and below paths, all without paths, and says how
// many. A run without changes goes away, and without paths one whose record can't be read.
func (s *Store) Discard(id string, paths ...string) (int, error) {
	if s.empty() {
		_, err := s.Open(id)
		return 0, err
	}
	unlock, err := s.lock(context.Background())
	if err != nil {
		return 0, err
	}
	defer unlock()
	if err := s.sweep(); err != nil {
		return 0, err
	}
	if _, err := s.recoverOne(id); err != nil {
		return 0, err
	}
	r, err := s.Open(id)
	if _, ok := errors.AsType[*BrokenError](err); ok && len(paths) == 0 {
		return 0, s.forget(id)
	}
	if err != nil {
		return 0, err
	}
	defer r.Close()
	drop, err := r.m.match(paths)
	if err != nil {
		return 0, err
	}
	return len(drop), s.shorten(r, func(i int) bool { return drop[i] }, false)
}

// shorten takes entries out of the record, which were applied or not, and then their blobs out
// of the store.
func (s *Store) shorten(r *Run, drop func(i int) bool, applied bool) error {
	keep := r.m.without(drop, applied)
	if len(keep) == 0 {
		return s.forget(r.m.ID)
	}
	used := map[string]bool{}
	for _, e := range keep {
		used[e.Blob] = true
	}
	was := r.m.Changes
	r.m.Changes, r.m.linked = keep, nil
	if err := s.writeFile(r.fd, manifestName, r.m.write); err != nil {
		r.m.Changes, r.m.linked = was, nil
		return failed("write", r.path+"/"+manifestName, err)
	}
	blobs, err := r.openBlobs()
	if err != nil {
		return err
	}
	defer unix.Close(blobs)
	for _, e := range was {
		if e.Blob == "" || used[e.Blob] {
			continue
		}
		if err := unix.Unlinkat(blobs, e.Blob, 0); err != nil && err != unix.ENOENT {
			return failed("unlink", r.path+"/"+blobsName+"/"+e.Blob, err)
		}
	}
	return nil
}

// forget removes a run. It stops being one at the rename.
func (s *Store) forget(id string) error {
	if err := s.at("forget"); err != nil {
		return err
	}
	gone := unfinished + id
	if err := unix.Renameat(s.fd, id, s.fd, gone); err != nil {
		return failed("rename", s.path+"/"+id, err)
	}
	return failed("rmdir", s.path+"/"+gone, linux.RemoveAll(s.fd, gone, 0))
}

// sweep removes what an interrupted Keep left: its lock is gone with its process.
func (s *Store) sweep() error {
	if s.empty() {
		return nil
	}
	var left []string
	err := names(s.fd, func(name string) error {
		if strings.HasPrefix(name, unfinished) {
			left = append(left, name)
		}
		return nil
	})
	if err != nil {
		return failed("readdir", s.path, err)
	}
	for _, name := range left {
		fd, err := unix.Openat(s.fd, name, dirFlags|unix.O_CLOEXEC, 0)
		if err != nil {
			continue // gone, or nothing of ours
		}
		if linux.Flock(fd, unix.LOCK_EX) == nil {
			err = linux.RemoveAll(s.fd, name, 0)
		}
		_ = unix.Close(fd)
		if err != nil {
			return failed("rmdir", s.path+"/"+name, err)
		}
	}
	return nil
}

func readRecord(dir int, parse func(io.Reader) (*manifest, error)) (*manifest, error) {
	fd, err := openFile(dir, manifestName)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), manifestName)
	defer f.Close()
	return parse(io.LimitReader(f, maxManifest))
}

// writeFile makes or replaces a file at once, and on the disk when it returns.
func (s *Store) writeFile(dir int, name string, write func(io.Writer) error) error {
	temp := name + ".new"
	if err := s.at("write " + name); err != nil {
		return err
	}
	fd, err := unix.Openat(dir, temp, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), temp)
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if err2 := f.Close(); err == nil {
		err = err2
	}
	if err == nil {
		err = s.at("rename " + name)
	}
	if err == nil {
		err = unix.Renameat(dir, temp, dir, name)
	}
	if err != nil {
		_ = unix.Unlinkat(dir, temp, 0)
		return err
	}
	return unix.Fsync(dir)
}

// OpenStore opens the directory that StoreDir names, and makes it if need be.
func OpenStore(dir string) (*Store, error) {
	if err := os.MkdirAll(filepath.Dir(filepath.Dir(dir)), 0o700); err != nil {
		return nil, err
	}
	return openStore(dir, true)
}

// FindStore opens it and makes nothing: one that isn't there keeps no runs.
func FindStore(dir string) (*Store, error) {
	s, err := openStore(dir, false)
	if errors.Is(err, unix.ENOENT) {
		return &Store{fd: -1, path: dir}, nil
	}
	return s, err
}

func openStore(dir string, create bool) (*Store, error) {
	state := filepath.Dir(filepath.Dir(dir))
	at, err := unix.Open(state, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, failed("open", state, err)
	}
	for _, path := range []string{filepath.Dir(dir), dir} {
		next, err := openOwn(at, filepath.Base(path), path, create)
		_ = unix.Close(at)
		if err != nil {
			return nil, err
		}
		at = next
	}
	return &Store{fd: at, path: dir, silence: time.Second, patience: 30 * time.Second}, nil
}

// openOwn opens a directory that belongs to this user alone.
func openOwn(at int, name, path string, create bool) (int, error) {
	if create {
		if err := unix.Mkdirat(at, name, 0o700); err != nil && err != unix.EEXIST {
			return -1, failed("mkdir", path, err)
		}
	}
	fd, err := unix.Openat(at, name, dirFlags|unix.O_CLOEXEC, 0)
	if err == unix.ENOTDIR || err == unix.ELOOP {
		if n, err2 := statAt(at, name); err2 == nil && n.typ == Symlink {
			return -1, failed("open", path, hint.With(fmt.Errorf("%w: it is a symbolic link, and none is followed here", unix.ELOOP),
				"put a directory in its place, or set XDG_STATE_HOME to where runs are to be kept"))
		}
	}
	if err != nil {
		return -1, failed("open", path, err)
	}
	n, err := statFD(fd)
	if err == nil && (n.uid != uint32(os.Geteuid()) || n.mode&0o022 != 0) {
		err = hint.With(fmt.Errorf("it belongs to uid %d with mode %04o, and has to be this user's (%d) and writable by nobody else", n.uid, n.mode, os.Geteuid()),
			"chmod 700 it, or set XDG_STATE_HOME")
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, failed("open", path, err)
	}
	return fd, nil
}

// Close closes the store.
func (s *Store) Close() error {
	if s.empty() {
		return nil
	}
	return unix.Close(s.fd)
}

// empty: there is no such directory.
func (s *Store) empty() bool { return s.fd < 0 }

const lockName = ".lock"

// lock holds the store for applying and discarding. It waits for who has it, until ctx
// ends, and not for ever. It asks again and again, since a call that waits would hear nothing of
// the end of ctx.
func (s *Store) lock(ctx context.Context) (unlock func(), err error) {
	fd, err := unix.Openat(s.fd, lockName, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, failed("open", s.path+"/"+lockName, err)
	}
	began, told := time.Now(), false
	for {
		if err = linux.Flock(fd, unix.LOCK_EX); err == nil {
			return func() { _ = unix.Close(fd) }, nil
		}
		waited := time.Since(began)
		if err != unix.EWOULDBLOCK {
			err = failed("flock", s.path+"/"+lockName, err)
		} else if err = context.Cause(ctx); err == nil && waited >= s.patience {
			err = ErrBusy
		}
		if err != nil {
			_ = unix.Close(fd)
			return nil, err
		}
		if !told && waited >= s.silence && s.Waiting != nil {
			told = true
			s.Waiting()
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}
