package confinetest

import (
	"context"
	"os"
	"slices"
	"sync"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/status"
)

// live is what a handler says of its process while that goes on.
type live struct {
	mu   sync.Mutex
	now  *backend.Usage // nil: it has not said so
	list []status.Violation
}

func (p *process) use(u backend.Usage) {
	p.live.mu.Lock()
	defer p.live.mu.Unlock()
	p.now = &u
	if most := p.exec.Limits.CPU; most > 0 && u.CPU >= most {
		p.cancel(errCPU)
	}
}

// tell passes on an event, and has the report name what was denied.
func (p *process) tell(e backend.Event) {
	p.live.mu.Lock()
	defer p.live.mu.Unlock()
	if e.Denied != nil {
		p.list = append(p.list, *e.Denied)
	}
	if p.exec.Tell != nil {
		p.exec.Tell(e)
	}
}

func (p *process) denied() []status.Violation {
	p.live.mu.Lock()
	defer p.live.mu.Unlock()
	return append([]status.Violation{}, p.list...)
}

// usage is what the handler has said, or else nothing but a task.
func (p *process) usage() backend.Usage {
	p.live.mu.Lock()
	defer p.live.mu.Unlock()
	if p.now == nil {
		return backend.Usage{Memory: -1, Tasks: 1, Scratch: -1}
	}
	return *p.now
}

// Usage is what the handler has said last, by Call.Use.
func (p *process) Usage() (backend.Usage, error) {
	select {
	case <-p.done:
		return backend.Usage{}, os.ErrProcessDone
	default:
		return p.usage(), nil
	}
}

// Usage is the sum of what processes use.
func (s *sandbox) Usage() (backend.Usage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.report != nil || s.ctx.Err() != nil {
		return backend.Usage{}, backend.ErrClosed
	}
	all := backend.Usage{CPU: s.used, Scratch: -1}
	for p := range s.running {
		u := p.usage()
		all.CPU += max(u.CPU, 0)
		all.Memory += max(u.Memory, 0)
		all.Tasks += max(u.Tasks, 0)
	}
	return all, nil
}

// Network holds nothing, as ever, and says so in reports; it refuses what no sandbox can be given while it stands.
func (s *sandbox) Network(ctx context.Context, n *config.Network) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.report != nil || s.ctx.Err() != nil {
		return backend.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	policy := *s.policy
	was := policy.Network
	policy.Network = *n
	if err := policy.Validate(); err != nil {
		return err
	}
	if was.All || policy.Network.All || !slices.Equal(was.Publish, policy.Network.Publish) {
		return &config.UsageError{Msg: "network: the caller's own, and ports that are published, are decided when a sandbox is opened", Hint: "open a sandbox with it"}
	}
	s.policy = &policy
	return nil
}
