// Package sandboxestest is a store for the snapshots of the mock, which are in memory.
package sandboxestest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"

	"github.com/confine-run/confine/confine/confinetest"
	"github.com/confine-run/confine/internal/sandboxes"
	"github.com/confine-run/confine/internal/snapshot"
)

// SnapshotBytes is what each snapshot takes here.
const SnapshotBytes = 100

// Stores are those of all directories.
type Stores struct {
	Mock *confinetest.Backend
	// NameErr is what naming fails with.
	NameErr error

	mu      sync.Mutex
	names   map[string]map[string]string // by directory, and by name
	removed map[string]bool
	got     map[string][]string // by directory, the IDs of what was imported
}

// Open is for sandboxes.Options.
func (s *Stores) Open(dir string) (sandboxes.Store, error) { return store{s, dir}, nil }

type store struct {
	*Stores
	dir string
}

func (s store) ids() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Concat(s.Mock.KeptIn(s.dir), s.got[s.dir]), func(id string) bool { return s.removed[id] })
}

func (s store) info(id string) *snapshot.Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := &snapshot.Info{ID: id, Size: SnapshotBytes}
	for name, of := range s.names[s.dir] {
		if of == id {
			in.Names = append(in.Names, name)
		}
	}
	return in
}

func (s store) List() (all []snapshot.Info, err error) {
	for _, id := range s.ids() {
		all = append(all, *s.info(id))
	}
	return all, nil
}

func (s store) Find(word string) (*snapshot.Info, error) {
	s.mu.Lock()
	id := s.names[s.dir][word]
	s.mu.Unlock()
	id = cmp.Or(id, word)
	if !slices.Contains(s.ids(), id) {
		return nil, fs.ErrNotExist
	}
	return s.info(id), nil
}

func (s store) Name(name, id string) error {
	if s.NameErr != nil {
		return s.NameErr
	}
	if _, err := s.Find(name); err == nil {
		return snapshot.ErrTaken
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names == nil {
		s.names = map[string]map[string]string{}
	}
	if s.names[s.dir] == nil {
		s.names[s.dir] = map[string]string{}
	}
	s.names[s.dir][name] = id
	return nil
}

func (s store) Remove(id string) error {
	if _, err := s.Find(id); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.removed == nil {
		s.removed = map[string]bool{}
	}
	s.removed[id] = true
	for name, of := range s.names[s.dir] {
		if of == id {
			delete(s.names[s.dir], name)
		}
	}
	return nil
}

// Export writes a line.
func (s store) Export(_ context.Context, id string, w io.Writer) error {
	_, err := fmt.Fprintf(w, "bundle of %s\n", id)
	return err
}

// Import reads one.
func (s store) Import(_ context.Context, r io.Reader, l snapshot.Limits) (id string, err error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return "", err
	}
	if l.Bytes > 0 && int64(len(text)) > l.Bytes {
		return "", snapshot.ErrTooLarge
	}
	if _, err := fmt.Fscanf(bytes.NewReader(text), "bundle of %s\n", &id); err != nil {
		return "", snapshot.ErrBundle
	}
	if id != l.ID && l.ID != "" {
		return "", snapshot.ErrOther
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.got == nil {
		s.got = map[string][]string{}
	}
	if !slices.Contains(s.got[s.dir], id) {
		s.got[s.dir] = append(s.got[s.dir], id)
	}
	return id, nil
}

func (s store) Bytes() (int64, error) { return int64(len(s.ids())) * SnapshotBytes, nil }

func (s store) Close() error { return nil }
