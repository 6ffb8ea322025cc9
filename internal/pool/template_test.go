package pool

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
)

// machines are sandboxes whose snapshots have their processes in them.
type machines struct {
	*host
	first, restored atomic.Int64 // that were built from nothing, and from a snapshot
}

type machine struct{ backend.Sandbox }

func (machine) Depart(context.Context) (backend.Snapshot, func() error, error) { return nil, nil, nil }

func (m *machines) Plan(ctx context.Context, s *backend.Spec) (backend.Plan, error) {
	p, err := m.host.Plan(ctx, s)
	return foreseen{p, s.From != nil}, err
}

type foreseen struct {
	backend.Plan
	restores bool
}

func (m *machines) Build(ctx context.Context, p backend.Plan) (backend.Sandbox, error) {
	b, err := m.host.Build(ctx, p.(foreseen).Plan)
	if err != nil {
		return nil, err
	}
	if p.(foreseen).restores {
		m.restored.Add(1)
	} else {
		m.first.Add(1)
	}
	return machine{b}, nil
}

// Machines are booted once, and the rest of a pool are made of that one, which nobody gets. When they would be others, that is begun anew.
func TestAPoolOfMachinesBootsOne(t *testing.T) {
	m := &machines{host: &host{}}
	policy := config.Default()
	policy.AllowPartial = []string{"all"}
	m.policy = &policy
	p := m.openAs(t, m, Options{Min: 3, Max: 3})
	ready(t, p, 3)
	if m.first.Load() != 1 || m.restored.Load() != 3 {
		t.Errorf("%d were booted, %d restored", m.first.Load(), m.restored.Load())
	}
	m.set(func() { m.state = "other" })
	eventually(t, "they are others", func() bool { return m.first.Load() == 2 && m.restored.Load() >= 6 })
	ready(t, p, 3)
}

// What a builder would be in the way of, it lets go by for the longer the more it takes to build, as long as something is left.
func TestTheBuilderOfMachinesGivesWayForLonger(t *testing.T) {
	short, long := &Pool{demand: demand{want: 2}}, &Pool{demand: demand{want: 2}}
	long.template.took = 10 * time.Second
	for _, p := range []*Pool{short, long} {
		if got := p.patience(); got != 0 {
			t.Errorf("with nothing left: %v", got)
		}
		p.parked = []*parked{{}}
	}
	if a, b := short.patience(), long.patience(); a != patience/2 || b != 10*time.Second/4 {
		t.Errorf("%v, and where it takes long %v", a, b)
	}
}
