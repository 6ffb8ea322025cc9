package worker

import (
	"context"
	"sync"
	"time"

	"github.com/confine-run/confine/internal/jobs"
)

const (
	inRecord = 32 << 10               // bytes of output that a record has room for
	delay    = 200 * time.Millisecond // for which output waits for more
	pending  = 256 << 10              // bytes that wait to be sent: who writes more waits, too
)

// output takes what a job writes. What is short, and ends soon, becomes part of the record; the rest is sent while it is written.
type output struct {
	send func(*jobs.Chunk) error

	mu       sync.Mutex
	changed  *sync.Cond
	waiting  []jobs.Chunk
	bytes    int
	streamed bool
	closed   bool
	err      error
	sent     chan struct{} // closed when the sender has ended
	urge     *time.Timer
	late     bool // what waits has waited for long enough
}

func newOutput(ctx context.Context, q *jobs.Queue, key jobs.Key, run, attempt int) *output {
	o := &output{sent: make(chan struct{})}
	o.changed = sync.NewCond(&o.mu)
	o.send = func(c *jobs.Chunk) error {
		c.Run, c.Attempt = run, attempt
		return q.Write(ctx, key, c)
	}
	o.urge = time.AfterFunc(time.Hour, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.late = true
		o.changed.Broadcast()
	})
	go o.sender()
	return o
}

// sender sends what is too much, or too old, for the record.
func (o *output) sender() {
	defer close(o.sent)
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		for !o.closed && !(len(o.waiting) > 0 && (o.late || o.bytes > inRecord || o.streamed && o.late)) {
			o.changed.Wait()
		}
		if o.closed && !o.streamed && o.bytes <= inRecord || o.closed && len(o.waiting) == 0 {
			return
		}
		some := o.waiting
		o.waiting, o.bytes, o.late, o.streamed = nil, 0, false, true
		o.changed.Broadcast()
		o.mu.Unlock()
		var err error
		for i := range some {
			if err == nil {
				err = o.send(&some[i])
			}
		}
		o.mu.Lock()
		if o.err == nil {
			o.err = err
		}
	}
}

// stream is the writer of a stream.
func (o *output) stream(name string) *stream { return &stream{o, name} }

type stream struct {
	o    *output
	name string
}

func (s *stream) Write(b []byte) (int, error) {
	o := s.o
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(b)
	for len(b) > 0 {
		for o.bytes >= pending && o.err == nil {
			o.changed.Wait()
		}
		if o.err != nil {
			return n - len(b), o.err
		}
		part := b[:min(len(b), jobs.MaxChunk)]
		b = b[len(part):]
		if len(o.waiting) == 0 {
			o.urge.Reset(delay)
		}
		if last := len(o.waiting) - 1; last >= 0 && o.waiting[last].Stream == s.name && len(o.waiting[last].Data)+len(part) <= jobs.MaxChunk {
			o.waiting[last].Data = append(o.waiting[last].Data, part...)
		} else {
			o.waiting = append(o.waiting, jobs.Chunk{Stream: s.name, Data: append([]byte(nil), part...)})
		}
		if o.bytes += len(part); o.bytes > inRecord {
			o.changed.Broadcast()
		}
	}
	return n, nil
}

// close ends it. What it gives is for the record; streamed: it was sent.
func (o *output) close() (written []jobs.Chunk, streamed bool, err error) {
	o.urge.Stop()
	o.mu.Lock()
	o.closed = true
	o.changed.Broadcast()
	o.mu.Unlock()
	<-o.sent
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.streamed && o.err == nil {
		o.err = o.send(&jobs.Chunk{End: true})
	}
	return o.waiting, o.streamed, o.err
}
