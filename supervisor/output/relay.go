package output

import (
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Relay moves one output of a target to a writer of the caller's under a limit, by a goroutine that reads and writes. It is for
// systems on which there is no [Pump], and for writers that are no descriptors.
type Relay struct {
	from     *os.File
	to       io.Writer // nil: what is read is dropped
	terminal bool

	total   atomic.Int64
	waiting atomic.Bool // in a read
	left    atomic.Bool // what is read from now on is nobody's business
	done    chan struct{}

	mu    sync.Mutex
	meter meter
	err   error
}

// NewRelay begins to move what is read, which the Relay closes. limit 0 is none; terminal says that the writer is one.
func NewRelay(from *os.File, to io.Writer, limit int64, terminal bool) *Relay {
	r := &Relay{from: from, to: to, terminal: terminal, done: make(chan struct{}), meter: meter{limit: limit, due: -1}}
	go r.run()
	return r
}

func (r *Relay) run() {
	defer close(r.done)
	defer r.from.Close()
	buf := make([]byte, bufSize)
	for {
		r.waiting.Store(true)
		n, err := r.from.Read(buf)
		r.waiting.Store(false)
		if n > 0 && !r.left.Load() && !r.pass(buf[:n]) {
			return
		}
		if err != nil {
			return
		}
	}
}

// pass hands on what the limit lets through. It is false when nobody reads any more: then the target is to hear of it.
func (r *Relay) pass(p []byte) bool {
	r.mu.Lock()
	over := r.meter.over
	p = r.meter.admit(p)
	r.total.Store(r.meter.total)
	var mark string
	if r.meter.over && !over {
		mark = r.meter.mark(r.terminal)
	}
	failed := r.err != nil
	r.mu.Unlock()
	if r.to == nil || over || failed {
		return !failed
	}
	_, err := r.to.Write(append(p[:len(p):len(p)], mark...))
	if err == nil {
		return true
	}
	r.mu.Lock()
	r.err = err
	r.mu.Unlock()
	return false
}

// Bytes is how much the target has written so far, what was dropped included.
func (r *Relay) Bytes() int64 { return r.total.Load() }

// Truncated says whether the limit was crossed.
func (r *Relay) Truncated() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.meter.over
}

// Err is why the writer took no more.
func (r *Relay) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// End waits until all is handed on that was written before it was called, by a target that has ended; others may still hold the
// pipe, and what they write is dropped. pending says how much lies in the pipe, as far as that can be told. patience bounds how long a slow
// writer is waited for; below 0 it isn't bounded.
func (r *Relay) End(pending func(*os.File) int, patience time.Duration) {
	const often, still = time.Millisecond, 25 // a read that is about to begin has said already that it waits
	began := time.Now()
	for empty := 0; empty < still; {
		select {
		case <-r.done:
			return
		case <-time.After(often):
		}
		if empty++; !r.waiting.Load() || pending(r.from) > 0 {
			empty = 0
		}
		if patience >= 0 && time.Since(began) > patience {
			break
		}
	}
	r.left.Store(true)
}
