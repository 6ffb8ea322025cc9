package sandboxes

import (
	"fmt"
	"sync"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/places"
	"github.com/confine-run/confine/status"
)

// Why a sandbox ended, where its backend doesn't know: one deadline is held, here, and this says which one it was.
const (
	CauseClosed   = "closed"   // somebody asked for it
	CauseLifetime = "lifetime" // its time was over
	CauseFailed   = "failed"   // a fault, which the error or the report says
	CauseIdle     = "idle"     // nothing ran, and nobody asked for anything
)

// maxProcesses is how many processes of a sandbox are remembered; of more, the oldest that have ended go.
const maxProcesses = 100

// Sandbox is one that stands, or what is known of one that stood.
type Sandbox struct {
	ID      string
	Name    string
	Owner   Owner
	Created time.Time
	// Events has what happens to the sandbox: its processes start and exit, it ends.
	Events *Log

	manager *Manager
	env     []string
	origin  []byte
	built
	departing departing
	closing   chan struct{} // closed when it begins to end
	changed   chan struct{} // of length 1: the deadlines are others
	ended     chan struct{} // closed when nothing is left, and over is set

	mu sync.Mutex
	terms
	deadlines
	last int // the number of the newest process
	ending
	roster
}

// ending is why a sandbox ends, and how it did.
type ending struct {
	cause, reason string
	over          *End // nil: it has not ended
	place         *places.Place
	weight        int // about what is kept in memory beside the word of its end; the manager's
}

// terms are what holds by now.
type terms struct {
	changing sync.Mutex // of the network, by one at a time; the rest is guarded by the sandbox's, as the policy
	labels   map[string]string
}

// deadlines are when a sandbox ends.
type deadlines struct {
	deadline time.Time     // zero: none
	idle     time.Duration // 0: for ever
	used     time.Time     // when nothing ran any more and nobody asked any more
	using    int           // processes that run, and clients that ask
	pooled   bool          // it was there before it was asked for: nobody waits for its end
}

// End says how a sandbox ended.
type End struct {
	Time   time.Time         `json:"time"`
	Cause  string            `json:"cause"`
	Reason string            `json:"reason"`
	Report *status.BoxReport `json:"report"`
	Error  string            `json:"error,omitempty"` // what could not be removed
}

func newSandbox(m *Manager, b built, owner Owner, r Request) *Sandbox {
	now := time.Now()
	s := &Sandbox{
		ID: newID(), Name: r.Name, Owner: owner, Created: now, Events: NewLog(m.opts.LogBytes),
		manager: m, env: r.Env, origin: r.Origin, built: b,
		closing: make(chan struct{}), changed: make(chan struct{}, 1), ended: make(chan struct{}),
		terms: terms{labels: r.Labels}, deadlines: deadlines{idle: r.Idle, used: now, pooled: r.Open != nil},
	}
	if r.Lifetime > 0 {
		s.deadline = now.Add(r.Lifetime)
	}
	s.tellEvents()
	return s
}

// watch ends the sandbox when it is time, and stays until nothing is left of it.
func (s *Sandbox) watch() {
	for {
		s.mu.Lock()
		at, cause, reason := s.nextDeadline()
		s.mu.Unlock()
		var timer <-chan time.Time
		if !at.IsZero() {
			timer = time.After(time.Until(at))
		}
		select {
		case <-s.changed:
			continue
		case <-timer:
			if s.expired(cause) {
				s.begin(cause, reason)
				s.finish()
				return
			}
		case <-s.box.Done():
			s.begin("", "")
			s.finish()
			return
		case <-s.closing:
			s.finish()
			return
		}
	}
}

// nextDeadline is when the sandbox ends if nothing happens. The caller holds mu.
func (s *Sandbox) nextDeadline() (at time.Time, cause, reason string) {
	at, cause, reason = s.deadline, CauseLifetime, "its lifetime is over"
	if s.idle > 0 && s.using == 0 {
		if idle := s.used.Add(s.idle); at.IsZero() || idle.Before(at) {
			at, cause, reason = idle, CauseIdle, fmt.Sprintf("nothing ran and nobody asked for anything for %v", s.idle)
		}
	}
	return at, cause, reason
}

