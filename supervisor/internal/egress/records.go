package egress

import (
	"sort"
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

// remember finds out whose flow it is, while that can be found, if it will be told. To
// look for it is work, which a target must not make us do as often as it likes: it is
// done once for each kind.
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
	attempts      map[key]*status.Attempt
	owners        map[key]owner         // those that are under way
	pending       map[key]chan struct{} // those whose process is being looked for; closed when that is over
	others        int64
	othersRefused int64 // of these, what a rule refused
	most          int64
	total         int64
	sent          int64
	received      int64
	exhausted     bool // a limit of bytes or connections
}

type key struct{ protocol, what, verdict, why string }

// owner is a process inside, if one was found.
type owner struct {
	pid  int
	comm string
}

// startSearch says whether nobody has looked yet whose attempts of a kind are.
func (j *journal) startSearch(k key) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, under := j.owners[k]; under || j.attempts[k] != nil || len(j.owners) >= maxAttempts {
		return false
	}
	if j.owners == nil {
		j.owners = map[key]owner{}
	}
	j.owners[k] = owner{}
	return true
}

// setOwner keeps whose they are.
func (j *journal) setOwner(k key, w owner) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.owners[k] = w
}

// countIncoming counts a connection from outside, which is nobody's attempt.
func (j *journal) countIncoming(sent, received int64, why string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.sent += sent
	j.received += received
	j.exhausted = j.exhausted || why == whyBytes || why == whyConnections
}

// add notes an attempt. who finds its process, and is asked only for what is new. While it
// is, others of the kind are given known, which is closed when that is over: they come from the
// same process, mostly, which may go away as soon as it has its answer.
func (j *journal) add(a status.Attempt, who func() (pid int, comm string)) (known <-chan struct{}) {
	k := key{a.Protocol, a.What, a.Verdict, a.Why}
	j.mu.Lock()
	j.total++
	j.sent += a.SentBytes
	j.received += a.ReceivedBytes
	if a.Why == whyBytes || a.Why == whyConnections {
		j.exhausted = true
	}
	if old := j.attempts[k]; old != nil {
		old.Count++
		old.LastMS = time.Since(j.began).Milliseconds()
		old.SentBytes += a.SentBytes
		old.ReceivedBytes += a.ReceivedBytes
		known = j.pending[k]
		j.mu.Unlock()
		return known
	}
	if len(j.attempts) >= maxAttempts {
		j.others++
		if a.Verdict == status.AttemptBlocked {
			j.othersRefused++
		}
		j.mu.Unlock()
		return nil
	}
	if j.attempts == nil {
		j.attempts = map[key]*status.Attempt{}
	}
	a.Count = 1
	a.FirstMS = time.Since(j.began).Milliseconds()
	a.LastMS = a.FirstMS
	kept := &a
	j.attempts[k] = kept
	if j.pending == nil {
		j.pending = map[key]chan struct{}{}
	}
	over := make(chan struct{})
	j.pending[k] = over
	j.mu.Unlock()
	pid, comm := 0, ""
	if who != nil {
		pid, comm = who()
	}
	j.mu.Lock()
	if pid == 0 {
		pid, comm = j.owners[k].pid, j.owners[k].comm
	}
	kept.PID, kept.Comm = pid, comm
	told := *kept
	delete(j.pending, k)
	j.mu.Unlock()
	close(over)
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
	for _, a := range j.attempts {
		s.Attempts = append(s.Attempts, *a)
	}
	sort.Slice(s.Attempts, func(a, b int) bool {
		x, y := &s.Attempts[a], &s.Attempts[b]
		if x.FirstMS != y.FirstMS {
			return x.FirstMS < y.FirstMS
		}
		return x.What < y.What
	})
	return s
}
