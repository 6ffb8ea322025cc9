package sandboxes

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/places"
	"github.com/confine-run/confine/internal/review"
)

// Owner is somebody who has sandboxes: a user of the system, or whoever holds a token. Nobody sees what is another's.
type Owner string

// Options of a manager. Its zero value is a manager without bounds of its own.
type Options struct {
	// Backend builds what a policy asks for.
	Backend func(p *config.Policy) backend.Backend
	// Max is how many sandboxes there are at one time, MaxPerOwner how many of one owner: from before one is built until nothing of it is
	// left. 0: any number.
	Max, MaxPerOwner int
	// Wait is how long somebody waits for one of Max, in turn with other owners. 0: nobody waits.
	Wait time.Duration
	// MaxRunning is how many processes run in all sandboxes, of one owner three quarters of them. 0: any number.
	MaxRunning int
	// Snapshots is a directory below which each owner has one for snapshots; empty: none are kept.
	Snapshots string
	// MaxSnapshots is how many snapshots an owner has, MaxSnapshotBytes how many bytes they take. 0: any number.
	MaxSnapshots     int
	MaxSnapshotBytes int64
	// OpenStore opens a directory of snapshots; nil: that of package snapshot.
	OpenStore func(dir string) (Store, error)
	// Opened, if not nil, is told of each sandbox before whoever asked for it. One for which it has an error is closed.
	Opened func(*Sandbox) error
	// LogBytes is about what the log of one process, and of one sandbox, keeps. 0: 1 MiB.
	LogBytes int
}

// Bounds of tombstones.
const (
	tombstoneAge    = 24 * time.Hour
	maxTombstones   = 1000
	tombstonesBytes = 64 << 20 // of what was written in them, and reports; the newest has its own beside
)

// ErrNotFound is the answer for what isn't there, or is somebody else's.
var ErrNotFound = errors.New("there is no such sandbox")

// ErrClosing is the answer of a manager that is being closed to whoever wants another sandbox.
var ErrClosing = fmt.Errorf("whoever keeps the sandboxes is ending, and opens none any more: %w", backend.ErrClosed)

// QuotaError says that there are too many.
type QuotaError struct {
	What   string // "sandboxes", "sandboxes of this owner", …
	Max    int
	Waited time.Duration // so long, and there still were; 0: nobody waits for this
}

func (e *QuotaError) Error() string {
	if e.Waited > 0 {
		return fmt.Sprintf("there are %d %s, and none has ended for somebody who has waited for %v", e.Max, e.What, e.Waited)
	}
	return fmt.Sprintf("there may be %d %s, and not more", e.Max, e.What)
}

// TakenError says that a sandbox of the owner's has that name.
type TakenError struct{ Name string }

func (e *TakenError) Error() string { return fmt.Sprintf("there is a sandbox named %q", e.Name) }

// Manager keeps sandboxes. Its methods may be called from any goroutine.
type Manager struct {
	opts   Options
	places *places.Places // of Max
	ctx    context.Context
	cancel context.CancelFunc

	mu         sync.Mutex
	all        map[string]*Sandbox // by ID: those that stand, and tombstones
	tombstones []*Sandbox          // in the order of their ends
	building   map[Owner][]string  // the names of those that are being built; "" has none
	shelves    map[Owner]*shelf    // of those who write snapshots
	running    map[Owner]int       // processes
	closed     bool
	ending     sync.WaitGroup // of sandboxes that stand or are being built
}

// New makes a manager.
func New(o Options) *Manager {
	o.LogBytes = cmp.Or(o.LogBytes, 1<<20)
	ctx, cancel := context.WithCancel(context.Background())
	return &Manager{opts: o, places: places.New(o.Max), ctx: ctx, cancel: cancel, all: map[string]*Sandbox{}, building: map[Owner][]string{}, shelves: map[Owner]*shelf{}, running: map[Owner]int{}}
}

// Waiting is how many wait for room.
func (m *Manager) Waiting() int { return m.places.Waiting() }

// Request is what somebody wants.
type Request struct {
	Spec   *backend.Spec
	Name   string // by which the owner finds it, too; empty: none
	Labels map[string]string
	Env    []string // K=V, of all its processes
	Origin []byte   // how it would be asked for elsewhere; nil: nobody knows
	From   string   // the ID or the name of a snapshot of the owner's that it begins with; empty: none
	// Lifetime is when it ends, whatever happens; Idle is how long it stays when no process runs and nobody asks for it. 0: for ever.
	Lifetime, Idle time.Duration
	// Open, if not nil, gives a sandbox of Spec that is there already, and ends with ctx. Whoever ends it doesn't wait for that.
	Open func(ctx context.Context) (backend.Sandbox, error)
}

// newID is a name that nobody guesses.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:]))
}

