package watch

import (
	"slices"
	"strings"
	"time"

	"github.com/confine-run/confine/internal/linux"
	"github.com/confine-run/confine/internal/redact"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/internal/tree"
)

// How often a record has a sample: the first often, so that there is something to see of short runs, and after each so many half as
// often, so that an hour has no more than some thousands. Counters are cheap, and looking at a thousand processes is not, so each has a
// share of the time of a core, as its own thread counts that, and goes as often as that allows. With what wakes the thread, which
// costs as much again, all of it is less than a hundredth. Looks have something in advance: a short run with many processes shows more of them.
const (
	recordFastest = 40 * time.Millisecond
	recordsEach   = 500
	countsShare   = 400
	looksShare    = 250
	looksAdvance  = 10 * time.Millisecond
)

// Bounds of what a record has of processes.
const (
	mostRecorded = 8192
	wordsRead    = 4096 // of a command line, so that secrets are known for what they are
	wordsTold    = 512  // of it
)

// Recorder takes samples of a run, for its record.
type Recorder struct {
	watch   *Watch
	tree    *tree.Tree
	tell    func(status.Event)
	written func() (stdout, stderr int64)
	began   time.Time
	clock   int64      // by tree.Clock, when it began
	times   tree.Times // of the last look
	known   map[tree.Seen]*seen
	names   map[int]string // of those of this look, by their number
	told    int
	round   int
	peak    int64
	stop    chan struct{}
	done    chan struct{}
}

// seen is what is known of a process; its key has neither name nor parent.
type seen struct {
	parent int
	name   string
	words  []string
	cut    bool
	first  bool // it was seen once: it may have been between fork and execve
	last   time.Time
	round  int
}

// Record begins to take samples. written says how much the target has written; began is its start.
func Record(w *Watch, tell func(status.Event), written func() (stdout, stderr int64), began time.Time) *Recorder {
	if w == nil {
		return nil
	}
	t, err := w.root()
	if err != nil { // it has ended
		return nil
	}
	r := &Recorder{watch: w, tree: t, tell: tell, written: written, began: began, known: map[tree.Seen]*seen{}, names: map[int]string{}, stop: make(chan struct{}), done: make(chan struct{})}
	r.clock = tree.Clock() - int64(time.Since(began)/tree.ClockTick)
	go r.run()
	return r
}

// Number is that of a process in samples: the one inside, or where only the caller's proc is seen the caller's.
func Number(w *Watch, inside, outside int) int {
	if w != nil && w.proc < 0 {
		return outside
	}
	return inside
}

// End takes the last sample.
func (r *Recorder) End() {
	if r != nil {
		close(r.stop)
		<-r.done
	}
}

func (r *Recorder) run() {
	defer close(r.done)
	defer r.tree.Close()
	sleep, done := tree.Sleeper(r.stop)
	defer done()
	every, telling := recordFastest, time.Duration(0)
	looks := -looksAdvance // what they have cost
	for n := 1; ; n++ {
		var s status.Sample
		begun := linux.ThreadTime()
		if time.Since(r.began) >= looksShare*looks {
			r.look(&s)
			looked := linux.ThreadTime()
			looks, begun = looks+looked-begun, looked
		}
		r.count(&s, false)
		if n%recordsEach == 0 {
			every *= 2
		}
		counted := linux.ThreadTime()
		wait := max(every, countsShare*(counted-begun+telling))
		s.EveryMS = wait.Milliseconds()
		r.tell(status.Event{Event: status.EventSample, Sample: &s})
		telling = linux.ThreadTime() - counted
		if !sleep(wait) {
			break
		}
	}
	s := status.Sample{EveryMS: every.Milliseconds()}
	r.gone(true)
	if all, err := r.tree.Sample(tree.Need{PSSAbove: tree.NoPSS}); err == nil {
		r.times = all.Times
	}
	r.count(&s, true)
	r.tell(status.Event{Event: status.EventSample, Sample: &s})
}

// look looks at everybody.
func (r *Recorder) look(s *status.Sample) {
	all, err := r.tree.Sample(tree.Need{PSSAbove: tree.NoPSS})
	if err != nil {
		return
	}
	r.times = all.Times
	live := all.Live()
	s.Tasks = &live
	s.Untold = r.processes()
}

