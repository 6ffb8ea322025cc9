package cli

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// queue hands lines to a descriptor of which nobody knows when it takes them.
type queue struct {
	sink *sink

	mu     sync.Mutex
	lines  [][]byte // guarded by mu
	bytes  int      // of them; guarded by mu
	closed bool     // guarded by mu
	wake   chan struct{}
	done   chan struct{}
	taken  atomic.Int64 // lines that were written
	err    error        // set before done is closed
}

func newQueue(s *sink) *queue {
	q := &queue{sink: s, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go q.run()
	return q
}

// put takes a line, unless too many wait. For the last one there is always room, and
// the queue ends after it.
func (q *queue) put(line []byte, last bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !last && (len(q.lines) >= mostWaiting || q.bytes+len(line) > mostBytesWaiting) {
		return false
	}
	q.lines = append(q.lines, line)
	q.bytes += len(line)
	q.closed = q.closed || last
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return true
}

func (q *queue) next() (line []byte, ended bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.lines) == 0 {
		return nil, q.closed
	}
	line = q.lines[0]
	q.lines = q.lines[1:]
	q.bytes -= len(line)
	return line, false
}

// run writes. An error ends it: what comes then is dropped.
func (q *queue) run() {
	defer close(q.done)
	for {
		line, ended := q.next()
		switch {
		case ended:
			return
		case line == nil:
			<-q.wake
			continue
		}
		if q.err = q.sink.write(line); q.err != nil {
			return
		}
		q.taken.Add(1)
	}
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
