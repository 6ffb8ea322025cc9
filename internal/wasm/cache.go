package wasm

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Cache is a directory with what modules were compiled to: a directory for each module, by the digest of its text. Runs see it
// read-only, and of all that is in it a run takes what is under its own module's name.
type Cache struct {
	Dir string
	// Compile writes what a module is compiled to, as "confine-wasm compile" does: hostile text is looked at in a sandbox.
	Compile func(ctx context.Context, module io.Reader, to io.Writer) error
}

// Bounds of a cache: the oldest go when there is more.
const (
	maxCached  = 100
	maxBytes   = 1 << 30
	maxEntry   = 512 << 20 // of one module
	maxModule  = 256 << 20
	cacheWords = 200 // of a file's name
	// maxCompiling is how many modules a process has compiled at once. That is beside the limits of the runs that want it; who comes
	// meanwhile has its module compiled by the engine, in its own run and below its own limits.
	maxCompiling = 2
)

var compiling atomic.Int32

var errBusy = errors.New("enough other modules are being compiled")

// Entry gives the directory for a module, and has it compiled if nobody did. f is read from its beginning, and stays where it is
// known by identity; "" knows nothing.
func (c *Cache) Entry(ctx context.Context, f io.ReaderAt, size int64, identity string) (dir string, err error) {
	if size > maxModule {
		return "", errors.New("the module is too large to be kept")
	}
	if err := c.Make(); err != nil {
		return "", err
	}
	known := ""
	if identity != "" {
		sum := sha256.Sum256([]byte(identity))
		known = filepath.Join(c.Dir, "files", hex.EncodeToString(sum[:]))
		if digest, err := os.ReadFile(known); err == nil && len(digest) == 2*sha256.Size {
			if dir = filepath.Join(c.Dir, string(digest)); there(dir) {
				return dir, nil
			}
		}
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, size)); err != nil {
		return "", err
	}
	digest := hex.EncodeToString(h.Sum(nil))
	if dir = filepath.Join(c.Dir, digest); !there(dir) {
		if err := c.add(ctx, dir, io.NewSectionReader(f, 0, size)); err != nil {
			return "", err
		}
	}
	if known != "" {
		_ = os.MkdirAll(filepath.Dir(known), 0o700)
		_ = writeWhole(known, strings.NewReader(digest))
	}
	return dir, nil
}

// Make makes the directory, and refuses one that somebody else can have put something into.
func (c *Cache) Make() error {
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return err
	}
	if !c.There() {
		return &fs.PathError{Op: "open", Path: c.Dir, Err: errForeign}
	}
	return nil
}

// There says whether the directory is there, and nobody else can have put something into it.
func (c *Cache) There() bool {
	info, err := os.Lstat(c.Dir)
	return err == nil && info.IsDir() && private(info)
}

var errForeign = errors.New("somebody else owns it or can write to it")

func there(dir string) bool {
	info, err := os.Lstat(dir)
	return err == nil && info.IsDir()
}

// compiled splits a name that the engine's library may give to what it keeps: a directory of its version, and a digest.
func compiled(name string) (dir, file string, ok bool) {
	dir, file, _ = strings.Cut(name, "/")
	odd := func(r rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789.+-", r) }
	digest, err := hex.DecodeString(file)
	return dir, file, strings.HasPrefix(dir, "wazero-") && strings.IndexFunc(dir, odd) < 0 && err == nil && len(digest) == sha256.Size
}

// add has a module compiled. It is there as a whole or not at all.
func (c *Cache) add(ctx context.Context, dir string, module io.Reader) error {
	defer compiling.Add(-1)
	if compiling.Add(1) > maxCompiling {
		return errBusy
	}
	c.prune()
	temp, err := os.MkdirTemp(c.Dir, "new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := c.Compile(ctx, module, w)
		_ = w.CloseWithError(err)
		done <- err
	}()
	err = unpack(temp, r)
	_ = r.CloseWithError(err)
	if failed := <-done; failed != nil {
		return failed
	}
	if err != nil {
		return err
	}
	err = os.Rename(temp, dir)
	if errors.Is(err, fs.ErrExist) { // another run was faster
		err = nil
	}
	return err
}

// unpack writes what the compiler gives. It is a hostile program's by then: one file, with a name of the form that is known.
func unpack(dir string, from io.Reader) error {
	text := bufio.NewReaderSize(from, 64<<10)
	name, err := text.ReadString('\n')
	if err != nil || len(name) > cacheWords {
		return errors.Join(errors.New("the compiler gave nothing to keep"), err)
	}
	of, file, ok := compiled(strings.TrimSuffix(name, "\n"))
	if !ok {
		return errors.New("the compiler gave something to keep that is nothing of its own")
	}
	if err := os.Mkdir(filepath.Join(dir, of), 0o700); err != nil {
		return err
	}
	return writeWhole(filepath.Join(dir, of, file), text)
}

func writeWhole(name string, from io.Reader) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".new-")
	if err != nil {
		return err
	}
	n, err := io.Copy(f, io.LimitReader(from, maxEntry+1))
	if err == nil && n > maxEntry {
		err = errors.New("what the module was compiled to is too large: more than " + strconv.Itoa(maxEntry) + " bytes")
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// stale is when what is being added is taken for left by somebody who was killed.
const stale = 10 * time.Minute

// prune removes the oldest until there is room for one more.
func (c *Cache) prune() {
	type entry struct {
		name string
		size int64
		at   time.Time
	}
	all, err := os.ReadDir(c.Dir)
	if err != nil {
		return
	}
	var entries []entry
	total := int64(0)
	for _, d := range all {
		info, err := d.Info()
		if err != nil {
			continue
		}
		path := filepath.Join(c.Dir, d.Name())
		switch {
		case strings.HasPrefix(d.Name(), "new-") && time.Since(info.ModTime()) > stale:
			_ = os.RemoveAll(path)
		case len(d.Name()) == 2*sha256.Size:
			size := int64(0)
			_ = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
				if err == nil && d.Type().IsRegular() {
					if info, err := d.Info(); err == nil {
						size += info.Size()
					}
				}
				return nil
			})
			total += size
			entries = append(entries, entry{path, size, info.ModTime()})
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return a.at.Compare(b.at) })
	for i := 0; i < len(entries) && (len(entries)-i >= maxCached || total > maxBytes); i++ {
		total -= entries[i].size
		_ = os.RemoveAll(entries[i].name)
	}
	// Files that are known are few bytes each; without them a module is read once more.
	if known, err := os.ReadDir(filepath.Join(c.Dir, "files")); err == nil && len(known) > 10*maxCached {
		_ = os.RemoveAll(filepath.Join(c.Dir, "files"))
	}
}
