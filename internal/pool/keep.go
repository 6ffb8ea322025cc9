package pool

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/status"
)

// Of the background.
const (
	tick      = time.Second      // between two looks at what is parked
	proofTime = 20 * time.Second // that a sandbox may take to show that it is ready: a machine on emulated CPUs runs a command for it
	firstWait = 100 * time.Millisecond
	longest   = 30 * time.Second // between two attempts, when building fails again and again
	calm      = time.Minute      // after which what failed before is forgotten
)

// demand is how many sandboxes are to be parked.
type demand struct {
	want  int
	least int // that were parked since then: so many were not needed
	since time.Time
}

// span is after how long a pool that was larger than it had to be shrinks.
const span = 10 * time.Second

func (d *demand) taken(left int) { d.least = min(d.least, left) }

// missed: one more would have been of use.
func (d *demand) missed(most int) {
	d.want, d.least = min(d.want+1, most), 0
}

// settle has fewer parked when some were not needed for a while.
func (d *demand) settle(parked, least int) {
	if time.Since(d.since) < span {
		return
	}
	d.want = max(d.want-(d.least+1)/2, least)
	d.since, d.least = time.Now(), parked
}

// faults are what keeps the pool from having sandboxes.
type faults struct {
	failures int
	last     time.Time
}

func (f *faults) more() { f.failures, f.last = f.failures+1, time.Now() }

func (f *faults) none() { f.failures = 0 }

// wait is how long nothing is built yet.
func (f *faults) wait() time.Duration {
	if f.failures == 0 {
		return 0
	}
	pause := min(firstWait<<min(f.failures-1, 20), longest)
	return max(0, pause-time.Since(f.last))
}

// keep builds and throws away until the pool ends.
func (p *Pool) keep() {
	defer p.kept.Done()
	defer p.throwAll()
	defer p.template.drop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for p.ctx.Err() == nil {
		p.refresh()
		now := p.plan("", p.opts.Fresh)
		for _, s := range p.spoiled(now) {
			p.discard(s)
		}
		wait, needed := p.need(now)
		if needed && wait == 0 {
			if p.build(now) {
				continue
			}
			wait = tick
		}
		timer.Reset(min(max(wait, time.Millisecond), tick, p.opts.Fresh/2, p.opts.Age))
		select {
		case <-p.wake:
		case <-timer.C:
		case <-p.ctx.Done():
		}
	}
}

// refresh plans anew what claims ask for, before it is too old for them.
func (p *Pool) refresh() {
	old := p.opts.Fresh / 2
	p.plan("", old)
	p.mu.Lock()
	var commands []string
	for name, f := range p.fits {
		switch {
		case time.Since(f.at) < old:
		case f.used && len(commands) < maxRefreshed:
			commands = append(commands, name)
		default:
			delete(p.fits, name)
		}
	}
	p.mu.Unlock()
	for _, name := range commands {
		p.plan(name, old)
	}
}

// maxRefreshed bounds how many commands are planned anew in the background.
const maxRefreshed = 20

// need says whether one more is to be built, and when.
func (p *Pool) need(now planned) (wait time.Duration, needed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failures > 0 && time.Since(p.faults.last) > calm {
		p.faults.none()
	}
	p.demand.settle(len(p.parked), p.opts.Min)
	if now.err != nil || len(p.parked) >= p.want {
		return tick, false
	}
	return p.faults.wait(), true
}

// spoiled takes those out that are not to be used any more.
func (p *Pool) spoiled(now planned) (some []*parked) {
	p.mu.Lock()
	defer p.mu.Unlock()
	surplus := len(p.parked) - p.want
	p.parked = slices.DeleteFunc(p.parked, func(s *parked) bool {
		switch {
		case s.dead():
			p.counts.died++
			p.faults.more()
		case now.err != nil || s.key != now.key:
			p.counts.changed++
		case time.Since(s.since) > p.opts.Age:
			p.counts.aged++
		case surplus <= 0:
			return false
		}
		surplus--
		some = append(some, s)
		return true
	})
	return some
}

// build makes one, and parks it when it was seen ready. It is false when there is no place for it.
func (p *Pool) build(now planned) bool {
	select {
	case builder <- struct{}{}:
		defer func() { <-builder }()
	case <-p.ctx.Done():
		return true
	}
	giveWay(p.ctx, max(quiet, p.template.took/5), p.patience())
	place := p.opts.Places.Spare()
	if place == nil { // what is claimed needs all; whatever ends wakes the keeper
		return false
	}
	from := time.Now()
	ctx, end := context.WithCancel(context.Background()) // whoever claims it may outlive the pool
	stop := context.AfterFunc(p.ctx, end)
	s := &parked{key: now.key, place: place, end: end}
	box, failed, err := p.template.open(ctx, p.opts.Backend(now.spec.Policy), &now)
	if s.box = box; failed == nil && err == nil {
		err = prove(ctx, box)
	}
	s.since = time.Now()
	p.template.took = s.since.Sub(from)
	ready := stop() && failed == nil && err == nil
	p.mu.Lock()
	switch {
	case ready:
		p.counts.built++
		p.parked = append(p.parked, s)
	case p.ctx.Err() == nil:
		p.counts.failed++
		p.faults.more()
	}
	p.mu.Unlock()
	if !ready {
		p.discard(s)
	}
	return true
}

