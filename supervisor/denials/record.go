package denials

import (
	"sync"
	"time"
)

// Call is a system call as the filter sees it.
type Call struct {
	Arch, Nr uint32
	Args     [6]uint64
}

// Answer is what the policy says to a call.
type Answer struct {
	What  string // the call in words
	Rule  string
	Kill  bool
	Errno uint16 // when it doesn't kill
	// Supervised: it is refused only where nobody makes it in the caller's place.
	Supervised bool
	// Let: it goes on, and is only told.
	Let bool
	// Untold: it is answered, and that is no denial that anybody has to hear of.
	Untold bool
}

// Exits is the rule of exit_group with a status that isn't 0, whose caller still has all
// that it had when it failed, and Aborts that of a SIGABRT to a thread. The kernel makes both.
const (
	Exits  = "exits"
	Aborts = "aborts"
)

// Judge knows the policy.
type Judge interface {
	// Answer says what becomes of a denied call. text reads a string of the caller's,
	// for words.
	Answer(c *Call, text func(addr uint64) string) Answer
	// Hint says what would let it through.
	Hint(c *Call) string
}

// Process is who made a call.
type Process struct {
	PID  int // as seen inside; 0: unknown
	Comm string
}

// Denial is one kind of denied call.
type Denial struct {
	Answer
	Call  Call      // the first of them
	By    Process   // who made that
	At    time.Time // of the first
	Last  time.Time
	Count int64
}

// most is how many kinds are told apart.
const most = 64

type kind struct {
	what, rule string
	kill       bool
}

// record keeps denials.
type record struct {
	mu     sync.Mutex
	seen   map[kind]int // index in list; guarded by mu
	list   []Denial     // guarded by mu
	others int64        // guarded by mu
	killed *Denial      // what the target was killed for; guarded by mu
}

// isNew says whether there is no such denial yet, and room for it.
func (r *record) isNew(a *Answer) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, found := r.seen[kind{a.What, a.Rule, a.Kill}]
	return !found && len(r.list) < most
}

// add counts a denial, and says whether there was none of its kind before.
func (r *record) add(d Denial) (first bool) {
	d.Count, d.Last = 1, d.At
	r.mu.Lock()
	defer r.mu.Unlock()
	k := kind{d.What, d.Rule, d.Kill}
	switch i, found := r.seen[k]; {
	case found:
		r.list[i].Count++
		r.list[i].Last = d.At
	case len(r.list) == most:
		r.others++
	default:
		if r.seen == nil {
			r.seen = make(map[kind]int)
		}
		r.seen[k] = len(r.list)
		r.list = append(r.list, d)
		return true
	}
	return false
}

// all are the denials, in the order of the first of each kind, and how many more there were.
func (r *record) all() ([]Denial, int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list, r.others
}

// kill notes what the target is killed for; the first counts.
func (r *record) kill(d *Denial) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.killed == nil {
		r.killed = d
	}
}
