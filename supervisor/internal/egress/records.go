package egress

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/confine-run/confine/internal/network"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/internal/egress/names"
)

// records are the attempts of a run, and whose they were.
type records struct {
	log     journal
	process processes
}

// note enters a flow in the journal.
func (r *records) note(f *flow, verdict, why string) {
	a := status.Attempt{
		Protocol: f.protocol, What: f.what(), Name: f.name, Address: f.to.Addr().String(), Port: int(f.to.Port()),
		Verdict: verdict, Why: why, Claimed: f.claimed, Rule: f.verdict.Rule, Hint: f.verdict.Hint,
		SentBytes: f.sent.Load(), ReceivedBytes: f.received.Load(),
	}
	if f.name != "" {
		a.Address = f.dialled
	}
	if why == whyBytes {
		a.Hint = "--network-bytes SIZE"
	}
	r.log.add(a, func() (int, string) {
		if verdict != status.AttemptAllowed {
			r.identify(f)
		}
		return f.pid, f.comm
	})
}

// noteQuestion enters a question that was refused, which is not answered before it is
// known whose it is.
func (r *records) noteQuestion(f *flow, name, why string, v network.Verdict) {
	if why == string(names.WhyNotAllowed) && v.Why == network.ReasonDenied {
		why = string(v.Why) // as for an address: some word names it
	}
	a := status.Attempt{Protocol: "dns", What: name, Name: name, Verdict: status.AttemptBlocked, Why: why, Rule: v.Rule, Hint: v.Hint}
	known := r.log.add(a, func() (int, string) {
		if f.pid != 0 {
			return f.pid, f.comm
		}
		return r.process.of(f.protocol, f.from)
	})
	if known != nil {
		<-known
	}
}

// remember searches for the process of a flow that will be noted later, while its socket is still there. A search is
// work that a target must not cause as often as it likes, so there is one for each kind of attempts.
func (r *records) remember(f *flow, verdict, why string) {
	if k := (key{f.protocol, f.what(), verdict, why}); r.log.startSearch(k) {
		r.identify(f)
		r.log.setOwner(k, owner{f.pid, f.comm})
	}
}

func (r *records) identify(f *flow) {
	if f.pid == 0 && !f.incoming {
		f.pid, f.comm = r.process.of(f.protocol, f.from)
	}
}

// maxAttempts bounds how many kinds are told apart; the rest is counted.
const maxAttempts = 1024

// journal keeps attempts, the same ones together.
type journal struct {
	tell  func(status.Attempt)
	began time.Time

	telling sync.Mutex // tell is called one at a time, and holds nobody else up

	mu            sync.Mutex
	kinds         map[key]*kind
	noted         int // of these
	others        int64
	othersRefused int64 // of these, what a rule refused
	most          int64
	total         int64
	sent          int64
	received      int64
	exhausted     bool // a limit of bytes or connections
}

type key struct{ protocol, what, verdict, why string }

// kind is the attempts that are the same.
type kind struct {
	attempt status.Attempt // Count is 0 until the first is noted
	owner   owner          // that was found before the first was noted
	pending chan struct{}  // closed when it is known; nil once it is
}

// owner is a process inside, if one was found.
type owner struct {
	pid  int
	comm string
}

// startSearch says whether the process of this kind of attempts has to be searched for. It is true once.
func (j *journal) startSearch(k key) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.kinds[k] != nil || len(j.kinds) >= 2*maxAttempts {
		return false
	}
	j.kinds[k] = &kind{}
	return true
}

// setOwner keeps the process that was found.
func (j *journal) setOwner(k key, o owner) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.kinds[k].owner = o
}

// countIncoming counts a connection from outside, which is nobody's attempt.
func (j *journal) countIncoming(sent, received int64, why string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.sent += sent
	j.received += received
	j.exhausted = j.exhausted || why == whyBytes || why == whyConnections
}