// template is a sandbox written down with its memory, of which the next are made: that is faster than to build one. Only the keeper has it.
type template struct {
	key  key
	snap backend.Snapshot // nil: there is none
	made time.Time
	took time.Duration // the last that was built
}

// templateAge is how long one may be used: what it has in memory of the host's files gets old.
const templateAge = 15 * time.Minute

// open opens a sandbox, of the template where there is one, and makes one where the backend can. One that has been written down is never
// given to anybody: its snapshots would be found where this one is.
func (t *template) open(ctx context.Context, b backend.Backend, now *planned) (backend.Sandbox, *status.Report, error) {
	if t.snap != nil && (t.key != now.key || time.Since(t.made) > templateAge) {
		t.drop()
	}
	spec := *now.spec
	if t.snap != nil {
		spec.From = t.snap
		box, failed, err := backend.Open(ctx, b, &spec)
		if err == nil && failed == nil {
			return box, nil, nil
		}
		t.drop() // it doesn't fit any more
	}
	spec.From = now.spec.From
	box, failed, err := backend.Open(ctx, b, &spec)
	if failed != nil || err != nil {
		return box, failed, err
	}
	if _, moves := backend.As[backend.Mover](box); !moves || spec.From != nil {
		return box, nil, nil
	}
	snap, err := box.Snapshot(ctx)
	if err != nil {
		return box, nil, nil // as good as it would have been
	}
	t.key, t.snap, t.made = now.key, snap, time.Now()
	_, _ = box.Close()
	spec.From = snap
	return backend.Open(ctx, b, &spec)
}

func (t *template) drop() {
	if t.snap != nil {
		_ = t.snap.Close()
	}
	t.snap = nil
}

// patience is how long the builder gives way to claims: the more are left, and the longer it would be in their way, the longer.
func (p *Pool) patience() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(patience, p.template.took/2) * time.Duration(len(p.parked)) / time.Duration(max(p.want, 1))
}

// prove waits for a sandbox to show that it is ready.
func prove(ctx context.Context, box backend.Sandbox) error {
	ctx, cancel := context.WithTimeout(ctx, proofTime)
	defer cancel()
	if p, ok := box.(backend.Prover); ok {
		return p.Ready(ctx)
	}
	_, err := box.Files().Stat("/")
	return err
}

// discard ends one that nobody has used.
func (p *Pool) discard(s *parked) {
	if s.box != nil {
		_, _ = s.box.Close()
	}
	s.end()
	s.place.Free()
}

// throwAll ends all that are parked, many at once.
func (p *Pool) throwAll() {
	p.mu.Lock()
	all := p.parked
	p.parked = nil
	p.mu.Unlock()
	var ending sync.WaitGroup
	for _, s := range all {
		ending.Go(func() { p.discard(s) })
	}
	ending.Wait()
}

// What the pools of this process share: one builds at a time, and few are torn down at once.
var (
	builder   = make(chan struct{}, 1)
	teardowns = make(chan struct{}, 2)
	unended   atomic.Int64 // that are to be torn down
	serving   atomic.Int64 // claims that are being served
	served    atomic.Int64 // when the last was: nanoseconds after began
	began     = time.Now()
)

// Whoever works in the background waits for a moment without a claim, but not for ever: what is used up has to be made.
const (
	quiet    = 3 * time.Millisecond
	patience = 100 * time.Millisecond
)

// serve says that somebody waits for an answer, until it is done.
func serve() (done func()) {
	serving.Add(1)
	return func() {
		served.Store(int64(time.Since(began)))
		serving.Add(-1)
	}
}

// giveWay waits for so long a moment without a claim, but not longer than patience.
func giveWay(ctx context.Context, quiet, patience time.Duration) {
	for until := time.Now().Add(patience); time.Now().Before(until) && ctx.Err() == nil; {
		rest := quiet - (time.Since(began) - time.Duration(served.Load()))
		if serving.Load() == 0 && rest < 0 {
			return
		}
		time.Sleep(max(min(rest, time.Until(until)), quiet/3))
	}
}

// teardown does what ends a sandbox, with few others at once. The more wait for it, the less patient it is.
func teardown(end func()) {
	n := unended.Add(1)
	defer unended.Add(-1)
	teardowns <- struct{}{}
	defer func() { <-teardowns }()
	giveWay(context.Background(), quiet, patience/time.Duration(n*n))
	end()
}