// expired says whether the deadline is still what it was, and over.
func (s *Sandbox) expired(cause string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, now, _ := s.nextDeadline()
	return !at.IsZero() && !time.Now().Before(at) && now == cause
}

// begin begins the end. The first to call it says why.
func (s *Sandbox) begin(cause, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.closing:
	default:
		s.cause, s.reason = cause, reason
		close(s.closing)
	}
}

// finish ends everybody inside.
func (s *Sandbox) finish() {
	report, err := s.box.Close()
	s.built.end()
	for _, p := range s.Processes() {
		<-p.Done
	}
	end := &End{Time: time.Now().UTC(), Cause: s.cause, Reason: s.reason, Report: report}
	if end.Cause == "" && report != nil {
		end.Cause, end.Reason = string(report.Cause), report.Reason
	}
	if err != nil {
		end.Error = err.Error()
	}
	if end.Cause == "" {
		end.Cause, end.Reason = CauseFailed, "it ended without a word: "+end.Error
	}
	leave(s, report, err)
	s.mu.Lock()
	s.over = end
	s.mu.Unlock()
	s.Events.Close(Frame{Type: FrameEnded, Cause: end.Cause, Reason: end.Reason})
	s.manager.bury(s)
	s.place.Free()
	close(s.ended)
}

// weightOf is about what is kept in memory of a sandbox that has ended, beside the word of its end.
func weightOf(s *Sandbox) int {
	n := s.Events.size() + s.roster.size()
	if r := s.Ended().Report; r != nil {
		n += costOf(r.Violations...) + costOfTraffic(r.Network)
	}
	return n
}

// strip leaves of a sandbox the word of how it ended.
func strip(s *Sandbox) {
	s.Events.forget()
	s.roster.forget()
	s.mu.Lock()
	defer s.mu.Unlock()
	end := *s.over
	end.Report = nil
	s.over = &end
}

// Close ends the sandbox and everybody inside, and waits until nothing is left.
func (s *Sandbox) Close(cause, reason string) *End {
	s.begin(cause, reason)
	<-s.ended
	return s.Ended()
}

// End is Close, but doesn't wait for one that came from a pool: then it is nil.
func (s *Sandbox) End(cause, reason string) *End {
	if !s.pooled {
		return s.Close(cause, reason)
	}
	s.begin(cause, reason)
	return s.Ended()
}

// Ending says whether it has begun to end, or has ended.
func (s *Sandbox) Ending() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

// Done is closed when nothing is left of it.
func (s *Sandbox) Done() <-chan struct{} { return s.ended }

// Ended says how it ended; nil: it stands.
func (s *Sandbox) Ended() *End {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// Use keeps the sandbox from being idle until done is called.
func (s *Sandbox) Use() (done func()) {
	s.count(1)
	return sync.OnceFunc(func() { s.count(-1) })
}

func (s *Sandbox) count(by int) {
	s.mu.Lock()
	s.using += by
	s.used = time.Now()
	s.mu.Unlock()
	s.wake()
}

func (s *Sandbox) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// SetDeadlines changes how long it stays from now on; nil: as it was, 0: for ever.
func (s *Sandbox) SetDeadlines(lifetime, idle *time.Duration) {
	s.mu.Lock()
	if lifetime != nil {
		s.deadline = time.Time{}
		if *lifetime > 0 {
			s.deadline = time.Now().Add(*lifetime)
		}
	}
	if idle != nil {
		s.idle = *idle
	}
	s.mu.Unlock()
	s.wake()
}

// Deadlines are when its lifetime is over (zero: never) and how long it may be idle.
func (s *Sandbox) Deadlines() (deadline time.Time, idle time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deadline, s.idle
}

// Labels are the owner's.
func (s *Sandbox) Labels() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.labels
}

// SetLabels replaces them.
func (s *Sandbox) SetLabels(labels map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.labels = labels
}

// Ledger says what it enforces.
func (s *Sandbox) Ledger() status.Ledger { return boxOf(s).Ledger() }

// Files are those that processes inside see.
func (s *Sandbox) Files() backend.Files { return boxOf(s).Files() }
