package confine

import (
	"context"
	"errors"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/backends"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/pool"
)

// Pool keeps sandboxes parked: built ahead, seen ready, used once, and thrown away. Arguments, environment and streams of a
// command come at its start, so nothing of one command is in the sandbox of another. Where none is ready, one is built
// at once, as long as there is room ([ErrFull]), and nothing waits for the builder, which works in the background and gives way. A parked one that would be
// built otherwise now, since something of the host has changed, isn't used. Its methods may be called from any goroutine.
type Pool struct{ p *pool.Pool }

// PoolOptions say how large a pool is.
type PoolOptions struct {
	Min, Max int           // so many are always kept ready, and so many when they are asked for
	Age      time.Duration // for which one may be parked; 0: five minutes
	Patience time.Duration // for which a command waits for room; 0: ten seconds
}

// ErrFull is the error of a command that has waited for room in vain. All pools of a process have sandboxes for which it has descriptors at
// 40 each, of three quarters of its limit, and a thousand at most: those that are built, run or are being ended, and those that are parked,
// which are half of them at most. What finds no room waits in turn.
var ErrFull = pool.ErrFull

// PoolStats is what a pool has ready, and how claims came by their sandboxes, with times in seconds.
type PoolStats = pool.Stats

// NewPool makes a pool of sandboxes that [Open] would build, and begins to build them. It ends with ctx, or when it is closed. policy of
// nil is [Default].
func NewPool(ctx context.Context, policy *Policy, size PoolOptions, opts ...Option) (*Pool, error) {
	spec, err := specOf(policy, "")
	if err != nil {
		return nil, err
	}
	o := &options{spec: spec}
	for _, option := range opts {
		option(o)
	}
	p, err := pool.New(ctx, pool.Options{
		Spec: func() (*backend.Spec, error) { return o.spec, nil },
		Backend: func(p *config.Policy) backend.Backend {
			if o.backend != nil {
				return o.backend
			}
			return backends.For(p)
		},
		Min: size.Min, Max: size.Max, Age: size.Age, Patience: size.Patience,
	})
	if err != nil {
		return nil, err
	}
	return &Pool{p}, nil
}

// Command is a command that runs in a sandbox of the pool, which nobody else uses. Wait doesn't wait for the sandbox to be thrown away, so
// its report says nothing of what only a sandbox that has ended knows. Policy has to be nil, and Dir is as seen inside.
func (p *Pool) Command(name string, arg ...string) *Cmd {
	return p.CommandContext(context.Background(), name, arg...)
}

// CommandContext is Command, and everything inside is killed when ctx ends.
func (p *Pool) CommandContext(ctx context.Context, name string, arg ...string) *Cmd {
	c := CommandContext(ctx, name, arg...)
	c.pool = p
	return c
}

// Open gives a sandbox of the pool, which is the caller's alone and to be closed. It ends with ctx. Errors are those of [Open].
func (p *Pool) Open(ctx context.Context) (*Sandbox, error) {
	box, err := p.p.Claim(ctx, "")
	if err != nil {
		return nil, unbuilt(err)
	}
	return newSandbox(box), nil
}

// unbuilt is the error of a claim, as Open has it.
func unbuilt(err error) error {
	var failed *backend.BuildError
	if errors.As(err, &failed) {
		return &ExitError{Report: failed.Report}
	}
	return err
}

// Stats says what there is now.
func (p *Pool) Stats() PoolStats { return p.p.Stats() }

// Close ends what is parked, and waits until nothing is left of it and of what commands have used. A sandbox that was
// opened, and a command that runs, go on.
func (p *Pool) Close() { p.p.Close() }