// Create opens a sandbox. ctx bounds its building only. An error is a *config.UsageError, a *QuotaError, ErrNoSnapshot, or a
// *backend.BuildError that has the report of what could not be built.
func (m *Manager) Create(ctx context.Context, owner Owner, r Request) (*Sandbox, error) {
	room, err := m.reserve(owner, r.Name, 1)
	if err != nil {
		return nil, err
	}
	defer room.free()
	if err := room.wait(ctx); err != nil {
		return nil, err
	}
	b := m.opts.Backend(r.Spec.Policy)
	spec := *r.Spec
	if m.opts.Snapshots != "" {
		spec.Snapshots = m.Snapshots(owner).dir()
	}
	if r.From != "" {
		from, err := m.Snapshots(owner).kept(b, r.From)
		if err != nil {
			return nil, err
		}
		defer from.Close()
		spec.From = from
	}
	built, err := m.build(ctx, func(life context.Context) (backend.Sandbox, error) {
		if r.Open != nil && r.From == "" {
			box, err := r.Open(life)
			if shelver, ok := backend.As[backend.Shelver](box); ok && err == nil && spec.Snapshots != "" {
				shelver.ShelveIn(spec.Snapshots)
			}
			return box, err
		}
		box, failed, err := backend.Open(life, b, &spec)
		if failed != nil {
			err = &backend.BuildError{Report: failed}
		}
		return box, err
	})
	if err != nil {
		return nil, err
	}
	built.backend, built.policy, built.dir, built.agreed = b, spec.Policy, spec.Dir, &review.Agreed{}
	all, err := m.add(room, r, built)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// maxForks is how many forks are made at once.
const maxForks = 256

// Fork opens so many sandboxes that are as one is now, without its processes: all of them, or with an error none. Each has an ID and a
// lifetime of its own; what r says nothing about, they have of that one. Its Spec and From are not looked at.
func (m *Manager) Fork(ctx context.Context, from *Sandbox, n int, r Request) ([]*Sandbox, error) {
	switch {
	case n < 1:
		return nil, &config.UsageError{Msg: "the number of forks is below 1"}
	case n > maxForks:
		return nil, &QuotaError{What: "forks at once", Max: maxForks}
	case n > 1 && r.Name != "":
		return nil, &config.UsageError{Msg: "a name is of one fork alone"}
	}
	room, err := m.reserve(from.Owner, r.Name, n)
	if err != nil {
		return nil, err
	}
	defer room.free()
	if room.places = m.places.Try(n); room.places == nil {
		return nil, &QuotaError{What: "sandboxes", Max: m.opts.Max}
	}
	defer from.Use()()
	env, origin, agreed := askedOf(from)
	if r.Env == nil {
		r.Env = env
	}
	r.Origin = origin
	if r.Labels == nil {
		r.Labels = from.Labels()
	}
	var all []built
	for range n {
		one, err := m.build(ctx, boxOf(from).Fork)
		if err != nil {
			for _, b := range all {
				b.drop()
			}
			return nil, err
		}
		one.backend, one.policy, one.dir, one.agreed = from.backend, from.Policy(), from.dir, agreed.Clone()
		all = append(all, one)
	}
	return m.add(room, r, all...)
}

// built is a sandbox that nobody has yet.
type built struct {
	box     backend.Sandbox
	end     context.CancelFunc // of its life
	backend backend.Backend
	policy  *config.Policy
	dir     string
	agreed  *review.Agreed
}

func (b *built) drop() {
	_, _ = b.box.Close()
	b.end()
}

// build builds a sandbox that ends with the manager, and isn't built when ctx has ended before.
func (m *Manager) build(ctx context.Context, do func(life context.Context) (backend.Sandbox, error)) (built, error) {
	life, end := context.WithCancel(m.ctx)
	abandoned := context.AfterFunc(ctx, end)
	box, err := do(life)
	if err == nil && !abandoned() {
		_, _ = box.Close()
		err = ctx.Err()
	}
	if err != nil {
		abandoned()
		end()
		if m.ctx.Err() != nil {
			err = ErrClosing
		}
		return built{}, err
	}
	return built{box: box, end: end}, nil
}

// add makes what was built sandboxes that are found.
func (m *Manager) add(room *room, r Request, all ...built) (some []*Sandbox, err error) {
	m.mu.Lock()
	for i := range all {
		s := newSandbox(m, all[i], room.owner, r)
		s.place = room.places[i]
		m.all[s.ID] = s
		some = append(some, s)
		m.ending.Go(s.watch)
	}
	room.places = nil
	room.end()
	m.mu.Unlock()
	for _, s := range some {
		if m.opts.Opened != nil && err == nil {
			err = m.opts.Opened(s)
		}
	}
	if err != nil {
		for _, s := range some {
			s.Close(CauseFailed, err.Error())
		}
		return nil, err
	}
	return some, nil
}

// room is what was reserved for sandboxes that are being built.
type room struct {
	m     *Manager
	owner Owner
	name  string
	n     int // 0: the sandboxes are there, or won't be

	places []*places.Place // of those that are not there yet
}

// wait waits for a place, in turn.
func (r *room) wait(ctx context.Context) error {
	m := r.m
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.ctx, cancel)()
	place, err := m.places.Take(ctx, string(r.owner), m.opts.Wait)
	switch {
	case err == nil:
		r.places = []*places.Place{place}
	case errors.Is(err, places.ErrFull):
		err = &QuotaError{What: "sandboxes", Max: m.opts.Max, Waited: m.opts.Wait}
	case m.ctx.Err() != nil:
		err = ErrClosing
	}
	return err
}

