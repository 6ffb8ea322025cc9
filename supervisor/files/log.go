package files

import (
	"strconv"
	"strings"
	"sync"
	"time"
)

// Refusal is what the rules say to an access that they refuse.
type Refusal struct {
	Rule string
	Hint string // "--allow-read /etc/shadow"
}

// Judge says whether the rules refuse an access; it is asked while the caller waits.
type Judge func(*Access) (Refusal, bool)

// Refused is one kind of refused access.
type Refused struct {
	Refusal
	What  string // "read /etc/shadow"
	PID   int
	Comm  string
	At    time.Time // of the first
	Last  time.Time
	Count int64
}

// Bounds of a log: how much is told apart, and how many judgements are kept, so that
// nothing is asked twice.
const (
	mostRefused = 1024
	mostJudged  = 4096
)

// Log keeps the accesses that the rules refuse. A nil one has heard of none.
type Log struct {
	judge Judge
	tell  chan *Refused // has room for all that there can be; nil: nobody is told
	done  chan struct{}

	mu     sync.Mutex
	judged map[question]int // index in list, or one of these; guarded by mu
	list   []Refused        // guarded by mu
	others int64            // guarded by mu
}

const (
	granted   = -1
	uncounted = -2 // refused, and one of the others
)

// endPatience is how long the end of a run waits for what still goes on.
const endPatience = time.Second

// question is all that a judgement depends on.
type question struct {
	path             string
	wish             Wish
	exists, readOnly bool
	inPlace          bool
}

// NewLog makes one. told, if not nil, is called for each kind, the first time, one at a
// time, and may wait: no caller waits for it.
func NewLog(judge Judge, told func(*Refused)) *Log {
	l := &Log{judge: judge, done: make(chan struct{}), judged: make(map[question]int)}
	if told == nil {
		close(l.done)
		return l
	}
	l.tell = make(chan *Refused, mostRefused)
	go func() {
		defer close(l.done)
		for r := range l.tell {
			told(r)
		}
	}()
	return l
}

// Close is for when nothing is noted any more. It waits until all is told, but not for ever.
func (l *Log) Close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	if l.tell != nil {
		close(l.tell)
		l.tell = nil
	}
	l.mu.Unlock()
	select {
	case <-l.done:
	case <-time.After(endPatience):
	}
}

// Note is an Observer. Who only looks is not told: programs look everywhere.
func (l *Log) Note(a Access) {
	if a.Wish == Look {
		return
	}
	q := question{a.Path, a.Wish, a.Exists, a.ReadOnly, a.InPlace}
	if l.known(q, a.At) {
		return
	}
	r, refused := l.judge(&a)
	l.add(q, &a, r, refused)
}

// known counts one that was judged before.
func (l *Log) known(q question, at time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, ok := l.judged[q]
	l.count(i, ok, at)
	return ok
}

func (l *Log) count(i int, ok bool, at time.Time) {
	switch {
	case !ok || i == granted:
	case i == uncounted:
		l.others++
	default:
		l.list[i].Count++
		l.list[i].Last = at
	}
}

func (l *Log) add(q question, a *Access, r Refusal, refused bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i, ok := l.judged[q]; ok { // another thread's, meanwhile
		l.count(i, ok, a.At)
		return
	}
	i := granted
	switch {
	case refused && len(l.list) < mostRefused:
		i = len(l.list)
		l.list = append(l.list, Refused{r, string(a.Wish) + " " + Printable(a.Path), a.PID, a.Comm, a.At, a.At, 1})
	case refused:
		i = uncounted
		l.others++
	}
	if len(l.judged) < mostJudged || i >= 0 {
		l.judged[q] = i
	}
	if i >= 0 && l.tell != nil {
		first := l.list[i]
		l.tell <- &first
	}
}

// Add notes what somebody else knows to be refused, unless that was noted by the calls:
// the kernel refuses a call after it was seen, and says so later.
func (l *Log) Add(r Refused) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.list {
		if l.list[i].What == r.What {
			if l.list[i].Rule == r.Rule {
				l.list[i].Count++
				l.list[i].Last = r.At
			}
			return
		}
	}
	if len(l.list) >= mostRefused {
		l.others++
		return
	}
	r.Count, r.Last = 1, r.At
	l.list = append(l.list, r)
	if l.tell != nil {
		l.tell <- &r
	}
}

// List is what was refused, in the order of the first of each kind, and how many
// accesses of more kinds were.
func (l *Log) List() (all []Refused, others int64) {
	if l == nil {
		return nil, 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Refused(nil), l.list...), l.others
}

// Printable is a path as it is, or quoted where that could not be told from something
// else on a line, or is no text.
func Printable(name string) string {
	quoted := strconv.Quote(name)
	if quoted[1:len(quoted)-1] == name && !strings.HasSuffix(name, " ") {
		return name
	}
	return quoted
}
