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
	most  int64 // bytes, but for the last line; 0: no bound

	mu      sync.Mutex
	phase   time.Time    // when the last part of the start was done; guarded by mu
	began   time.Time    // of the target; guarded by mu
	sent    map[any]bool // what is sent only once; guarded by mu
	size    int64        // of the lines; guarded by mu
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
	if v.Phase != nil {
		v.Phase.US, e.phase = now.Sub(e.phase).Microseconds(), now
	}
	e.ended = v.Event == status.EventEnded
	v.Dropped = e.dropped
	switch line := Encode(v); {
	case e.most > 0 && e.size+int64(len(line)) > e.most && !e.ended:
		e.dropped++
	case e.queue == nil:
		e.err, e.dropped = e.sink.write(line), 0
		e.size += int64(len(line))
	case e.ended:
		e.queue.close(line)
	case e.queue.put(line):
		e.dropped = 0
		e.size += int64(len(line))
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
	if e.most > 0 { // a record is about how it went: what was written is the caller's
		without := *r
		without.Stdout, without.Stderr = "", ""
		r = &without
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

// listen has a run tell what happens, beside whoever is told already.
func (e *eventLog) listen(io *supervisor.Options) {
	started, limit, denied, attempt := io.Started, io.LimitHit, io.Denied, io.Attempt
	io.Started = func() {
		e.started()
		if started != nil {
			started()
		}
	}
	io.LimitHit = func(c status.Capability) {
		e.limit(c)
		if limit != nil {
			limit(c)
		}
	}
	io.Denied = func(v status.Violation) {
		e.refused(v)
		if denied != nil {
			denied(v)
		}
	}
	io.Attempt = func(a status.Attempt) {
		if a.Verdict == status.AttemptBlocked {
			e.refused(a.Violation())
		} else if e.most > 0 {
			e.emit(status.Event{Event: status.EventReached, Reached: &a}, [3]string{a.Protocol, a.What, a.Verdict})
		}
		if attempt != nil {
			attempt(a)
		}
	}
}

// mostRecorded bounds a record: what comes beyond is counted, but for the end.
const mostRecorded = 64 << 20

// newRecord is for --record: events, but for usage, and what only a record has.
func newRecord(s *Sink, trace string, of status.Record) *eventLog {
	e := newEvents(s, trace)
	e.most, e.phase = mostRecorded, time.Now()
	of.Version = status.RecordVersion
	e.emit(status.Event{Event: status.EventRecord, Record: &of}, nil)
	return e
}

// record has a run tell what a record has.
func (e *eventLog) record(io *supervisor.Options) {
	e.listen(io)
	io.Record = func(v status.Event) { e.emit(v, nil) }
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
