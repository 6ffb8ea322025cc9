package layers

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
	"github.com/confine-run/confine/internal/snapshot"
)

// Store is where snapshots are kept: in a directory of the caller's, or in one that goes with the last who holds it.
type Store struct {
	s    *snapshot.Store
	path string
	temp *os.File // the directory, locked; nil: it stays

	mu   sync.Mutex
	refs int // guarded by mu
}

// OpenStore opens the store in a directory.
func OpenStore(dir string) (*Store, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	s, err := snapshot.Open(abs)
	if err != nil {
		return nil, err
	}
	return &Store{s: s, path: abs, refs: 1}, nil
}

// NewTemp makes a store that nobody else knows of. Before that it removes those whose makers were killed.
func NewTemp() (*Store, error) {
	prefix := "confine-snapshots-" + strconv.Itoa(os.Geteuid()) + "-"
	sweep(os.TempDir(), prefix)
	dir, err := os.MkdirTemp("", prefix)
	if err != nil {
		return nil, err
	}
	lock, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		_ = lock.Close()
		return nil, err
	}
	st, err := OpenStore(dir)
	if err != nil {
		_ = lock.Close()
		remove(dir)
		return nil, err
	}
	st.temp = lock
	return st, nil
}

// fresh is longer than it takes to lock what was made.
const fresh = time.Second

// sweep removes what nobody holds any more. It looks at directories of this user's alone, and by descriptor.
func sweep(dir, prefix string) {
	all, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range all {
		if !strings.HasPrefix(e.Name(), prefix) || !e.IsDir() {
			continue
		}
		fd, err := unix.Open(filepath.Join(dir, e.Name()), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		var st unix.Stat_t
		// One that is new may be about to be locked.
		if unix.Fstat(fd, &st) == nil && int(st.Uid) == os.Geteuid() && time.Since(time.Unix(st.Ctim.Unix())) > fresh && unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil {
			remove(filepath.Join(dir, e.Name()))
		}
		_ = unix.Close(fd)
	}
}

// remove removes a directory of ours in one for temporary files.
func remove(dir string) {
	up, err := unix.Open(filepath.Dir(dir), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		_ = linux.RemoveAll(up, filepath.Base(dir), 0)
		_ = unix.Close(up)
	}
}

// Hold is for one more who has it.
func (st *Store) Hold() *Store {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.refs++
	return st
}

// Drop is the end of a Hold. With the last goes a store that is nobody else's.
func (st *Store) Drop() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.refs--; st.refs > 0 {
		return
	}
	_ = st.s.Close()
	if st.temp != nil {
		remove(st.path)
		_ = st.temp.Close()
	}
}

// Kept says whether it stays when nobody holds it any more.
func (st *Store) Kept() bool { return st.temp == nil }

// Find is [snapshot.Store.Find].
func (st *Store) Find(id string) (*snapshot.Info, error) { return st.s.Find(id) }

// Remove is [snapshot.Store.Remove].
func (st *Store) Remove(id string) error { return st.s.Remove(id) }
