package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// WorkerInfo is what a worker says of itself, again and again: the value of its key. Each start of a worker has a name of its own.
type WorkerInfo struct {
	Host  string  `json:"host"`
	Lease Seconds `json:"lease"` // it ends what it runs when it could not write this for as long
	Room  Need    `json:"room"`
	Used  Need    `json:"used"`
	Jobs  int     `json:"jobs"`
	// Gone: it runs nothing any more, and never will. Who writes it for another has waited for that.
	Gone bool `json:"gone,omitempty"`
	Beat int64
}

// Need is what a job takes of a worker, and what a worker has.
type Need struct {
	Memory int64 `json:"memory"` // bytes
	CPU    int64 `json:"cpu"`    // percent of one
	Tasks  int64 `json:"tasks"`
}

// goneKeep is how long a worker that is gone is known to be: nobody asks for it later.
const goneKeep = 24 * time.Hour

// seen is a worker, and when that was last news, by the clock of this process.
type seen struct {
	revision uint64
	at       time.Duration
	info     WorkerInfo
}

// Peers are the workers as they are seen from here.
type Peers struct {
	q    *Queue
	mu   sync.Mutex
	all  map[string]seen
	stop func()
}

// Watch begins to watch the workers.
func (q *Queue) Watch(ctx context.Context) (*Peers, error) {
	ctx, cancel := context.WithCancel(ctx)
	w, err := q.workers.WatchAll(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	p := &Peers{q: q, all: map[string]seen{}, stop: cancel}
	go func() {
		for e := range w.Updates() {
			if e != nil {
				p.saw(e)
			}
		}
	}()
	return p, nil
}

// Close ends the watch.
func (p *Peers) Close() { p.stop() }

func (p *Peers) saw(e jetstream.KeyValueEntry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := seen{revision: e.Revision(), at: boottime()}
	if e.Operation() != jetstream.KeyValuePut || json.Unmarshal(e.Value(), &s.info) != nil {
		delete(p.all, e.Key())
		return
	}
	if s.revision > p.all[e.Key()].revision {
		p.all[e.Key()] = s
	}
}

// All are those that are not gone.
func (p *Peers) All() map[string]WorkerInfo {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[string]WorkerInfo{}
	for name, s := range p.all {
		if !s.info.Gone {
			all[name] = s.info
		}
	}
	return all
}

// Gone says whether a worker is: it says so itself, or has said nothing for so long that it has ended what it ran, and can say nothing any
// more. That is made true here: its key is written for it, at the revision that was seen so long ago, which the servers
// refuse if it has written meanwhile, and after which they refuse the worker. No clock is compared with that of another host.
func (p *Peers) Gone(ctx context.Context, worker string) (bool, error) {
	p.mu.Lock()
	s, known := p.all[worker]
	p.mu.Unlock()
	lease := s.info.Lease.Duration()
	switch {
	case known && s.info.Gone:
		return true, nil
	case known && boottime()-s.at < lease+lease/2:
		return false, nil
	}
	// One that is not known has no key, since it writes that before it takes a job: unless the servers know better.
	s.info.Gone = true
	revision, err := p.q.put(ctx, "$KV."+workerBucket+"."+worker, s.info, s.revision, goneKeep)
	if errors.Is(err, ErrChanged) {
		return false, nil // the watch will say
	}
	if err != nil {
		return false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all[worker] = seen{revision, boottime(), s.info}
	return true, nil
}

// Named is a worker with its name.
type Named struct {
	Name string
	Info WorkerInfo
}

// Workers are those that are not gone, as far as they say so.
func (q *Queue) Workers(ctx context.Context) (all []Named, err error) {
	w, err := q.workers.WatchAll(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = w.Stop() }()
	for {
		select {
		case e, open := <-w.Updates():
			if !open || e == nil {
				return all, ctx.Err()
			}
			n := Named{Name: e.Key()}
			if e.Operation() == jetstream.KeyValuePut && json.Unmarshal(e.Value(), &n.Info) == nil && !n.Info.Gone {
				all = append(all, n)
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
