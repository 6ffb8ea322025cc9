package confinetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/status"
)

// kept are the snapshots in directories that nothing is written to: they stay as long as the backend does.
type kept struct {
	mu  sync.Mutex
	all map[keptAt]*snapshot
}

type keptAt struct{ dir, id string }

// Kept finds a snapshot that a sandbox of this backend has made in a directory.
func (b *Backend) Kept(dir, id string) (backend.Snapshot, error) {
	b.kept.mu.Lock()
	defer b.kept.mu.Unlock()
	s, ok := b.kept.all[keptAt{dir, id}]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: id, Err: fs.ErrNotExist}
	}
	return &snapshot{id: id, overlay: s.overlay, files: s.files}, nil
}

func (k *kept) keep(dir string, s *snapshot) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil {
		k.all = map[keptAt]*snapshot{}
	}
	k.all[keptAt{dir, s.id}] = &snapshot{id: s.id, overlay: s.overlay, files: s.files}
}

// snapshot is a copy of the files.
type snapshot struct {
	id      string
	overlay string // of its sandbox

	mu    sync.Mutex
	files map[string]*node // nil: thrown away
}

func (s *snapshot) ID() string { return s.id }

func (s *snapshot) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files = nil
	return nil
}

// filesOf are those of a snapshot of this backend, of a sandbox with the same overlay, that was not thrown away.
func (p plan) filesOf(from backend.Snapshot) (map[string]*node, error) {
	own, ok := from.(*snapshot)
	if !ok {
		return nil, os.ErrInvalid
	}
	own.mu.Lock()
	defer own.mu.Unlock()
	switch {
	case own.files == nil:
		return nil, fs.ErrClosed
	case own.overlay != p.overlay():
		return nil, &config.UsageError{Msg: fmt.Sprintf("the snapshot is of a sandbox with other places: an overlay of %q, and this one has one of %q", own.overlay, p.overlay())}
	}
	return own.files, nil
}

// standing is the answer of a sandbox that has ended.
func (s *sandbox) standing(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.report != nil || s.ctx.Err() != nil {
		return backend.ErrClosed
	}
	return ctx.Err()
}

func (s *sandbox) Snapshot(ctx context.Context) (backend.Snapshot, error) {
	wait(ctx, s.backend.SnapshotDelay)
	if err := errors.Join(s.standing(ctx), s.backend.SnapshotErr); err != nil {
		return nil, err
	}
	var id [32]byte
	_, _ = rand.Read(id[:])
	made := &snapshot{id: hex.EncodeToString(id[:]), overlay: s.plan.overlay(), files: s.files.copy()}
	if dir := s.plan.spec.Snapshots; dir != "" {
		s.backend.kept.keep(dir, made)
	}
	return made, nil
}

func (s *sandbox) Restore(ctx context.Context, from backend.Snapshot) error {
	files, err := s.plan.filesOf(from)
	if err := errors.Join(err, s.standing(ctx), s.backend.RestoreErr); err != nil {
		return err
	}
	s.end(signalled(syscall.SIGKILL))
	s.files.become(files)
	return nil
}

// Fork gives a sandbox with the same files, and no processes.
func (s *sandbox) Fork(ctx context.Context) (backend.Sandbox, error) {
	wait(ctx, s.backend.SnapshotDelay)
	if err := s.standing(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.forks++
	failed := s.backend.ForkErr != nil && s.forks > s.backend.ForksWell
	s.mu.Unlock()
	if failed {
		return nil, s.backend.ForkErr
	}
	files := newFiles(nil)
	files.become(s.files.copy())
	return newSandbox(ctx, s.backend, s.plan, files, s.lower), nil
}

// overlay is the tree that the caller has an overlay of: the current directory, where the policy says so.
func (p plan) overlay() string {
	if p.spec.Policy.Filesystem.Workdir != "overlay" {
		return ""
	}
	return path.Clean(p.spec.Dir)
}

// Bounds of what is read of the caller's tree.
const (
	maxLower     = 10_000
	maxLowerFile = 1 << 20
)

// lowerOf reads the caller's tree into memory: its directories, regular files and links.
func lowerOf(tree string) (map[string]*node, error) {
	all := map[string]*node{}
	if tree == "" {
		return all, nil
	}
	for at := tree; at != path.Dir(at); at = path.Dir(at) {
		all[at] = &node{name: path.Base(at), mode: fs.ModeDir | 0o755}
	}
	err := filepath.WalkDir(tree, func(name string, e fs.DirEntry, err error) error {
		if err != nil || name == tree {
			if errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		n := &node{name: e.Name(), mode: info.Mode(), time: info.ModTime()}
		switch {
		case len(all) >= maxLower || info.Size() > maxLowerFile && info.Mode().IsRegular():
			return fmt.Errorf("%s is more than the mock takes of %s", name, tree)
		case info.Mode().IsRegular():
			n.text, err = os.ReadFile(name)
		case info.Mode()&fs.ModeSymlink != 0:
			var target string
			target, err = os.Readlink(name)
			n.text = []byte(target)
		case !info.IsDir():
			return nil
		}
		all[filepath.ToSlash(name)] = n
		return err
	})
	return all, err
}

// Changes are what is below the overlay otherwise than it was. None are kept.
func (s *sandbox) Changes(ctx context.Context, _ string) (*status.Changes, error) {
	if err := errors.Join(s.standing(ctx), s.backend.ChangesErr); err != nil {
		return nil, err
	}
	return s.changed(), nil
}

func (s *sandbox) changed() *status.Changes {
	tree := s.plan.overlay()
	if tree == "" {
		return nil
	}
	c := &status.Changes{Trees: []string{tree}}
	now := s.files.copy()
	both := maps.Clone(s.lower)
	maps.Copy(both, now)
	for _, name := range slices.Sorted(maps.Keys(both)) {
		if !strings.HasPrefix(name, strings.TrimSuffix(tree, "/")+"/") {
			continue
		}
		was, is := s.lower[name], now[name]
		switch {
		case was == is:
		case was == nil:
			c.Added = append(c.Added, name)
			c.Bytes += int64(len(is.text))
		case is == nil:
			c.Deleted = append(c.Deleted, name)
		case was.mode.Type() == is.mode.Type() && is.mode&fs.ModeSymlink != 0:
			if !bytes.Equal(was.text, is.text) {
				c.Link = append(c.Link, name)
			}
		case was.mode.Type() != is.mode.Type() || !bytes.Equal(was.text, is.text):
			c.Modified = append(c.Modified, name)
			c.Bytes += int64(len(is.text))
		case was.mode != is.mode:
			c.Mode = append(c.Mode, name)
		}
	}
	c.Counts = status.ChangeCounts{Added: len(c.Added), Modified: len(c.Modified), Deleted: len(c.Deleted), Mode: len(c.Mode), Link: len(c.Link)}
	return c
}

// KeptIn are the IDs of the snapshots that were made in a directory.
func (b *Backend) KeptIn(dir string) (all []string) {
	b.kept.mu.Lock()
	defer b.kept.mu.Unlock()
	for at := range b.kept.all {
		if at.dir == dir {
			all = append(all, at.id)
		}
	}
	slices.Sort(all)
	return all
}
