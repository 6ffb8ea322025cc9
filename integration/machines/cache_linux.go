package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// cache is a directory of things that never change, because their names hash
// what they are made from.
type cache struct {
	dir  string
	lock *os.File
}

// unused is for how long a thing is kept that nobody asks for.
const unused = 30 * 24 * time.Hour

// openCache waits until nobody else works with it.
func openCache() (*cache, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	c := &cache{dir: filepath.Join(base, "confine-machines")}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return nil, err
	}
	if c.lock, err = os.Create(filepath.Join(c.dir, "lock")); err != nil {
		return nil, err
	}
	if err := unix.Flock(int(c.lock.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("flock %q: %w", c.lock.Name(), err), c.lock.Close())
	}
	return c, nil
}

// close forgets what was not used for long.
func (c *cache) close() error {
	things, err := filepath.Glob(filepath.Join(c.dir, "*", "*"))
	for _, thing := range things {
		st, statErr := os.Stat(thing)
		if statErr == nil && time.Since(st.ModTime()) > unused {
			err = errors.Join(err, os.RemoveAll(thing))
		}
	}
	return errors.Join(err, c.lock.Close())
}

// get is the path of a thing, which make makes when it isn't there: it is given
// a path to make it at.
func (c *cache) get(kind, name string, make func(path string) error) (string, error) {
	path := filepath.Join(c.dir, kind, name)
	now := time.Now()
	if err := os.Chtimes(path, now, now); err == nil {
		return path, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	unfinished := path + ".unfinished"
	if err := os.RemoveAll(unfinished); err != nil {
		return "", err
	}
	if err := make(unfinished); err != nil {
		return "", errors.Join(err, os.RemoveAll(unfinished))
	}
	return path, os.Rename(unfinished, path)
}

// file is a part of a digest that stands for its content.
type file string

// digest is of values and files.
func digest(parts ...any) (string, error) {
	h := sha256.New()
	for _, part := range parts {
		if name, ok := part.(file); ok {
			f, err := os.Open(string(name))
			if err != nil {
				return "", err
			}
			_, err = io.Copy(h, f)
			f.Close()
			if err != nil {
				return "", err
			}
			continue
		}
		text, err := json.Marshal(part)
		if err != nil {
			return "", err
		}
		h.Write(text)
	}
	return hex.EncodeToString(h.Sum(nil))[:24], nil
}
