package e2b

import (
	"context"
	"crypto/rand"
	"errors"
	"io"

	"github.com/confine-run/confine/backend"
)

type (
	watchRequest struct {
		Path      string `json:"path"`
		Recursive bool   `json:"recursive"`
	}
	watchEvent struct {
		Start      *empty     `json:"start,omitempty"`
		Filesystem *fileEvent `json:"filesystem,omitempty"`
		Keepalive  *empty     `json:"keepalive,omitempty"`
	}
	fileEvent struct {
		Name string `json:"name"`
		Type string `json:"type"`
	}
	watcherDoc struct {
		ID string `json:"watcherId"`
	}
	eventsResponse struct {
		Events []fileEvent `json:"events"`
	}
)

// errLost ends a watch: there is no event that says so.
var errLost = &rpcError{dataLoss, "too much has happened to be told: events were lost"}

func (b *box) watch(in *watchRequest) (backend.Watcher, error) {
	name, err := resolve(in.Path)
	if err != nil {
		return nil, err
	}
	return b.Files().Watch(name, in.Recursive)
}

// watchDir tells what happens in a directory, until that is gone.
func watchDir(ctx context.Context, c *call, in *watchRequest, to *sender) error {
	w, err := c.box.watch(in)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := to.send(&watchEvent{Start: &empty{}}); err != nil {
		return err
	}
	for {
		if err := to.flush(); err != nil {
			return err
		}
		brief, cancel := context.WithTimeout(ctx, keepalive)
		events, err := w.Next(brief)
		cancel()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, context.DeadlineExceeded):
			if err := to.send(&watchEvent{Keepalive: &empty{}}); err != nil {
				return err
			}
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		for _, e := range events {
			if e.Op == backend.FileLost {
				return errLost
			}
			if err := to.send(&watchEvent{Filesystem: &fileEvent{e.Name, eventTypes[e.Op]}}); err != nil {
				return err
			}
		}
	}
}

// Bounds of watchers that are asked for events.
const (
	maxWatchers = 16 // of a sandbox
	maxEvents   = 10_000
)

// poll is a watcher whose events wait to be asked for.
type poll struct {
	w      backend.Watcher
	events []fileEvent
	err    error
}

func createWatcher(_ context.Context, c *call, in *watchRequest) (*watcherDoc, error) {
	b := c.box
	w, err := b.watch(in)
	if err != nil {
		return nil, err
	}
	id, p := rand.Text(), &poll{w: w}
	b.mu.Lock()
	full := len(b.watchers) >= maxWatchers
	if !full {
		b.watchers[id] = p
	}
	b.mu.Unlock()
	if full {
		_ = w.Close()
		return nil, &rpcError{resourceExhausted, "the sandbox has 16 watchers"}
	}
	go func() {
		defer w.Close()
		for {
			events, err := w.Next(context.Background())
			if b.keep(p, events, err) {
				return
			}
		}
	}()
	return &watcherDoc{id}, nil
}

// keep keeps events to be asked for, and says whether that was the end of it.
func (b *box) keep(p *poll, events []backend.FileEvent, err error) (over bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range events {
		if e.Op == backend.FileLost || len(p.events) >= maxEvents {
			err = errLost
			break
		}
		p.events = append(p.events, fileEvent{e.Name, eventTypes[e.Op]})
	}
	if err == io.EOF { // the directory is gone, and what happened until then is told
		return true
	}
	p.err = err
	return err != nil
}

func (b *box) watcher(id string) (*poll, error) {
	if p := b.watchers[id]; p != nil {
		return p, nil
	}
	return nil, &rpcError{notFound, "there is no such watcher"}
}

func watcherEvents(_ context.Context, c *call, in *watcherDoc) (*eventsResponse, error) {
	c.box.mu.Lock()
	defer c.box.mu.Unlock()
	p, err := c.box.watcher(in.ID)
	if err != nil {
		return nil, err
	}
	if p.err != nil {
		return nil, p.err
	}
	all := &eventsResponse{Events: p.events}
	if p.events = nil; all.Events == nil {
		all.Events = []fileEvent{}
	}
	return all, nil
}

func removeWatcher(_ context.Context, c *call, in *watcherDoc) (*empty, error) {
	c.box.mu.Lock()
	defer c.box.mu.Unlock()
	p, err := c.box.watcher(in.ID)
	if err != nil {
		return nil, err
	}
	delete(c.box.watchers, in.ID)
	return &empty{}, p.w.Close()
}