// reserve has room for n more, until they are there or it is freed.
func (m *Manager) reserve(owner Owner, name string, n int) (*room, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosing
	}
	own := len(m.building[owner])
	taken := name != "" && slices.Contains(m.building[owner], name)
	for _, s := range m.all {
		if s.Owner != owner || s.Ended() != nil {
			continue
		}
		own++
		taken = taken || name != "" && s.Name == name
	}
	if taken {
		return nil, &TakenError{name}
	}
	if m.opts.MaxPerOwner > 0 && own+n > m.opts.MaxPerOwner {
		return nil, &QuotaError{What: "sandboxes of this owner", Max: m.opts.MaxPerOwner}
	}
	m.building[owner] = append(m.building[owner], slices.Repeat([]string{name}, n)...)
	m.ending.Add(n)
	return &room{m: m, owner: owner, name: name, n: n}, nil
}

func (r *room) free() {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	r.end()
}

// end has the sandboxes not counted twice, once they are there. The caller holds mu.
func (r *room) end() {
	building := r.m.building
	for range r.n {
		names := building[r.owner]
		i := slices.Index(names, r.name)
		if building[r.owner] = slices.Delete(names, i, i+1); len(names) == 1 {
			delete(building, r.owner)
		}
	}
	r.m.ending.Add(-r.n)
	r.n = 0
	for _, place := range r.places {
		place.Free()
	}
	r.places = nil
}

// Get finds a sandbox or a tombstone by its ID or its name. Of a name, one that stands counts, or else the last.
func (m *Manager) Get(owner Owner, id string) (*Sandbox, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.all[id]; s != nil && s.Owner == owner {
		return s, nil
	}
	var last *Sandbox
	for _, s := range m.all {
		if s.Owner != owner || id == "" || s.Name != id {
			continue
		}
		if s.Ended() == nil {
			return s, nil
		}
		if last == nil || s.Created.After(last.Created) {
			last = s
		}
	}
	if last == nil {
		return nil, ErrNotFound
	}
	return last, nil
}

// List gives those of an owner, tombstones too, the oldest first.
func (m *Manager) List(owner Owner) []*Sandbox {
	m.mu.Lock()
	defer m.mu.Unlock()
	var some []*Sandbox
	for _, s := range m.all {
		if s.Owner == owner {
			some = append(some, s)
		}
	}
	slices.SortFunc(some, func(a, b *Sandbox) int { return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID)) })
	return some
}

// bury makes a sandbox that has ended a tombstone, and forgets tombstones that are old, or too many: then the oldest of whoever has most,
// and so what was written in them, where that is too much.
// So nobody who opens and ends many takes from another the word of how his ended.
func (m *Manager) bury(s *Sandbox) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tombstones = append(m.tombstones, s)
	for time.Since(m.tombstones[0].Ended().Time) > tombstoneAge {
		m.forget(0)
	}
	if len(m.tombstones) > maxTombstones {
		of := map[Owner]int{}
		for _, t := range m.tombstones {
			of[t.Owner]++
		}
		most := slices.Max(slices.Collect(maps.Values(of)))
		m.forget(slices.IndexFunc(m.tombstones, func(t *Sandbox) bool { return of[t.Owner] == most }))
	}
	s.weight = weightOf(s)
	for older := m.tombstones[:len(m.tombstones)-1]; ; {
		all, of := 0, map[Owner]int{}
		for _, t := range older {
			all, of[t.Owner] = all+t.weight, of[t.Owner]+t.weight
		}
		if all <= tombstonesBytes {
			return
		}
		most := slices.Max(slices.Collect(maps.Values(of)))
		t := older[slices.IndexFunc(older, func(t *Sandbox) bool { return of[t.Owner] == most && t.weight > 0 })]
		strip(t)
		t.weight = 0
	}
}

func (m *Manager) forget(tombstone int) {
	delete(m.all, m.tombstones[tombstone].ID)
	m.tombstones = slices.Delete(m.tombstones, tombstone, tombstone+1)
}

// Close ends everything, and waits until nothing is left.
func (m *Manager) Close() {
	m.mu.Lock()
	m.closed = true
	all := slices.Collect(maps.Values(m.all))
	m.mu.Unlock()
	for _, s := range all {
		s.begin(CauseClosed, "whoever kept the sandbox has ended")
	}
	m.cancel()
	m.ending.Wait()
}
