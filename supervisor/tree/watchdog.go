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
	Biggest() Process
	Stop() error
	Continue() error
	Trim(limit int64) (killed int, err error)
}

// Watchdog holds a tree to limits that no kernel holds it to. Make it with
// NewWatchdog, set the fields, then let one goroutine Run it. Each callback comes at most once, from that
// goroutine, and nothing is watched until it returns.
type Watchdog struct {
	Limits Limits
	Cores  int // that the tree can use; 0: as many as the caller can

	// OnCPU and OnMemory should kill the run: the watchdog doesn't.
	OnCPU    func(used time.Duration)
	OnMemory func(bytes int64, biggest Process)
	// OnTasks comes after the newest were killed. The run may go on, and so does
	// the watchdog.
	OnTasks func(count int64)

	tree governed
	now  func() time.Time
	busy func() time.Duration // CPU time of this thread
	// sleeper makes what Run sleeps with, and what undoes it.
	sleeper func(stop <-chan struct{}) (sleep func(time.Duration) bool, done func())
	swap    func() bool // some memory of the host is swapped out

	mu    sync.Mutex
	usage Usage // guarded by mu

	cpuHit, memHit, tasksHit bool

	last       Sample
	cost       time.Duration
	nth        int
	weighed    int64 // RSS when PSS was last measured for the peak
	swapAsked  time.Time
	unreapedAt time.Time

	rate    bucket
	stopped time.Time // since when the tree is stopped for its rate; zero: it runs
}

// Usage is what has been used up to the last sample. Any goroutine may ask.
func (w *Watchdog) Usage() Usage {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.usage
}

// Run watches until stop is closed or PID 1 is gone, and leaves nobody
// stopped. After an error nothing is watched any more: the run must be ended.
func (w *Watchdog) Run(stop <-chan struct{}) error {
	w.start()
	sleep, done := w.sleeper(stop)
	defer done()
	for {
		wait, err := w.step()
		if errors.Is(err, os.ErrProcessDone) {
			return nil
		}
		if err != nil {
			return errors.Join(err, w.release())
		}
		if !sleep(wait) {
			return w.release()
		}
	}
}

// onTimer sleeps by a timer of the runtime. It is false when stop was closed.
func onTimer(stop <-chan struct{}) (sleep func(time.Duration) bool, done func()) {
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
		w.sleeper = onTimer
	}
	if w.Cores <= 0 {
		w.Cores = runtime.NumCPU()
	}
	if w.Limits.CPUPercent > 0 {
		w.rate = newBucket(w.Limits.CPUPercent, w.now())
	}
}

// release wakes whom the rate had stopped.
func (w *Watchdog) release() error {
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
	s, err := w.tree.Sample(Need{
		PSSAbove:  w.weighAbove(w.now()),
		RushAbove: int(min(2*w.Limits.Tasks, 1<<30)),
	})
	now := w.now()
	// A goroutine that changed its thread learns nothing here.
	if cost := w.busy() - busy; cost >= 0 {
		w.cost = cost
	}
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

// weighAbove is the sum of RSS from which PSS is worth its price.
func (w *Watchdog) weighAbove(now time.Time) int64 {
	// For the peak: whenever RSS grew by a sixteenth since it was last done.
	above := w.weighed + max(w.weighed/16, 1<<20)
	if w.Limits.Memory == 0 || w.memHit {
		return above
	}
	// RSS in stat lags by some pages for each core; PSS is exact.
	above = min(above, w.Limits.Memory-w.Limits.Memory/8)
	// What is swapped out is in no RSS.
	if w.swap != nil && now.Sub(w.swapAsked) >= time.Second {
		w.swapAsked = now
		if w.swap() {
			return -1
		}
	}
	return above
}

// note keeps the figures of a sample.
func (w *Watchdog) note(s *Sample, now time.Time) {
	if s.Unreaped > w.last.Unreaped {
		w.unreapedAt = now
	}
	if s.HasPSS {
		w.weighed = max(w.weighed, s.RSS)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	u := &w.usage
	u.CPU, u.User, u.System, u.Unreaped = s.CPU, s.User, s.System, s.Unreaped
	u.Memory, u.Tasks = s.Memory(), s.Live()
	u.TasksPeak = max(u.TasksPeak, u.Tasks)
	if s.HasPSS && s.PSS > u.MemoryPeak {
		u.MemoryPeak, u.Estimated = s.PSS, s.Estimated > 0
	}
}

func (w *Watchdog) wait(s *Sample) time.Duration {
	if !w.stopped.IsZero() {
		return min(w.rate.refill(), ratePeriod)
	}
	situation := situation{
		limits: w.Limits, cores: w.Cores,
		used: s.CPU, memory: s.Memory(), tasks: s.Live(), tokens: w.rate.tokens,
		cost: w.cost, nth: w.nth, cpuDone: w.cpuHit, memDone: w.memHit,
		unreaped: !w.unreapedAt.IsZero() && s.At.Sub(w.unreapedAt) < 10*time.Second,
	}
	if elapsed := s.At.Sub(w.last.At); w.nth > 0 && elapsed > 0 {
		situation.growth = int64(float64(s.Memory()-w.last.Memory()) / elapsed.Seconds())
	}
	return situation.next()
}
