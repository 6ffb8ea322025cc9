package pool

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/places"
	"github.com/confine-run/confine/status"
)

// Options are what a pool is made with.
type Options struct {
	// Spec says what a sandbox is to be. It is asked again and again, and may say something else each time.
	Spec func() (*backend.Spec, error)
	// Backend builds what a policy asks for.
	Backend func(*config.Policy) backend.Backend
	// Min sandboxes are kept ready, Max when so many are asked for.
	Min, Max int
	// Age is how long one may be parked; 0: five minutes.
	Age time.Duration
	// Fresh is how long a plan is taken for true; 0: three seconds.
	Fresh time.Duration
	// Places bound the sandboxes that there are; nil: those of this process.
	Places *places.Places
	// Patience is how long a claim waits for a place; 0: ten seconds.
	Patience time.Duration
}

// ErrFull is the answer to a claim that has waited for a place in vain.
var ErrFull = places.ErrFull

// mostOfProcess is the most sandboxes of a process, where nobody says how many.
const mostOfProcess = 1000

// ofProcess are the places of all pools of this process: as many as it has descriptors for.
var ofProcess = sync.OnceValue(func() *places.Places { return places.New(min(mostOfProcess, places.ByDescriptors())) })

// key says what a sandbox is: the plan of its box, and the policy that its reports are about.
type key [sha256.Size]byte

// parked is a sandbox that nobody has used.
type parked struct {
	box   backend.Sandbox
	key   key
	since time.Time
	place *places.Place
	end   context.CancelFunc // of its context
}

// dead says whether it has ended by itself.
func (s *parked) dead() bool {
	select {
	case <-s.box.Done():
		return true
	default:
		return false
	}
}

// planned is what the sandboxes are to be, as far as that is known.
type planned struct {
	spec *backend.Spec
	key  key
	err  error // there is nothing to park
	at   time.Time
	used bool // since then
}

// Pool keeps parked sandboxes. Its methods may be called from any goroutine.
type Pool struct {
	opts   Options
	ctx    context.Context
	cancel context.CancelFunc
	wake   chan struct{} // of length 1: the keeper has something to do
	kept   sync.WaitGroup

	planning sync.Mutex // whoever plans; comes before mu
	template template   // the keeper's alone

	mu     sync.Mutex
	now    planned
	fits   map[string]planned // what would be built for a command, by its name
	parked []*parked          // the oldest first
	demand
	faults
	counts
	poking bool // the keeper will be woken
	closed bool
}

// New makes a pool, which begins to build. It ends with ctx, or when it is closed. An error is about what was asked for.
func New(ctx context.Context, o Options) (*Pool, error) {
	if o.Min < 0 || o.Max < 1 || o.Max < o.Min {
		return nil, &config.UsageError{Msg: "a pool keeps MIN sandboxes ready, and MAX at most: 0 ≤ MIN ≤ MAX, and MAX at least 1"}
	}
	o.Age, o.Fresh, o.Patience = cmp.Or(o.Age, 5*time.Minute), cmp.Or(o.Fresh, 3*time.Second), cmp.Or(o.Patience, 10*time.Second)
	if o.Places == nil {
		o.Places = ofProcess()
	}
	p := &Pool{opts: o, wake: make(chan struct{}, 1), fits: map[string]planned{}, demand: demand{want: o.Min, since: time.Now()}}
	p.ctx, p.cancel = context.WithCancel(ctx)
	if now := p.plan("", p.opts.Fresh); now.err != nil {
		var cant *config.Unenforceable
		if !errors.As(now.err, &cant) { // that is a report of each claim
			p.cancel()
			return nil, now.err
		}
	}
	p.kept.Add(1)
	go p.keep()
	return p, nil
}

// Close ends the parked sandboxes, and waits until nothing is left of them and of those that were used.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	p.kept.Wait()
}

