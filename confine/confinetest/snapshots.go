package confinetest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/status"
)

// kept are the snapshots in directories that nothing is written to: they stay as long as the backend does.
type kept struct {
	mu  sync.Mutex
	all map[keptAt]map[string]*node
}

type keptAt struct{ dir, id string }

// Kept finds a snapshot that a sandbox of this backend has made in a directory.
func (b *Backend) Kept(dir, id string) (backend.Snapshot, error) {
	b.kept.mu.Lock()
	defer b.kept.mu.Unlock()
	files, ok := b.kept.all[keptAt{dir, id}]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: id, Err: fs.ErrNotExist}
	}
	return &snapshot{id: id, files: files}, nil
}

func (k *kept) keep(dir string, s *snapshot) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil {
		k.all = map[keptAt]map[string]*node{}
	}
	k.all[keptAt{dir, s.id}] = s.files
}

// snapshot is a copy of the files.
type snapshot struct {
	id string

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

// filesOf are those of a snapshot of this backend that was not thrown away.
func filesOf(from backend.Snapshot) (map[string]*node, error) {
	own, ok := from.(*snapshot)
	if !ok {
		return nil, os.ErrInvalid
	}
	own.mu.Lock()
	defer own.mu.Unlock()
	if own.files == nil {
		return nil, os.ErrInvalid
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
	made := &snapshot{id: hex.EncodeToString(id[:]), files: s.files.copy()}
	if dir := s.plan.spec.Snapshots; dir != "" {
		s.backend.kept.keep(dir, made)
	}
	return made, nil
}

func (s *sandbox) Restore(ctx context.Context, from backend.Snapshot) error {
	files, err := filesOf(from)
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
	files := newFiles()
	files.become(s.files.copy())
	return newSandbox(ctx, s.backend, s.plan, files), nil
}

// overlay is the tree that the caller has an overlay of: the current directory, where the policy says so. What is there on the
// host isn't looked at.
func (p plan) overlay() string {
	if p.spec.Policy.Filesystem.Workdir != "overlay" {
		return ""
	}
	return clean(p.spec.Dir)
}

// Changes are the files below the overlay, all of them added. None are kept.
func (s *sandbox) Changes(ctx context.Context, _ string) (*status.Changes, error) {
	if err := errors.Join(s.standing(ctx), s.backend.ChangesErr); err != nil {
		return nil, err
	}
	tree := s.plan.overlay()
	if tree == "" {
		return nil, nil
	}
	c := &status.Changes{Trees: []string{tree}}
	all := s.files.copy()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if strings.HasPrefix(name, strings.TrimSuffix(tree, "/")+"/") {
			c.Added = append(c.Added, name)
			c.Bytes += int64(len(all[name].text))
		}
	}
	c.Counts.Added = len(c.Added)
	return c, nil
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