// add notes an attempt. It calls who, which searches for the process, for the first of a kind only. Meanwhile others
// of the kind get known, which is closed when the search is over: they mostly come from the same process, which may
// exit as soon as it has its answer.
func (j *journal) add(a status.Attempt, who func() (pid int, comm string)) (known <-chan struct{}) {
	k := key{a.Protocol, a.What, a.Verdict, a.Why}
	j.mu.Lock()
	j.total++
	j.sent += a.SentBytes
	j.received += a.ReceivedBytes
	if a.Why == whyBytes || a.Why == whyConnections {
		j.exhausted = true
	}
	it := j.kinds[k]
	switch {
	case it != nil && it.attempt.Count > 0:
		old := &it.attempt
		old.Count++
		old.LastMS = time.Since(j.began).Milliseconds()
		old.SentBytes += a.SentBytes
		old.ReceivedBytes += a.ReceivedBytes
		known = it.pending
		j.mu.Unlock()
		return known
	case j.noted >= maxAttempts:
		j.others++
		if a.Verdict == status.AttemptBlocked {
			j.othersRefused++
		}
		j.mu.Unlock()
		return nil
	case it == nil:
		it = &kind{}
		j.kinds[k] = it
	}
	j.noted++
	a.Count = 1
	a.FirstMS = time.Since(j.began).Milliseconds()
	a.LastMS = a.FirstMS
	it.attempt, it.pending = a, make(chan struct{})
	j.mu.Unlock()
	var o owner
	if who != nil {
		o.pid, o.comm = who()
	}
	j.mu.Lock()
	if o.pid == 0 {
		o = it.owner
	}
	it.attempt.PID, it.attempt.Comm = o.pid, o.comm
	told := it.attempt
	close(it.pending)
	it.pending = nil
	j.mu.Unlock()
	if j.tell != nil {
		j.telling.Lock()
		defer j.telling.Unlock()
		j.tell(told)
	}
	return nil
}

func (j *journal) opened(now int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.most = max(j.most, now)
}

// Summary is what went out of a run, and what did not.
type Summary struct {
	Attempts      []status.Attempt // by the time of the first
	Others        int64            // attempts of further kinds
	OthersRefused int64            // of these, what a rule refused
	Total         int64
	Connections   int64 // the most at one time
	Sent          int64
	Received      int64
	Exhausted     bool // a limit of bytes or connections was reached
}

// Summary says what was attempted so far.
func (r *records) Summary() Summary {
	j := &r.log
	j.mu.Lock()
	defer j.mu.Unlock()
	s := Summary{Attempts: []status.Attempt{}, Others: j.others, OthersRefused: j.othersRefused, Total: j.total, Connections: j.most, Sent: j.sent, Received: j.received, Exhausted: j.exhausted}
	for _, it := range j.kinds {
		if it.attempt.Count > 0 {
			s.Attempts = append(s.Attempts, it.attempt)
		}
	}
	slices.SortFunc(s.Attempts, func(a, b status.Attempt) int {
		return cmp.Or(cmp.Compare(a.FirstMS, b.FirstMS), cmp.Compare(a.What, b.What))
	})
	return s
}

// Traffic is its form in a report.
func (s *Summary) Traffic() *status.Traffic {
	return &status.Traffic{
		Attempts: s.Attempts, Others: s.Others, Connections: s.Connections, SentBytes: s.Sent, ReceivedBytes: s.Received,
	}
}

// Refused is how often the rules refused something.
func (s *Summary) Refused() (times int64) {
	for _, a := range s.Attempts {
		if a.Verdict == status.AttemptBlocked {
			times += a.Count
		}
	}
	return times + s.OthersRefused
}

// Violations are the attempts that the rules refused.
func (s *Summary) Violations() (list []status.Violation) {
	for _, a := range s.Attempts {
		if a.Verdict == status.AttemptBlocked {
			list = append(list, a.Violation())
		}
	}
	if s.OthersRefused > 0 {
		list = append(list, status.Violation{
			Kind: "network", What: "other hosts", Count: s.OthersRefused,
			Hint: "they are of more kinds than are told apart",
		})
	}
	return list
}
