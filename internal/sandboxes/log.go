package sandboxes

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/status"
)

// The types of frames.
const (
	FrameStarted = "started"
	FrameStdout  = "stdout"
	FrameStderr  = "stderr"
	FrameDenied  = "denied"
	FrameLimit   = "limit"
	// FrameUsage, like FrameKeepalive, is made for a reader.
	FrameUsage = "usage"
	FrameExit  = "exit"  // the last of a process
	FrameEnded = "ended" // the last of a sandbox
	// FrameKeepalive is made for a reader, and has no number of its own: it repeats the last.
	FrameKeepalive = "keepalive"
)

// Frame is something that happened. Of the fields after Type those are set that the type is about.
type Frame struct {
	Seq  uint64    `json:"seq"` // from 1, without gaps
	Time time.Time `json:"t"`
	Type string    `json:"type"`

	Data string `json:"data,omitempty"` // of an output, where it is UTF-8
	B64  []byte `json:"b64,omitempty"`  // of an output, where it is not

	Process int               `json:"process,omitempty"`
	Argv    []string          `json:"argv,omitempty"`
	Denied  *status.Violation `json:"denied,omitempty"`
	Limit   string            `json:"limit,omitempty"`
	Usage   *backend.Usage    `json:"usage,omitempty"`
	Report  *status.Report    `json:"report,omitempty"`
	Cause   string            `json:"cause,omitempty"`
	Reason  string            `json:"reason,omitempty"`
}

// Bytes are those of an output.
func (f *Frame) Bytes() []byte {
	if f.B64 != nil {
		return f.B64
	}
	return []byte(f.Data)
}

// cost is about what a frame takes in memory.
func (f *Frame) cost() int {
	n := 256 + len(f.Data) + len(f.B64)
	for _, word := range f.Argv {
		n += len(word)
	}
	if v := f.Denied; v != nil {
		n += costOf(*v)
	}
	if f.Report != nil {
		n += 4<<10 + costOf(f.Report.Violations...) + costOfTraffic(f.Report.Network)
	}
	return n
}

// costOf and costOfTraffic are about what those parts of reports take that the code inside makes long.
func costOf(all ...status.Violation) (n int) {
	for i := range all {
		n += 128 + len(all[i].What) + len(all[i].Rule) + len(all[i].Hint)
	}
	return n
}

func costOfTraffic(t *status.Traffic) (n int) {
	if t == nil {
		return 0
	}
	for i := range t.Attempts {
		n += 256 + len(t.Attempts[i].What) + len(t.Attempts[i].Name) + len(t.Attempts[i].Hint)
	}
	return n
}

// ErrDropped is the answer to a reader that asks for frames which are not kept any more.
var ErrDropped = errors.New("these frames are not kept any more")

// Log is a bounded record of frames. Its methods may be called from any goroutine.
type Log struct {
	mu      sync.Mutex
	max     int // bytes
	bytes   int
	frames  []Frame // the first has the number first
	first   uint64
	readers map[*Reader]bool
	changed chan struct{} // closed and made anew when there is more, or more room
	closed  bool
}

// NewLog makes a log that keeps about max bytes.
func NewLog(max int) *Log {
	return &Log{max: max, first: 1, readers: map[*Reader]bool{}, changed: make(chan struct{})}
}

// change wakes everybody who waits. The caller holds mu.
func (l *Log) change() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// Append adds a frame at once, whoever reads.
func (l *Log) Append(f Frame) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(f)
}

func (l *Log) add(f Frame) {
	if l.closed {
		return
	}
	f.Seq, f.Time = l.first+uint64(len(l.frames)), time.Now().UTC()
	l.frames = append(l.frames, f)
	l.bytes += f.cost()
	l.drop(len(l.frames) - 1)
	l.change()
}

// drop forgets the oldest frames, and not the last ones from keep on, until the log is within its bound: those that
// a reader which is there has not taken only when it is four times as large.
func (l *Log) drop(keep int) {
	needed := l.first + uint64(keep)
	for r := range l.readers {
		needed = min(needed, r.next)
	}
	n := 0
	for n < keep && (l.bytes > l.max && l.first+uint64(n) < needed || l.bytes > 4*l.max) {
		l.bytes -= l.frames[n].cost()
		n++
	}
	if n > 0 {
		clear(l.frames[:n])
		l.frames = l.frames[n:]
		l.first += uint64(n)
	}
}

