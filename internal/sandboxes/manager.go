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
)

// Owner is somebody who has sandboxes: a user of the system, or whoever holds a token. Nobody sees what is another's.
type Owner string

// Options of a manager. Its zero value is a manager without bounds of its own.
type Options struct {
	// Backend builds what a policy asks for.
	Backend func(p *config.Policy) backend.Backend
	// Max is how many sandboxes there are at one time, MaxPerOwner how many of one owner. 0: any number.
	Max, MaxPerOwner int
	// LogBytes is about what the log of one process, and of one sandbox, keeps. 0: 1 MiB.
	LogBytes int
}

// What a tombstone costs is bounded by their number, too.
const (
	tombstoneAge  = 24 * time.Hour
	maxTombstones = 1000
)

// ErrNotFound is the answer for what isn't there, or is somebody else's.
var ErrNotFound = errors.New("there is no such sandbox")

// QuotaError says that there are too many.
type QuotaError struct {
	What string // "sandboxes", "sandboxes of this owner", …
	Max  int
}

func (e *QuotaError) Error() string {
	return fmt.Sprintf("there are %d %s, and not more may be", e.Max, e.What)
}

// Manager keeps sandboxes. Its methods may be called from any goroutine.
type Manager struct {
	opts   Options
	ctx    context.Context
	cancel context.CancelFunc

	mu         sync.Mutex
	all        map[string]*Sandbox // by ID: those that stand, and tombstones
	tombstones []*Sandbox          // in the order of their ends
	building   map[Owner][]string  // the names of those that are being built; "" has none
	closed     bool
	ending     sync.WaitGroup // of sandboxes that stand or are being built
}

// New makes a manager.
func New(o Options) *Manager {
	o.LogBytes = cmp.Or(o.LogBytes, 1<<20)
	ctx, cancel := context.WithCancel(context.Background())
	return &Manager{opts: o, ctx: ctx, cancel: cancel, all: map[string]*Sandbox{}, building: map[Owner][]string{}}
}

// Request is what somebody wants.
type Request struct {
	Spec   *backend.Spec
	Name   string // by which the owner finds it, too; empty: none
	Labels map[string]string
	Env    []string // K=V, of all its processes
	// Lifetime is when it ends, whatever happens; Idle is how long it stays when no process runs and nobody asks for it. 0: for ever.
	Lifetime, Idle time.Duration
}

// newID is a name that nobody guesses.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:]))
}

// Create opens a sandbox. ctx bounds its building only. An error is a *config.UsageError, a *QuotaError, or a *backend.BuildError
// that has the report of what could not be built.
func (m *Manager) Create(ctx context.Context, owner Owner, r Request) (*Sandbox, error) {
	if err := m.reserve(owner, r.Name); err != nil {
		return nil, err
	}
	defer m.ending.Done()
	life, end := context.WithCancel(m.ctx)
	abandoned := context.AfterFunc(ctx, end)
	box, failed, err := backend.Open(life, m.opts.Backend(r.Spec.Policy), r.Spec)
	if failed != nil {
		err = &backend.BuildError{Report: failed}
	}
	if err == nil && !abandoned() {
		_, _ = box.Close()
		err = ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	names := m.building[owner]
	i := slices.Index(names, r.Name)
	if m.building[owner] = slices.Delete(names, i, i+1); len(names) == 1 {
		delete(m.building, owner)
	}
	if err != nil {
		end()
		return nil, err
	}
	s := newSandbox(m, box, end, owner, r)
	m.all[s.ID] = s
	m.ending.Add(1)
	go func() {
		defer m.ending.Done()
		s.watch()
	}()
	return s, nil
}

// reserve has room for one more.
func (m *Manager) reserve(owner Owner, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return backend.ErrClosed
	}
	all, own := 0, len(m.building[owner])
	for _, names := range m.building {
		all += len(names)
	}
	taken := name != "" && slices.Contains(m.building[owner], name)
	for _, s := range m.all {
		if s.Ended() != nil {
			continue
		}
		all++
		if s.Owner != owner {
			continue
		}
		own++
		taken = taken || name != "" && s.Name == name
	}
	if taken {
		return &config.UsageError{Msg: fmt.Sprintf("there is a sandbox named %q", name)}
	}
	if m.opts.Max > 0 && all >= m.opts.Max {
		return &QuotaError{"sandboxes", m.opts.Max}
	}
	if m.opts.MaxPerOwner > 0 && own >= m.opts.MaxPerOwner {
		return &QuotaError{"sandboxes of this owner", m.opts.MaxPerOwner}
	}
	m.building[owner] = append(m.building[owner], name)
	m.ending.Add(1)
	return nil
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

// bury makes a sandbox that has ended a tombstone, and forgets tombstones that are old, or too many.
func (m *Manager) bury(s *Sandbox) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tombstones = append(m.tombstones, s)
	for len(m.tombstones) > maxTombstones || time.Since(m.tombstones[0].Ended().Time) > tombstoneAge {
		delete(m.all, m.tombstones[0].ID)
		m.tombstones = m.tombstones[1:]
	}
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
