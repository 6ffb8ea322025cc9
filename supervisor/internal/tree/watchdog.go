package tree

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"time"
)

// governed is what a Watchdog does with a Tree.
type governed interface {
	Sample(Need) (Sample, error)
	Measured(wait bool) (*Sample, error)
	Biggest() Process
	Stop() error
	Continue() error
	Trim(limit int64) (killed []int, err error)
}

// Watchdog holds a tree to limits that no kernel holds it to. Make it with
// NewWatchdog, set the fields, then let one goroutine Run it. Each callback comes at most once, from that
// goroutine, and nothing is watched until it returns.
type Watchdog struct {
	Limits Limits
	Cores  int // that the tree can use; 0: as many as the caller can

	// Scratch says how many bytes are in a tmpfs that is the run's. nil: it has none.
	// It comes from the goroutine that runs the Watchdog, at every sample.
	Scratch func() int64

	// Begun comes when the tree is watched from now on, FirstDelay before the first look.
	Begun      func()
	FirstDelay time.Duration

	// OnCPU and OnMemory should kill the run: the watchdog doesn't.
	OnCPU    func(used time.Duration)
	OnMemory func(bytes int64, biggest Process)
	// OnTasks comes after the newest were killed. The run may go on, and so does
	// the watchdog.
	OnTasks func(count int64)
	// OnKill comes for each process that was killed for that, as often as it takes.
	OnKill func(pid int)

	tree governed
	host

	turn  sync.Mutex // of the goroutine that stops and continues
	mu    sync.Mutex
	usage Usage // guarded by mu

	recent
	pss     pssState
	walks   walks
	rate    tokenBucket
	stopped time.Time // since when the tree is stopped for its rate; zero: it runs
}

// host is what is asked beside the tree.
type host struct {
	now  func() time.Time
	busy func() time.Duration // CPU time of this thread
	// sleeper makes what Run sleeps with, and what undoes it.
	sleeper func(stop <-chan struct{}) (sleep func(time.Duration) bool, done func())
	swap    func() bool // some memory of the host is swapped out
	// shared is what memfds can have of the host's memory at the most. Negative:
	// that can't be told.
	shared func() int64
}

// recent is what came of the samples until now.
type recent struct {
	cpuHit, memHit, tasksHit bool // told

	last               Sample
	cost               time.Duration
	nth                int
	lastMemory, growth int64 // with what memfds may have grown by; in a second
	unreapedAt         time.Time
}

// Usage is what has been used up to the last sample. Any goroutine may ask.
func (w *Watchdog) Usage() Usage {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.usage
}

// Hold keeps the watchdog from stopping and continuing anybody, until it is released.
func (w *Watchdog) Hold() (release func()) {
	w.turn.Lock()
	return w.turn.Unlock
}

// Run watches until stop is closed or PID 1 is gone, and leaves nobody
// stopped. After an error nothing is watched any more: the run must be ended.
func (w *Watchdog) Run(stop <-chan struct{}) error {
	w.start()
	sleep, done := w.sleeper(stop)
	defer done()
	if w.Begun != nil {
		w.Begun()
	}
	if w.FirstDelay > 0 && !sleep(w.FirstDelay) {
		return nil
	}
	defer w.awaitMeasured()
	for {
		w.turn.Lock()
		wait, err := w.step()
		w.turn.Unlock()
		if errors.Is(err, os.ErrProcessDone) {
			return nil
		}
		if err != nil {
			return errors.Join(err, w.resume())
		}
		if !sleep(wait) {
			return w.resume()
		}
	}
}

// timerSleeper sleeps by a timer of the runtime. It is false when stop was closed.
func timerSleeper(stop <-chan struct{}) (sleep func(time.Duration) bool, done func()) {
	timer := time.NewTimer(0)
	return func(d time.Duration) bool {
		timer.Reset(d)
		select {
		case <-stop:
			return false
		case <-timer.C:
			return true
		}
	}, func() { timer.Stop() }
}

func (w *Watchdog) start() {
	if w.now == nil {
		w.now = time.Now
	}
	if w.busy == nil {
		w.busy = func() time.Duration { return 0 }
	}
	if w.sleeper == nil {
		w.sleeper = timerSleeper
	}
	if w.Cores <= 0 {
		w.Cores = runtime.NumCPU()
	}
	if w.Limits.CPUPercent > 0 {
		w.rate = newTokenBucket(w.Limits.CPUPercent, w.now())
	}
}

// resume wakes whom the rate had stopped.
func (w *Watchdog) resume() error {
	if w.stopped.IsZero() {
		return nil
	}
	w.throttled(w.now())
	w.stopped = time.Time{}
	return w.tree.Continue()
}

