package sandboxes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/review"
	"github.com/confine-run/confine/internal/snapshot"
)

// ErrNoSnapshot is the answer for a snapshot that isn't there, or is somebody else's.
var ErrNoSnapshot = errors.New("there is no such snapshot")

// ErrNoSpace says that the disk that snapshots are kept on has no room for more.
var ErrNoSpace = errors.New("the disk on which snapshots are kept is full")

// spaceOf says so of an error, if that is its cause.
func spaceOf(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return ErrNoSpace
	}
	return err
}

// Store keeps the snapshots in a directory, as a *snapshot.Store does.
type Store interface {
	List() ([]snapshot.Info, error)
	Find(word string) (*snapshot.Info, error)
	Name(name, id string) error
	Remove(id string) error
	Export(ctx context.Context, id string, w io.Writer) error
	Import(ctx context.Context, r io.Reader, l snapshot.Limits) (id string, err error)
	// Bytes is what all of them take.
	Bytes() (int64, error)
	Close() error
}

// Snapshots are those of an owner. They are in a directory of the owner's own: nothing that somebody asks for leads into another's, and
// nothing is shared that could tell what another has.
type Snapshots struct {
	m     *Manager
	owner Owner
}

// Snapshots are those of an owner.
func (m *Manager) Snapshots(owner Owner) Snapshots { return Snapshots{m, owner} }

func (h Snapshots) dir() string { return SnapshotDir(h.m.opts.Snapshots, h.owner) }

// SnapshotDir is where, below a directory of Options, the snapshots of an owner are.
func SnapshotDir(dir string, owner Owner) string {
	sum := sha256.Sum256([]byte(owner))
	return filepath.Join(dir, hex.EncodeToString(sum[:16]))
}

// open opens the owner's store. Where there is none yet, make says whether one is made; else it is ErrNoSnapshot.
func (h Snapshots) open(make bool) (Store, error) {
	if h.m.opts.Snapshots == "" {
		return nil, &config.UsageError{Msg: "no snapshots are kept here", Hint: "name a directory by XDG_STATE_HOME, or by confine serve --state"}
	}
	if h.m.opts.OpenStore != nil {
		return h.m.opts.OpenStore(h.dir())
	}
	if _, err := os.Lstat(h.dir()); errors.Is(err, fs.ErrNotExist) && !make {
		return nil, ErrNoSnapshot
	}
	s, err := snapshot.Open(h.dir())
	if err != nil {
		return nil, spaceOf(err)
	}
	return s, nil
}

// List gives the owner's, the newest first.
func (h Snapshots) List() ([]snapshot.Info, error) {
	s, err := h.open(false)
	if errors.Is(err, ErrNoSnapshot) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return s.List()
}

// found is a snapshot by its ID or name, in a store that is open until it is closed.
func (h Snapshots) found(word string) (Store, *snapshot.Info, error) {
	s, err := h.open(false)
	if err != nil {
		return nil, nil, err
	}
	in, err := s.Find(word)
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrNoSnapshot
	}
	if err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	return s, in, nil
}

// Find gives the snapshot of a name or an ID.
func (h Snapshots) Find(word string) (*snapshot.Info, error) {
	s, in, err := h.found(word)
	if err != nil {
		return nil, err
	}
	return in, s.Close()
}

// Export writes a snapshot as a bundle.
func (h Snapshots) Export(ctx context.Context, id string, w io.Writer) error {
	s, in, err := h.found(id)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Export(ctx, in.ID, w)
}

// Remove throws a snapshot away. Sandboxes that began with it go on.
func (h Snapshots) Remove(word string) error {
	s, in, err := h.found(word)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Remove(in.ID)
}

// Import takes a bundle, which has to be that of an ID (else snapshot.ErrOther). made is false if it was there.
func (h Snapshots) Import(ctx context.Context, id string, r io.Reader) (in *snapshot.Info, made bool, err error) {
	if !snapshot.ValidID(id) {
		return nil, false, &config.UsageError{Msg: "that is no ID of a snapshot", Hint: "it is what GET /v1/snapshots says: 64 hexadecimal digits"}
	}
	if in, err := h.Find(id); err == nil {
		return in, false, nil
	}
	w, err := h.room()
	if err != nil {
		return nil, false, err
	}
	defer w.done()
	if _, err := w.store.Import(ctx, r, snapshot.Limits{Bytes: w.room, ID: id}); err != nil {
		return nil, false, spaceOf(err)
	}
	if err := w.fits(); err != nil {
		return nil, false, errors.Join(err, w.remove(id))
	}
	in, err = w.store.Find(id)
	return in, true, err
}

// shelf counts what is being written of an owner's.
type shelf struct {
	mu      sync.Mutex
	writing int
}

// maxWriting is how many snapshots of one owner are written at once.
const maxWriting = 4

// writer writes one snapshot of an owner's.
type writer struct {
	of     Snapshots
	shelf  *shelf
	store  Store
	before []string // IDs of those that were there
	room   int64    // bytes; 0: any number
}

