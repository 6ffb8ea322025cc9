package changes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/hint"
)

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
	return &Store{fd: at, path: dir}, nil
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