// plan says what a sandbox for a command is to be. The name "" is the pool's own; what is known and not too old isn't
// computed again.
func (p *Pool) plan(command string, age time.Duration) planned {
	known := func() (planned, bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		now := p.now
		if command != "" {
			if now = p.fits[command]; age == p.opts.Fresh && !now.used && !now.at.IsZero() {
				now.used = true
				p.fits[command] = now
			}
		}
		return now, !now.at.IsZero() && time.Since(now.at) < age
	}
	if now, ok := known(); ok {
		return now
	}
	p.planning.Lock()
	defer p.planning.Unlock()
	if now, ok := known(); ok {
		return now
	}
	now := planned{at: time.Now()}
	if now.spec, now.err = p.opts.Spec(); now.err == nil {
		spec := *now.spec
		if command != "" {
			spec.Argv = []string{command}
		}
		spec.PolicyDigest = spec.Policy.Digest()
		now.spec = &spec
		var plan backend.Plan
		if plan, now.err = p.opts.Backend(spec.Policy).Plan(p.ctx, &spec); now.err == nil {
			now.key = keyOf(plan, spec.PolicyDigest)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if command == "" {
		if p.now.key != now.key {
			clear(p.fits) // they were planned for what is no more
		}
		p.now = now
		return now
	}
	if len(p.fits) >= maxCommands {
		clear(p.fits)
	}
	if len(command) <= maxCommand {
		p.fits[command] = now
	}
	return now
}

// maxCommands bounds how many names of commands are remembered, and maxCommand how long they are.
const maxCommands, maxCommand = 1000, 4096

func keyOf(plan backend.Plan, policy string) key {
	own := plan.Key()
	return sha256.Sum256(append(own[:], policy...))
}

// Claimed is a sandbox that is the claimer's alone.
type Claimed struct {
	backend.Sandbox
	Spec *backend.Spec // of which it was built
	Path Path          // how it came
	pool *Pool
	end  func()      // of its context; gives back its place
	stop func() bool // what ends it with the claimer's context
}

// Close ends it, and waits until nothing is left.
func (c *Claimed) Close() (*status.BoxReport, error) {
	c.stop()
	return c.close()
}

func (c *Claimed) close() (*status.BoxReport, error) {
	defer c.end()
	return c.Sandbox.Close()
}

// give makes a sandbox one that ends with ctx, and has its place until nothing of it is left: end ends its own context.
func (p *Pool) give(ctx context.Context, box backend.Sandbox, spec *backend.Spec, by Path, place *places.Place, end func()) *Claimed {
	c := &Claimed{Sandbox: box, Spec: spec, Path: by, pool: p, end: func() {
		end()
		place.Free()
		p.poke()
	}}
	c.stop = context.AfterFunc(ctx, func() {
		end()
		_, _ = c.close() // whoever claimed it may have forgotten it
	})
	return c
}

// Spec is what the pool's sandboxes are to be.
func (p *Pool) Spec() (*backend.Spec, error) {
	now := p.plan("", p.opts.Fresh)
	if now.spec == nil {
		return nil, now.err
	}
	own := *now.spec
	return &own, nil
}

// Claim gives a sandbox, which ends with ctx. If command is not empty, it is one that shows what the command of this
// name needs. A sandbox that can't be built is a *backend.BuildError, and one that there is no place for [ErrFull]; any other error is about
// what was asked for.
func (p *Pool) Claim(ctx context.Context, command string) (*Claimed, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	began := time.Now()
	done := serve()
	defer func() { done() }()
	now := p.plan("", p.opts.Fresh)
	own := now
	if command != "" && now.err == nil {
		own = p.plan(command, p.opts.Fresh)
	}
	if s := p.take(now, own); s != nil {
		s.place.Used()
		p.claimed(Parked, began)
		return p.give(ctx, s.box, now.spec, Parked, s.place, s.end), nil
	}
	p.mu.Lock()
	closed := p.closed
	p.mu.Unlock()
	var cant *config.Unenforceable
	switch {
	case closed || p.ctx.Err() != nil:
		return nil, backend.ErrClosed
	case own.err != nil && !errors.As(own.err, &cant): // what can't be enforced is refused by a report
		return nil, own.err
	}
	done() // what ends makes room: it doesn't give way to whoever waits for that
	place, err := p.wait(ctx)
	done = serve()
	if err != nil {
		return nil, err
	}
	life, end := context.WithCancel(ctx)
	box, failed, err := backend.Open(life, p.opts.Backend(own.spec.Policy), own.spec)
	if failed != nil {
		err = &backend.BuildError{Report: failed}
	}
	if err != nil {
		end()
		place.Free()
		return nil, err
	}
	p.claimed(Cold, began)
	return p.give(ctx, box, own.spec, Cold, place, end), nil
}

// wait waits for a place, at most until the pool is closed.
func (p *Pool) wait(ctx context.Context) (*places.Place, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(p.ctx, func() { cancel(backend.ErrClosed) })()
	p.mu.Lock()
	p.waiting++
	p.mu.Unlock()
	place, err := p.opts.Places.Take(ctx, "", p.opts.Patience)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting--
	switch {
	case err == nil:
		return place, nil
	case errors.Is(err, ErrFull):
		p.counts.refused++
		return nil, hint.With(err, "try again when something has ended; a higher limit of descriptors (ulimit -n) has room for more")
	}
	return nil, context.Cause(ctx)
}

// take gives the oldest parked sandbox that is what own asks for, and has not ended.
func (p *Pool) take(now, own planned) *parked {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.pokeLater()
	if p.closed || now.err != nil || own.err != nil || own.key != now.key {
		return nil // the pool has none of these, however many it keeps
	}
	for i, s := range p.parked {
		if s.key != own.key || time.Since(s.since) > p.opts.Age || s.dead() {
			continue // the keeper throws it away
		}
		p.parked = append(p.parked[:i:i], p.parked[i+1:]...)
		p.demand.taken(len(p.parked))
		p.faults.none()
		return s
	}
	p.demand.missed(p.opts.Max)
	return nil
}

// poke wakes the keeper.
func (p *Pool) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// pokeLater wakes the keeper when whoever claims has its answer. The caller holds mu.
func (p *Pool) pokeLater() {
	if !p.poking {
		p.poking = true
		time.AfterFunc(quiet, func() {
			p.mu.Lock()
			p.poking = false
			p.mu.Unlock()
			p.poke()
		})
	}
}

// Retire ends a sandbox that was claimed, in the background, when no claim is being served.
func (c *Claimed) Retire() {
	go c.pool.while(func() { teardown(func() { _, _ = c.Close() }) })
}

// Unwrap is for [backend.As].
func (c *Claimed) Unwrap() backend.Sandbox { return c.Sandbox }

// Background is the sandbox for somebody who doesn't wait for its end: Close gives way to claims, as Retire does.
func (c *Claimed) Background() backend.Sandbox { return background{c} }

type background struct{ *Claimed }

func (b background) Close() (r *status.BoxReport, err error) {
	teardown(func() { r, err = b.Claimed.Close() })
	return r, err
}

// while does something that Close waits for, if the pool isn't closed yet.
func (p *Pool) while(do func()) {
	p.mu.Lock()
	if !p.closed {
		p.kept.Add(1)
		defer p.kept.Done()
	}
	p.mu.Unlock()
	do()
}

// Run starts a process in a sandbox that it alone uses. The sandbox is ended after it; Wait doesn't wait for that.
func (p *Pool) Run(ctx context.Context, e *backend.Exec) (backend.Process, error) {
	for {
		box, err := p.Claim(ctx, "")
		if err != nil {
			return nil, err
		}
		process, err := box.Start(ctx, e)
		if err == nil {
			go func() {
				process.Wait()
				box.Retire()
			}()
			return process, nil
		}
		box.Retire()
		if box.Path != Parked || !errors.Is(err, backend.ErrClosed) || ctx.Err() != nil {
			return nil, err
		}
		// It ended in the moment that it was taken, and nothing was started: another one.
	}
}