// Close adds the last frame, however long it is: what was there stays.
func (l *Log) Close(last Frame) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.max += last.cost()
	l.add(last)
	l.closed = true
}

// size is about what the log takes in memory.
func (l *Log) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes
}

// forget leaves the last frame alone, unless somebody reads.
func (l *Log) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.readers) == 0 {
		l.max = 0
		l.drop(len(l.frames) - 1)
	}
}

// full says whether one more frame would drop one that a reader which is there has not taken. The caller holds mu.
func (l *Log) full() bool {
	if l.bytes < l.max {
		return false
	}
	for r := range l.readers {
		if r.next <= l.first {
			return true
		}
	}
	return false
}

// output adds what a process wrote. It waits while the log is full, until stop is closed.
func (l *Log) output(kind string, p []byte, stop <-chan struct{}) {
	f := Frame{Type: kind}
	if utf8.Valid(p) {
		f.Data = string(p)
	} else {
		f.B64 = append([]byte{}, p...)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.full() {
		changed := l.changed
		l.mu.Unlock()
		select {
		case <-changed:
		case <-stop:
			l.mu.Lock()
			l.add(f)
			return
		}
		l.mu.Lock()
	}
	l.add(f)
}

// Writer is one output stream of a process, as frames.
type Writer struct {
	log  *Log
	kind string
	stop <-chan struct{}
	part []byte // the beginning of a character whose rest is to come
}

// Writer makes frames of a kind out of what is written to it. When stop is closed, it waits for no reader.
func (l *Log) Writer(kind string, stop <-chan struct{}) *Writer {
	return &Writer{log: l, kind: kind, stop: stop}
}

func (w *Writer) Write(p []byte) (int, error) {
	text := append(w.part, p...)
	cut := len(text) - unfinished(text)
	if cut > 0 {
		w.log.output(w.kind, text[:cut], w.stop)
	}
	w.part = append([]byte(nil), text[cut:]...)
	return len(p), nil
}

// Flush writes what looked like the beginning of a character.
func (w *Writer) Flush() {
	if len(w.part) > 0 {
		w.log.output(w.kind, w.part, w.stop)
		w.part = nil
	}
}

// unfinished is how many bytes at the end begin a character that isn't complete.
func unfinished(p []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		if b := p[len(p)-n]; utf8.RuneStart(b) {
			if b >= utf8.RuneSelf && !utf8.FullRune(p[len(p)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

// Reader reads a log from some frame on.
type Reader struct {
	log  *Log
	next uint64
}

// Reader gives what is after the frame numbered after: 0 is the beginning, or what is left of it. While it is open, the log
// drops nothing that it has not taken.
func (l *Log) Reader(after uint64) (*Reader, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := after + 1
	switch {
	case after == 0:
		next = l.first
	case next < l.first:
		return nil, ErrDropped
	case next > l.first+uint64(len(l.frames)):
		return nil, errors.New("there is no such frame yet")
	}
	r := &Reader{l, next}
	l.readers[r] = true
	return r, nil
}

// Close lets go of what was not taken.
func (r *Reader) Close() {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	delete(r.log.readers, r)
	r.log.change()
}

// Next waits for frames, and gives at most 64 of them. After the last frame of all it is io.EOF.
func (r *Reader) Next(ctx context.Context) ([]Frame, error) {
	l := r.log
	for {
		l.mu.Lock()
		if r.next < l.first { // appended by somebody who doesn't wait
			r.next = l.first
		}
		some := l.frames[r.next-l.first:]
		if len(some) > 0 {
			some = append([]Frame(nil), some[:min(len(some), 64)]...)
			r.next += uint64(len(some))
			l.change()
			l.mu.Unlock()
			return some, nil
		}
		closed, changed := l.closed, l.changed
		l.mu.Unlock()
		if closed {
			return nil, io.EOF
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Last is the number of the newest frame.
func (l *Log) Last() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first + uint64(len(l.frames)) - 1
}
