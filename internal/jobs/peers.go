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
	// Identity is the digest of the certificate that its sessions are reached by; empty: it has none.
	Identity string `json:"identity,omitempty"`
	Used     Need   `json:"used"`
	Jobs     int    `json:"jobs"`
	Sessions int    `json:"sessions,omitempty"`
	// Gone: it runs nothing any more, and never will. Who writes it for another has waited for that.
	Gone bool `json:"gone,omitempty"`
	Beat int64
}

// goneKeep is how long a worker that is gone is known to be: nobody asks for it later.
const goneKeep = 24 * time.Hour

// seen is a worker, and when that was last news, by the clock of this process.
type seen struct {
	revision uint64
	at       time.Duration
	info     WorkerInfo
}

// Peers is what was seen of workers from here, of those that somebody asked for: nobody watches all of them.
type Peers struct {
	q   *Queue
	mu  sync.Mutex
	all map[string]seen
}

// Peers have seen nothing yet.
func (q *Queue) Peers() *Peers { return &Peers{q: q, all: map[string]seen{}} }

// Presence is what is known of a worker.
type Presence int

// Presences.
const (
	Silent Presence = iota // nothing yet: it has not written since it was first asked for
	There                  // it has written since it was asked for the last time
	Gone                   // it runs nothing any more, and never will
)

// See looks for a worker, once more. It is Gone when it says so itself, or has said nothing for so long that it has ended what it ran, and can say
// nothing any more. That is made true here: its key is written for it, at the revision that was seen so long ago, which the servers refuse if it
// has written meanwhile, and after which they refuse the worker. No clock is compared with that of another host.
func (p *Peers) See(ctx context.Context, worker string) (Presence, error) {
	now := seen{at: boottime()}
	text, revision, err := last(ctx, p.q, workerStream, workerKey+worker)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound): // it writes its key before it takes a job: it was gone so long ago that nobody knows
	case err != nil:
		return Silent, err
	default:
		if err := json.Unmarshal(text, &now.info); err != nil {
			return Silent, err
		}
		now.revision = revision
	}
	if now.info.Gone {
		p.forget(worker)
		return Gone, nil
	}
	if now.revision != 0 {
		switch before, known := p.saw(worker, now); {
		case known && before.revision != now.revision:
			return There, nil
		case !known || boottime()-before.at < now.info.Lease.Duration()*3/2:
			return Silent, nil
		}
	}
	now.info.Gone = true
	_, err = p.q.put(ctx, workerKey+worker, now.info, now.revision, goneKeep)
	p.forget(worker)
	if errors.Is(err, ErrChanged) { // what was read was old
		return There, nil
	}
	if err != nil {
		return Silent, err
	}
	return Gone, nil
}

// saw remembers what was seen of a worker, unless that is no news, and gives what it was before.
func (p *Peers) saw(worker string, now seen) (before seen, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, known = p.all[worker]
	if !known || before.revision != now.revision {
		if len(p.all) >= maxSeen {
			clear(p.all) // they are seen anew
		}
		p.all[worker] = now
	}
	return before, known
}

// maxSeen bounds what is remembered.
const maxSeen = 10_000

func (p *Peers) forget(worker string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, worker)
}

// Named is a worker with its name.
type Named struct {
	Name string
	Info WorkerInfo
}

// Workers are those that are not gone, as far as they say so.
func (q *Queue) Workers(ctx context.Context) (all []Named, err error) {
	err = watched(ctx, q.workers, ">", false, func(e jetstream.KeyValueEntry) (bool, error) {
		n := Named{Name: e.Key()}
		if json.Unmarshal(e.Value(), &n.Info) == nil && !n.Info.Gone {
			all = append(all, n)
		}
		return true, nil
	})
	return all, err
}