// room is for one more snapshot.
func (h Snapshots) room() (*writer, error) {
	h.m.mu.Lock()
	s := h.m.shelves[h.owner]
	if s == nil {
		s = &shelf{}
		h.m.shelves[h.owner] = s
	}
	h.m.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writing >= maxWriting {
		return nil, &QuotaError{What: "snapshots of this owner that are being written", Max: maxWriting}
	}
	store, err := h.open(true)
	if err != nil {
		return nil, err
	}
	w := &writer{of: h, shelf: s, store: store}
	if err := w.look(); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	s.writing++
	return w, nil
}

// look finds out how much there is.
func (w *writer) look() error {
	all, err := w.store.List()
	if err != nil {
		return err
	}
	for i := range all {
		w.before = append(w.before, all[i].ID)
	}
	o := &w.of.m.opts
	if o.MaxSnapshots > 0 && len(all)+w.shelf.writing >= o.MaxSnapshots {
		return &QuotaError{What: "snapshots of this owner", Max: o.MaxSnapshots}
	}
	if o.MaxSnapshotBytes > 0 {
		used, err := w.store.Bytes()
		if err != nil {
			return err
		}
		if w.room = o.MaxSnapshotBytes - used; w.room <= 0 {
			return w.full()
		}
	}
	return nil
}

func (w *writer) full() error {
	return &QuotaError{What: "bytes of snapshots of this owner", Max: int(w.of.m.opts.MaxSnapshotBytes)}
}

func (w *writer) done() {
	w.shelf.mu.Lock()
	defer w.shelf.mu.Unlock()
	w.shelf.writing--
	_ = w.store.Close()
}

// remove takes back what was written, unless it was there before.
func (w *writer) remove(id string) error {
	if slices.Contains(w.before, id) {
		return nil
	}
	return w.store.Remove(id)
}

// fits refuses what was written if it is too much: how much it would be nobody knew before.
func (w *writer) fits() error {
	if w.of.m.opts.MaxSnapshotBytes == 0 {
		return nil
	}
	used, err := w.store.Bytes()
	if err == nil && used > w.of.m.opts.MaxSnapshotBytes {
		err = w.full()
	}
	return err
}

// kept gives a snapshot of the owner's to a backend.
func (h Snapshots) kept(b backend.Backend, word string) (backend.Snapshot, error) {
	keeper, ok := b.(backend.Keeper)
	if !ok {
		return nil, fmt.Errorf("snapshots with the backend %s: %w", b.Name(), errors.ErrUnsupported)
	}
	in, err := h.Find(word)
	if err != nil {
		return nil, err
	}
	kept, err := keeper.Kept(h.dir(), in.ID)
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrNoSnapshot
	}
	return kept, err
}

// Snapshot writes the files of the sandbox down, and names what was written unless name is empty. What runs goes on, and isn't in it.
func (s *Sandbox) Snapshot(ctx context.Context, name string) (*snapshot.Info, error) {
	return s.manager.Snapshots(s.Owner).write(ctx, s, name, boxOf(s).Snapshot)
}

// write has take write a sandbox down.
func (h Snapshots) write(ctx context.Context, s *Sandbox, name string, take func(context.Context) (backend.Snapshot, error)) (*snapshot.Info, error) {
	defer s.Use()()
	w, err := h.room()
	if err != nil {
		return nil, err
	}
	defer w.done()
	if name != "" {
		if !snapshot.ValidName(name) {
			return nil, &config.UsageError{Msg: fmt.Sprintf("%.100q is no name of a snapshot", name),
				Hint: "it takes letters, digits and ._- after a letter or digit, at most 64, and can't look like an ID"}
		}
		if _, err := w.store.Find(name); err == nil {
			return nil, fmt.Errorf("%s: %w", name, snapshot.ErrTaken)
		}
	}
	made, err := take(ctx)
	if err != nil {
		return nil, spaceOf(err)
	}
	id := made.ID()
	err = made.Close()
	if err == nil {
		err = w.fits()
	}
	if err == nil && name != "" {
		err = w.store.Name(name, id)
	}
	if err != nil {
		return nil, errors.Join(err, w.remove(id))
	}
	return w.store.Find(id)
}

// Restore makes the files what they were in a snapshot of the owner's. What runs ends.
func (s *Sandbox) Restore(ctx context.Context, word string) error {
	defer s.Use()()
	from, err := s.manager.Snapshots(s.Owner).kept(s.backend, word)
	if err != nil {
		return err
	}
	return errors.Join(boxOf(s).Restore(ctx, from), from.Close())
}

// Review looks at what was changed in trees of which the caller has overlays. Until it is closed that is kept in a directory of kept runs.
func (s *Sandbox) Review(ctx context.Context, keep string) (*review.Review, error) {
	defer s.Use()()
	_, _, agreed := askedOf(s)
	return review.Take(ctx, boxOf(s), keep, agreed)
}

// Dir is the directory of the caller's that it is about.
func (s *Sandbox) Dir() string { return s.dir }
