package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Lease is a worker's right to run jobs. It ends unless it is renewed, and with it everything that the worker runs: it is the worker's
// business to look at Left, and to have ended that when nothing is left.
type Lease struct {
	Name string // of this start of the worker

	q        *Queue
	mu       sync.Mutex
	info     WorkerInfo
	revision uint64
	until    time.Duration
	gone     bool
}

// ErrGone: others hold this worker for gone. It can't be heard any more, and begins anew under another name.
var ErrGone = errors.New("the worker was silent for too long: others do its jobs")

// Enlist makes a worker known.
func (q *Queue) Enlist(ctx context.Context, info WorkerInfo) (*Lease, error) {
	l := &Lease{Name: NewID(), q: q, info: info}
	return l, l.write(ctx)
}

// Renew says that the worker is there. One at a time does.
func (l *Lease) Renew(ctx context.Context, used Need, jobs, sessions int) error {
	l.mu.Lock()
	l.info.Used, l.info.Jobs, l.info.Sessions = used, jobs, sessions
	l.mu.Unlock()
	err := l.write(ctx)
	if !errors.Is(err, ErrChanged) {
		return err
	}
	// An answer was lost, or somebody holds it for gone, or has written what he may not.
	text, revision, err := last(ctx, l.q, workerStream, workerKey+l.Name)
	if err != nil && !errors.Is(err, errLent) {
		return err
	}
	var now WorkerInfo
	if err == nil && (json.Unmarshal(text, &now) != nil || now.Gone) {
		l.mu.Lock()
		l.gone = true
		l.mu.Unlock()
		return ErrGone
	}
	l.mu.Lock()
	l.revision = revision
	l.mu.Unlock()
	return l.write(ctx)
}

// write writes the worker's key. The lease lasts from when it was sent, since others count from when they see it.
func (l *Lease) write(ctx context.Context) error {
	l.mu.Lock()
	l.info.Beat++
	info, revision, sent := l.info, l.revision, boottime()
	l.mu.Unlock()
	ttl := time.Duration(0)
	if info.Gone {
		ttl = goneKeep
	}
	revision, err := l.q.put(ctx, workerKey+l.Name, info, revision, ttl)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.revision, l.until = revision, sent+info.Lease.Duration()
	return nil
}

// Left is for how long it lasts.
func (l *Lease) Left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone {
		return 0
	}
	return l.until - boottime()
}

// Leave says that the worker runs nothing any more.
func (l *Lease) Leave(ctx context.Context) error {
	l.mu.Lock()
	l.info.Gone = true
	l.mu.Unlock()
	return l.write(ctx)
}

// stopSubject is that of requests to end a server of one user, with its worker.
const stopSubject = "confine.embedded.stop"

// OnStop calls a function when somebody asks for the end of a server of one user.
func (q *Queue) OnStop(do func()) error {
	_, err := q.nc.Subscribe(stopSubject, func(m *nats.Msg) {
		_ = m.Respond(nil)
		do()
	})
	return err
}

// Stop asks for that.
func (q *Queue) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, apiTime)
	defer cancel()
	_, err := q.nc.RequestWithContext(ctx, stopSubject, nil)
	return err
}

// OnCancel calls a function when somebody wants a job of this worker's cancelled. What it gives is closed when the job has ended; nil:
// it isn't run here.
func (l *Lease) OnCancel(do func(Key) <-chan struct{}) (stop func(), err error) {
	sub, err := l.q.nc.Subscribe(workerSubject+l.Name, func(m *nats.Msg) {
		key, err := ParseKey(string(m.Data))
		if err != nil {
			return
		}
		if ended := do(key); ended != nil {
			go func() {
				<-ended
				_ = m.Respond(nil)
			}()
			return
		}
		_ = m.Respond(nil)
	})
	if err != nil {
		return nil, err
	}
	return func() { _ = sub.Unsubscribe() }, nil
}
