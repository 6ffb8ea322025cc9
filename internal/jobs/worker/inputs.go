package worker

import (
	"context"
	"errors"
	"sync"

	"github.com/confine-run/confine/internal/jobs"
)

// maxInputs is how many bytes of inputs are remembered, for the next job of an array.
const maxInputs = 1 << 30

// inputs are files by their digest, without names, so that nothing of them outlives the worker.
type inputs struct {
	q   *jobs.Queue
	dir string

	mu    sync.Mutex
	all   map[string]*input
	order []string
	bytes int64
}

type input struct {
	ready chan struct{}
	*jobs.Spool
	err   error
	users int
	gone  bool
}

// get gives an input, and done has to be called when it was read.
func (c *inputs) get(ctx context.Context, digest string) (s *jobs.Spool, done func(), err error) {
	c.mu.Lock()
	one, known := c.all[digest]
	if !known {
		one = &input{ready: make(chan struct{})}
		c.all[digest] = one
	}
	one.users++
	c.mu.Unlock()
	done = func() { c.release(one) }
	if !known {
		one.Spool, one.err = c.q.Fetch(ctx, c.dir, digest)
		c.fetched(digest, one)
		close(one.ready)
	}
	select {
	case <-one.ready:
	case <-ctx.Done():
		done()
		return nil, nil, ctx.Err()
	}
	if one.err != nil {
		done()
		if known && errors.Is(one.err, context.Canceled) && ctx.Err() == nil { // of the job that read it for all
			return c.get(ctx, digest)
		}
		return nil, nil, one.err
	}
	return one.Spool, done, nil
}

// fetched remembers an input, and forgets the oldest that are too much.
func (c *inputs) fetched(digest string, one *input) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one.err != nil {
		delete(c.all, digest)
		one.gone = true
		return
	}
	c.order = append(c.order, digest)
	c.bytes += one.Size
	for c.bytes > maxInputs && len(c.order) > 1 {
		old := c.all[c.order[0]]
		delete(c.all, c.order[0])
		c.order = c.order[1:]
		c.bytes -= old.Size
		old.gone = true
		old.closeUnused()
	}
}

func (c *inputs) release(one *input) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one.users--
	one.closeUnused()
}

func (i *input) closeUnused() {
	if i.gone && i.users == 0 && i.Spool != nil {
		_ = i.Close()
	}
}
