package task

import (
	"io"
	"os"
	"sync"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/output"
)

// streams lead from those of a target to the readers and writers of its caller. The target has ends of pipes that were made for it, and
// never a file of the caller's.
type streams struct {
	exec   *backend.Exec
	limit  int64
	start  Start
	from   [3]*os.File // our ends of 1 and 2, and of what the terminal shows
	keys   *os.File    // our end of 0
	relays [3]*output.Relay
}

// connect makes the pipes.
func connect(e *backend.Exec, limit int64) (s *streams, err error) {
	s = &streams{exec: e, limit: limit, start: Start{Exec: e}}
	defer func() {
		if err != nil {
			s.drop()
		}
	}()
	if e.TTY != nil {
		if s.start.Keys, s.keys, err = os.Pipe(); err == nil {
			s.from[1], s.start.Screen, err = os.Pipe()
		}
		return s, err
	}
	if e.Stdin == nil {
		s.start.Streams[0], err = os.Open(os.DevNull)
	} else {
		s.start.Streams[0], s.keys, err = os.Pipe()
	}
	for fd := 1; fd <= 2 && err == nil; fd++ {
		s.from[fd], s.start.Streams[fd], err = os.Pipe()
	}
	return s, err
}

// begin moves bytes, now that the target has its ends.
func (s *streams) begin() {
	s.handedOver()
	if s.keys != nil && s.exec.Stdin != nil {
		go func() { // nobody waits for a reader that gives nothing any more
			_, _ = io.Copy(s.keys, s.exec.Stdin)
			if s.exec.TTY == nil {
				_ = s.keys.Close()
			}
		}()
	}
	out, errs := s.exec.Stdout, s.exec.Stderr
	if backend.SameWriter(out, errs) {
		one := &shared{to: out}
		out, errs = one, one
	}
	for fd, to := range []io.Writer{1: out, 2: errs} {
		if s.from[fd] != nil {
			s.relays[fd] = output.NewRelay(s.from[fd], to, s.limit, s.exec.TTY != nil)
			s.from[fd] = nil
		}
	}
}

// handedOver lets go of the ends that the target has now.
func (s *streams) handedOver() {
	for _, f := range append(s.start.Streams[:], s.start.Keys, s.start.Screen) {
		if f != nil {
			_ = f.Close()
		}
	}
	s.start.Streams, s.start.Keys, s.start.Screen = [3]*os.File{}, nil, nil
}

// drop closes all that nobody has begun to use.
func (s *streams) drop() {
	s.handedOver()
	for _, f := range append(s.from[:], s.keys) {
		if f != nil {
			_ = f.Close()
		}
	}
}

// end waits until the caller has what the target wrote.
func (s *streams) end(patience time.Duration) {
	if s == nil {
		return
	}
	s.drop()
	for _, r := range s.relays {
		if r != nil {
			r.End(pending, patience)
		}
	}
}

// report tells what passed.
func (s *streams) report(r *status.Report) {
	if s == nil {
		return
	}
	for fd, to := range []struct {
		bytes     *int64
		truncated *bool
	}{1: {&r.Bytes.Stdout, &r.Truncated.Stdout}, 2: {&r.Bytes.Stderr, &r.Truncated.Stderr}} {
		if relay := s.relays[fd]; relay != nil {
			*to.bytes, *to.truncated = relay.Bytes(), relay.Truncated()
		}
	}
}

// shared is a writer that two streams write to, one at a time.
type shared struct {
	mu sync.Mutex
	to io.Writer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.to.Write(p)
}
