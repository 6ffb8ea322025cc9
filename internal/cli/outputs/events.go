package outputs

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor"
)

// Bounds on what waits for the reader of --events.
const (
	mostWaiting      = 1024    // lines
	mostBytesWaiting = 1 << 20 // of them
	// eventPatience is how long a reader may take nothing, at the end of a run, until what
	// waits for it is given up.
	eventPatience = 2 * time.Second
)

// eventLog writes what happens, a line each, as it happens. A file is written to at
// once. Whoever reads a pipe or a socket may be slow, or do nothing: lines wait for
// it in a bounded queue, and are dropped and counted beyond. No run ever waits for it.
//
// Its methods can be called at the same time.
type eventLog struct {
	sink  *Sink
	trace string

	mu      sync.Mutex
	began   time.Time    // of the target; guarded by mu
	sent    map[any]bool // what is sent only once; guarded by mu
	dropped int64        // since the last line that is on its way; guarded by mu
	queue   *queue       // nil: written at once
	err     error        // the first one; guarded by mu
	ended   bool         // guarded by mu
}

func newEvents(s *Sink, trace string) *eventLog {
	e := &eventLog{sink: s, trace: trace, sent: map[any]bool{}}
	if s.events == nil {
		e.queue = newQueue(s)
	}
	return e
}

// emit sends one line. With a key, only the first of that key is sent.
func (e *eventLog) emit(v status.Event, key any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if key != nil && e.sent[key] || e.err != nil || e.ended {
		return
	}
	if key != nil {
		e.sent[key] = true
	}
	now := time.Now()
	if v.Event == status.EventStarted {
		e.began = now
	}
	v.Time, v.TraceID = status.EventTime(now), e.trace
	if !e.began.IsZero() {
		v.ElapsedMS = max(0, now.Sub(e.began).Milliseconds())
	}
	e.ended = v.Event == status.EventEnded
	v.Dropped = e.dropped
	switch line := Encode(v); {
	case e.queue == nil:
		e.err = e.sink.write(line)
	case e.ended:
		e.queue.close(line)
	case e.queue.put(line):
		e.dropped = 0
	default:
		e.dropped++
	}
}

func (e *eventLog) started() { e.emit(status.Event{Event: status.EventStarted}, nil) }

func (e *eventLog) refused(v status.Violation) {
	e.emit(status.Event{Event: status.EventDenied, Denied: &v}, [3]string{v.Kind, v.What, v.Rule})
}

func (e *eventLog) limit(c status.Capability) {
	e.emit(status.Event{Event: status.EventLimitHit, Limit: c}, c)
}

func (e *eventLog) usage(l status.Load) {
	e.emit(status.Event{Event: status.EventUsage, Usage: &l}, nil)
}

// end tells what only the end has shown, and then the end.
func (e *eventLog) end(r *status.Report) error {
	for _, v := range r.Violations {
		e.refused(v)
	}
	for _, c := range r.LimitsHit {
		e.limit(status.Capability(c))
	}
	e.emit(status.Event{Event: status.EventEnded, Report: r}, nil)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.queue != nil {
		e.err = e.queue.end()
	} else if e.err == nil {
		e.err = e.sink.finish()
	}
	return e.err
}

// listen has a run tell what happens.
func (e *eventLog) listen(io *supervisor.Options) {
	io.Started, io.LimitHit, io.Usage = e.started, e.limit, e.usage
	denied := io.Denied
	io.Denied = func(v status.Violation) {
		e.refused(v)
		if denied != nil {
			denied(v)
		}
	}
	if attempt := io.Attempt; attempt != nil {
		io.Attempt = func(a status.Attempt) {
			if a.Verdict == status.AttemptBlocked {
				e.refused(a.Violation())
			}
			attempt(a)
		}
	}
}

// queue hands lines to a descriptor of which nobody knows when it takes them. The lock of its log
// is held where something is put into it.
type queue struct {
	sink  *Sink
	lines chan []byte
	last  []byte       // set before lines is closed
	bytes atomic.Int64 // of lines that wait
	taken atomic.Int64 // lines that were written
	done  chan struct{}
	err   error // set before done is closed
}

func newQueue(s *Sink) *queue {
	q := &queue{sink: s, lines: make(chan []byte, mostWaiting), done: make(chan struct{})}
	go q.run()
	return q
}

// put takes a line, unless too many wait.
func (q *queue) put(line []byte) bool {
	n := int64(len(line))
	if q.bytes.Load()+n > mostBytesWaiting {
		return false
	}
	q.bytes.Add(n)
	select {
	case q.lines <- line:
		return true
	default:
		q.bytes.Add(-n)
		return false
	}
}

// close takes the last line, for which there is always room.
func (q *queue) close(last []byte) {
	q.last = last
	close(q.lines)
}

// run writes. An error ends it: what comes then is dropped.
func (q *queue) run() {
	defer close(q.done)
	for line := range q.lines {
		q.bytes.Add(-int64(len(line)))
		if q.err = q.sink.write(line); q.err != nil {
			return
		}
		q.taken.Add(1)
	}
	q.err = q.sink.write(q.last)
}

// errSlowReader is a reader that did not take what was left.
var errSlowReader = errors.New("nobody reads it: the last events are lost")

// end waits until everything is taken, for as long as something is. That a reader has
// left is its own business.
func (q *queue) end() error {
	for {
		before := q.taken.Load()
		select {
		case <-q.done:
			if errors.Is(q.err, syscall.EPIPE) || errors.Is(q.err, syscall.ECONNRESET) {
				return nil
			}
			return q.err
		case <-time.After(eventPatience):
			if q.taken.Load() == before {
				return fmt.Errorf("%s %q: %w", q.sink.option, q.sink.spec, errSlowReader)
			}
		}
	}
}
