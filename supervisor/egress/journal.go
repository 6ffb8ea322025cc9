package egress

import (
	"sort"
	"sync"
	"time"
)

// Verdicts of attempts.
const (
	Allowed = "allowed"
	Blocked = "blocked" // by a rule, or for want of one
	Failed  = "failed"  // allowed, but the other side could not be reached
)

// Attempt is one kind of attempt to reach something: the same again is counted.
type Attempt struct {
	First    time.Duration // since the run began
	Protocol string        // "tcp", "udp" or "dns"
	What     string        // HOST:PORT, or the name alone for a question
	Name     string        // domain name, or ""
	Address  string        // the other side's, if one was dialled or meant
	Port     uint16        // 0 for a question
	PID      int           // as seen inside, 0 if nobody could be found
	Comm     string
	Verdict  string
	Why      string // an identifier; "" for what was allowed
	Rule     string // the policy's word that decided, or ""
	Hint     string // the flag that would allow it, or ""
	Count    int64
	Sent     int64 // bytes
	Received int64
}

// maxAttempts bounds how many kinds are told apart; the rest is counted.
const maxAttempts = 1024

// journal keeps attempts, the same ones together.
type journal struct {
	tell  func(Attempt)
	began time.Time

	telling sync.Mutex // tell is called one at a time, and holds nobody else up

	mu        sync.Mutex
	attempts  map[key]*Attempt
	others    int64
	most      int64
	total     int64
	sent      int64
	received  int64
	exhausted bool // a limit of bytes or connections
}

type key struct{ protocol, what, verdict, why string }

// add notes an attempt. who finds its process, and is asked only for what is new.
func (j *journal) add(a Attempt, who func() (pid int, comm string)) {
	k := key{a.Protocol, a.What, a.Verdict, a.Why}
	j.mu.Lock()
	j.total++
	j.sent += a.Sent
	j.received += a.Received
	if a.Why == whyBytes || a.Why == whyConnections {
		j.exhausted = true
	}
	if old := j.attempts[k]; old != nil {
		old.Count++
		old.Sent += a.Sent
		old.Received += a.Received
		j.mu.Unlock()
		return
	}
	if len(j.attempts) >= maxAttempts {
		j.others++
		j.mu.Unlock()
		return
	}
	if j.attempts == nil {
		j.attempts = map[key]*Attempt{}
	}
	a.Count = 1
	if a.First == 0 {
		a.First = time.Since(j.began)
	}
	kept := &a
	j.attempts[k] = kept
	j.mu.Unlock()
	pid, comm := 0, ""
	if who != nil {
		pid, comm = who()
	}
	j.mu.Lock()
	kept.PID, kept.Comm = pid, comm
	told := *kept
	j.mu.Unlock()
	if j.tell != nil {
		j.telling.Lock()
		defer j.telling.Unlock()
		j.tell(told)
	}
}

func (j *journal) opened(now int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.most = max(j.most, now)
}

// Summary is what went out of a run, and what did not.
type Summary struct {
	Attempts    []Attempt // by the time of the first
	Others      int64     // attempts of further kinds
	Total       int64
	Connections int64 // the most at one time
	Sent        int64
	Received    int64
	Exhausted   bool // a limit of bytes or connections was reached
}

// Summary says what was attempted so far.
func (g *Gateway) Summary() Summary {
	j := &g.log
	j.mu.Lock()
	defer j.mu.Unlock()
	s := Summary{Others: j.others, Total: j.total, Connections: j.most, Sent: j.sent, Received: j.received, Exhausted: j.exhausted}
	for _, a := range j.attempts {
		s.Attempts = append(s.Attempts, *a)
	}
	sort.Slice(s.Attempts, func(a, b int) bool {
		x, y := &s.Attempts[a], &s.Attempts[b]
		if x.First != y.First {
			return x.First < y.First
		}
		return x.What < y.What
	})
	return s
}