// count reads the counters. At the end whoever is still there is ended by the init, so that tasks and memory are nobody's.
func (r *Recorder) count(s *status.Sample, ended bool) {
	w := r.watch
	number := func(n int64) *int64 { return &n }
	use := w.Usage()
	s.CPUMS = number(max(r.times.CPU, use.CPU).Milliseconds())
	s.UserMS, s.SystemMS = number(max(r.times.User, use.User).Milliseconds()), number(max(r.times.System, use.System).Milliseconds())
	if w.group == nil && use.Tasks > 0 && !ended { // of the watchdog's own last sample
		s.MemoryBytes, s.Tasks = number(use.Memory), number(use.Tasks)
	}
	r.counted(s, ended)
	if slices.ContainsFunc(w.private.fds, func(fd int) bool { return fd >= 0 }) {
		bytes, _ := w.scratchUsed()
		s.DiskBytes = &bytes
	}
	out, errs := r.written()
	s.StdoutBytes, s.StderrBytes = &out, &errs
}

// counted lays over it what the cgroup has counted. Tasks and memory of the end are those of nobody.
func (r *Recorder) counted(s *status.Sample, ended bool) {
	if r.watch.group == nil {
		return
	}
	c := r.watch.group.Stat()
	for _, t := range []struct {
		to    **int64
		known bool
		n     int64
	}{
		{&s.CPUMS, c.CPU.Known, c.CPU.D.Milliseconds()},
		{&s.UserMS, c.CPU.Known && c.User.Known, c.User.D.Milliseconds()},
		{&s.SystemMS, c.CPU.Known && c.System.Known, c.System.D.Milliseconds()},
		{&s.ThrottledMS, c.Throttled.Known, c.Throttled.D.Milliseconds()},
		{&s.MemoryBytes, c.Memory.Known && !ended, c.Memory.N},
		{&s.Tasks, c.Tasks.Known && !ended, c.Tasks.N},
		{&s.MemoryPeakBytes, c.MemoryPeak.Known && c.MemoryPeak.N > r.peak, c.MemoryPeak.N},
	} {
		if t.known {
			*t.to = &t.n
		}
	}
	r.peak = max(r.peak, c.MemoryPeak.N)
}

// processes tells of those who are new, have another name, or are gone, and how many there are that it can't tell of.
func (r *Recorder) processes() (untold int64) {
	now, names := time.Now(), r.names
	clear(names)
	r.round++
	tree.Each(r.tree, func(p tree.Seen) {
		key := tree.Seen{PID: p.PID, Start: p.Start}
		k := r.known[key]
		switch {
		case k == nil && r.told >= mostRecorded:
			untold++
			return
		case k == nil:
			r.told++
			k = &seen{first: true, name: p.Name, parent: p.Parent}
			r.known[key] = k
			if names[p.Parent] != p.Name { // else it has its parent's command line, unless it has called execve: the next look has it
				r.name(p, k)
			}
			r.tellOf(p, k)
		case k.name != p.Name || k.first && !p.Dead:
			k.first = false
			if r.name(p, k) {
				r.tellOf(p, k)
			}
		}
		k.last, k.round, names[p.PID] = now, r.round, k.name
	})
	r.gone(false)
	return untold
}

// name takes the name and the command line anew, and says whether they are others.
func (r *Recorder) name(p tree.Seen, k *seen) bool {
	before, words := k.name, k.words
	k.name, k.parent = p.Name, p.Parent
	if !p.Dead {
		if argv, cut := tree.Words(r.tree, p, wordsRead); argv != nil {
			k.words, k.cut = shorten(redact.Redact(argv), cut)
		}
	}
	return k.name != before || !slices.Equal(k.words, words)
}

// shorten cuts a command line to what is told of it.
func shorten(words []string, cut bool) ([]string, bool) {
	room := wordsTold
	for i, w := range words {
		if len(w) > room {
			return append(slices.Clone(words[:i]), strings.ToValidUTF8(w[:room], "")), true
		}
		room -= len(w)
	}
	return words, cut
}

func (r *Recorder) tellOf(p tree.Seen, k *seen) {
	r.tell(status.Event{Event: status.EventProcess, Process: &status.Process{
		PID: p.PID, Parent: k.parent, StartedMS: r.since(p.Start), Comm: k.name, Argv: k.words, Cut: k.cut,
	}})
}

// gone tells of those who were not there in this round, or of all.
func (r *Recorder) gone(all bool) {
	for p, k := range r.known {
		if !all && k.round == r.round {
			continue
		}
		delete(r.known, p)
		last := max(0, k.last.Sub(r.began).Milliseconds())
		r.tell(status.Event{Event: status.EventProcess, Process: &status.Process{PID: p.PID, StartedMS: r.since(p.Start), SeenMS: &last}})
	}
}

// since is a time of tree.Clock in milliseconds after the beginning.
func (r *Recorder) since(clock int64) int64 {
	return max(0, (time.Duration(clock-r.clock) * tree.ClockTick).Milliseconds())
}
