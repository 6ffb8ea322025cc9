package sandboxes

import (
	"context"
	"os"
	"sync"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/status"
)

// Usage is what everybody inside uses now.
func (s *Sandbox) Usage() (backend.Usage, error) { return boxOf(s).Usage() }

// Traffic is what was reached and refused until now; nil: nobody sees it.
func (s *Sandbox) Traffic() *status.Traffic {
	if seen, ok := backend.As[backend.Seer](boxOf(s)); ok {
		return seen.Traffic()
	}
	return nil
}

// Usage is what the process and those that it started use now. What has ended is os.ErrProcessDone: its report has what it used.
func (p *Process) Usage() (u backend.Usage, err error) {
	if running := p.process.Load(); running != nil {
		return (*running).Usage()
	}
	return u, os.ErrProcessDone
}

// Policy is the one that holds. It is not to be changed.
func (s *Sandbox) Policy() *config.Policy {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.policy
}

// Network changes whom the processes inside may reach. change gets the policy that holds, and gives what its network is to be.
func (s *Sandbox) Network(ctx context.Context, change func(*config.Policy) (*config.Network, error)) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	policy := *s.Policy()
	n, err := change(&policy)
	if err != nil {
		return err
	}
	if err := boxOf(s).Network(ctx, n); err != nil {
		return err
	}
	policy.Network = *n
	s.mu.Lock()
	defer s.mu.Unlock()
	s.policy = &policy
	return nil
}

// tellEvents has the log of the sandbox tell what happens to nobody in particular.
func (s *Sandbox) tellEvents() {
	if t, ok := backend.As[backend.Teller](s.box); ok {
		t.Tell((&told{log: s.Events}).happens)
	}
}

// told is what has been told of a process while it went on, so that its end doesn't tell it again.
type told struct {
	log *Log

	mu     sync.Mutex
	denied map[[3]string]bool
	limits map[string]bool
}

// maxTold bounds how many kinds of what is denied are told of one process, or of one sandbox; the report has them all.
const maxTold = 256

// happens takes an event. It waits for nobody.
func (t *told) happens(e backend.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if v := e.Denied; v != nil {
		k := [3]string{v.Kind, v.What, v.Rule}
		if t.denied[k] || len(t.denied) >= maxTold {
			return
		}
		if t.denied == nil {
			t.denied = map[[3]string]bool{}
		}
		t.denied[k] = true
		t.log.Append(Frame{Type: FrameDenied, Denied: v})
	}
	if e.Limit != "" && !t.limits[string(e.Limit)] {
		if t.limits == nil {
			t.limits = map[string]bool{}
		}
		t.limits[string(e.Limit)] = true
		t.log.Append(Frame{Type: FrameLimit, Limit: string(e.Limit)})
	}
}

// rest tells what only the end has shown.
func (t *told) rest(r *status.Report) {
	for i := range r.Violations {
		t.happens(backend.Event{Denied: &r.Violations[i]})
	}
	for _, limit := range r.LimitsHit {
		t.happens(backend.Event{Limit: status.Capability(limit)})
	}
}
