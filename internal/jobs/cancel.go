package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
)

// Cancel cancels a job, and gives its record when that says that it has ended: it doesn't run then, and won't. One that has
// ended before stays as it is.
func (q *Queue) Cancel(ctx context.Context, p *Peers, key Key) (*Record, error) {
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		r, err := q.cancel(ctx, p, key)
		if r != nil || err != nil && !errors.Is(err, ErrChanged) && !Transient(err) {
			return r, err
		}
		if !wait(ctx, pause) {
			return nil, errors.Join(err, ctx.Err())
		}
	}
}

// cancel makes one step. Without a record and without an error there are more.
func (q *Queue) cancel(ctx context.Context, p *Peers, key Key) (*Record, error) {
	j, err := q.queued(ctx, key)
	if err != nil {
		return nil, err
	}
	k, err := q.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	r := k.Record
	switch {
	case r == nil && j == nil:
		return nil, ErrNoJob
	case r == nil || r.State.Final() && j != nil && j.Run > r.Run:
		// Nobody has begun: whoever does is refused.
		return end(ctx, q, k, &Record{Job: j, Run: j.Run, Seal: true})
	case r.State.Final():
		return r, nil
	case r.State == Queued: // it was given back
		next := *r
		next.Seal = true
		return end(ctx, q, k, &next)
	case !r.Cancel:
		next := *r
		next.Cancel = true
		if _, err := q.Put(ctx, k, &next); err != nil {
			return nil, err
		}
	}
	// It is its worker's, which says when it has ended; or everybody's, if that is gone.
	ask, cancel := context.WithTimeout(ctx, apiTime)
	defer cancel()
	_, err = q.nc.RequestWithContext(ask, workerSubject+r.Worker, []byte(key.String()))
	if !errors.Is(err, nats.ErrNoResponders) {
		return nil, nil
	}
	if presence, err := p.See(ctx, r.Worker); presence != Gone {
		return nil, err
	}
	if k, err = q.Get(ctx, key); err != nil || k.Record == nil || k.State != Running || k.Worker != r.Worker {
		return nil, err
	}
	next := *k.Record
	next.Seal = true
	return end(ctx, q, k, &next)
}

func end(ctx context.Context, q *Queue, k Kept, next *Record) (*Record, error) {
	next.State, next.Ended = Cancelled, time.Now().UTC()
	if _, err := q.Put(ctx, k, next); err != nil {
		return nil, err
	}
	return next, nil
}