// step looks once, does what follows, and says when to look again.
func (w *Watchdog) step() (time.Duration, error) {
	busy := w.busy()
	need := Need{Scratch: w.scratch(), StopAbove: int(min(2*w.Limits.Tasks, 1<<30)), Beside: true}
	need.Memfds = w.walkNow(need.Scratch, w.now())
	w.needPSS(&need, w.now())
	s, err := w.tree.Sample(need)
	now := w.now()
	// A goroutine that changed its thread learns nothing here.
	if cost := w.busy() - busy; cost >= 0 {
		w.cost = max(cost-s.walkCost-s.pssCost, 0)
	}
	w.walked(need.Memfds, &s, now)
	w.keepPSS(s.Earlier, now)
	w.keepPSS(&s, now)
	w.note(&s, now)
	if err != nil {
		return 0, err
	}
	if err := w.judge(&s); err != nil {
		return 0, err
	}
	if err := w.throttle(s.CPU, now); err != nil {
		return 0, err
	}
	wait := w.wait(&s)
	w.last = s
	w.nth++
	return wait, nil
}

// pssState is what is known of PSS.
type pssState struct {
	memory    int64     // when it was last measured
	pause     time.Time // nobody is stopped for it before
	anew      time.Time // from then on whatever was measured earlier
	swapAsked time.Time
}

// needPSS says when PSS is worth its price.
func (w *Watchdog) needPSS(need *Need, now time.Time) {
	// For the peak: whenever memory could be a sixteenth above it.
	peak := w.usage.MemoryPeak
	need.PSSAbove = peak + max(peak/16, 1<<20)
	if need.Memfds == NoWalk && w.last.Memfds > 0 {
		need.PSSAbove = NoPSS // for the peak it would not be exact
	}
	if w.Limits.Memory == 0 || w.memHit {
		return
	}
	// For the limit: whenever half of what was left of it could be used up. RSS in stat
	// lags by some pages for each core; PSS is exact.
	above := max(w.near(), w.pss.memory+(w.Limits.Memory-w.pss.memory)/2)
	if !now.Before(w.pss.anew) {
		need.AnewAbove = w.near()
	}
	need.PSSAbove, need.NoPSSAbove = min(need.PSSAbove, above), w.Limits.Memory
	// What is swapped out is in no RSS.
	if w.swap != nil && now.Sub(w.pss.swapAsked) >= time.Second {
		w.pss.swapAsked = now
		if w.swap() {
			need.PSSAbove, need.NoPSSAbove = -1, 0
		}
	}
}

// pssShare is the part of a core that PSS may take where nothing tells that it is
// needed: it is measured anew when so many times its own cost have passed.
const pssShare = 50

// keepPSS keeps what was measured, if anything was.
func (w *Watchdog) keepPSS(s *Sample, now time.Time) {
	if s == nil || !s.HasPSS {
		return
	}
	w.pss.memory, w.pss.anew = s.Memory(), now.Add(pssShare*s.pssCost)
	w.mu.Lock()
	defer w.mu.Unlock()
	if u := &w.usage; s.exact() && s.Memory() > u.MemoryPeak {
		u.MemoryPeak, u.Estimated = s.Memory(), s.Estimated > 0
	}
}

// awaitMeasured waits for what is being measured.
func (w *Watchdog) awaitMeasured() {
	if s, err := w.tree.Measured(true); err == nil {
		w.keepPSS(s, w.now())
	}
}

// note keeps the figures of a sample.
func (w *Watchdog) note(s *Sample, now time.Time) {
	if s.Unreaped > w.last.Unreaped {
		w.unreapedAt = now
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	u := &w.usage
	u.Times = s.Times
	u.Memory, u.Tasks = s.Bound, s.Live()
	u.TasksPeak = max(u.TasksPeak, u.Tasks)
}

func (w *Watchdog) wait(s *Sample) time.Duration {
	if !w.stopped.IsZero() {
		return min(w.rate.refill(), ratePeriod)
	}
	situation := situation{
		limits: w.Limits, cores: w.Cores,
		used: s.CPU, memory: s.Bound + w.walks.growth, tasks: s.Live(), tokens: w.rate.tokens,
		cost: w.cost, nth: w.nth, cpuDone: w.cpuHit, memDone: w.memHit,
		unreaped: !w.unreapedAt.IsZero() && s.At.Sub(w.unreapedAt) < 10*time.Second,
	}
	if elapsed := s.At.Sub(w.last.At); w.nth > 0 && elapsed > 0 {
		w.growth = int64(float64(situation.memory-w.lastMemory) / elapsed.Seconds())
	}
	w.lastMemory, situation.growth = situation.memory, w.growth
	return situation.next()
}
