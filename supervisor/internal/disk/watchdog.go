package disk

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/confine-run/confine/status"
)

// Watchdog holds trees to limits that no file system holds them to. Make it with New,
// set OnHit, then let one goroutine Run it, and Close it when Run has returned.
type Watchdog struct {
	// OnHit comes at most once for each limit, status.Disk and status.Files, with
	// what was added by then, in bytes or inodes. It should end the run: the watchdog doesn't.
	OnHit func(c status.Capability, used int64)

	trees  trees
	limits amount
	told   amount // what OnHit was called with; 0: not yet
	now    func() time.Time
	close  func() error
	// removed are bytes in removed files that the run has open; nil: nobody can tell.
	removed func() (bytes int64, cost time.Duration)

	start  level
	based  bool
	base   amount // what was there at the start
	statfs bool   // too big to be walked
	tries  int    // at a baseline

	grown  amount
	walked level     // just before the last walk
	ended  time.Time // the last walk
	cost   time.Duration
	purse  purse

	found func(grown amount) // for tests: what a walk, or a look at the file systems, came to
}

// baselines is how often a baseline is tried that something was hidden from.
const baselines = 3

func newWatchdog(g trees, limits Limits) (*Watchdog, error) {
	w := &Watchdog{
		trees: g, limits: amount{limits.Bytes, limits.Files}, now: time.Now,
		purse: purse{credit: burst}, close: func() error { return nil },
	}
	var err error
	w.start, err = g.level()
	w.walked = w.start
	return w, err
}

// Close lets go of the trees.
func (w *Watchdog) Close() error { return w.close() }

// Run watches until stop is closed, and then looks a last time: what was written
// in the last moment is told too, by a walk if the file systems have lost enough
// for it. After an error nothing is watched any more: the run must be ended. A
// file system that doesn't answer keeps Run from returning.
func (w *Watchdog) Run(stop <-chan struct{}) error {
	// Only a thread of its own can be asked what a walk costs.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-stop:
			return w.last()
		case <-timer.C:
		}
		wait, err := w.step(stop)
		if errors.Is(err, errStopped) {
			return w.last()
		}
		if err != nil {
			return err
		}
		timer.Reset(wait)
	}
}

// step looks once, does what follows, and says when to look again.
func (w *Watchdog) step(stop <-chan struct{}) (time.Duration, error) {
	l, err := w.trees.level()
	if err != nil {
		return 0, err
	}
	w.purse.earn(w.now(), w.cost)
	switch {
	case w.statfs:
		err = w.judgeLevel(l)
	case !w.based && w.live() != amount{} && (w.tries == 0 || w.purse.credit > 0):
		err = w.baseline(stop, l)
	case w.based && w.situation(l).due():
		err = w.measure(stop, l)
	}
	if err != nil {
		return 0, err
	}
	return w.situation(l).next(), nil
}

// last looks when everything has ended.
func (w *Watchdog) last() error {
	l, err := w.trees.level()
	if err != nil || w.live() == (amount{}) {
		return err
	}
	s := w.situation(l)
	switch {
	case w.statfs:
		return w.judgeLevel(l)
	case !s.blind && !s.grown.plus(s.lost).beyond(s.limits, 1):
		return nil
	case w.based:
		return w.measure(nil, l)
	}
	_, err = w.newborn(nil, l)
	return err
}

func (w *Watchdog) situation(l level) *situation {
	limits := w.live()
	s := &situation{
		limits: limits, grown: w.grown, lost: most(l.minus(w.walked.amount), amount{}),
		blind: l.blindTo(limits), since: w.now().Sub(w.ended), cost: w.cost, credit: w.purse.credit,
	}
	s.still = l == w.walked && !s.blind
	if w.statfs {
		s.lost = amount{}
	}
	return s
}

// live are the limits that were not told yet.
func (w *Watchdog) live() amount {
	l := w.limits
	if w.told.bytes > 0 {
		l.bytes = 0
	}
	if w.told.files > 0 {
		l.files = 0
	}
	return l
}

// baseline measures what was there at the start, as long as what is new is
// within its limits.
func (w *Watchdog) baseline(stop <-chan struct{}, l level) error {
	w.tries++
	s, err := w.newborn(stop, l)
	if err != nil || w.statfs {
		return err
	}
	if s.cut || s.obscured && w.tries < baselines {
		return nil
	}
	w.based, w.base = true, s.all.minus(s.fresh)
	return nil
}

// newborn judges by what was born since the start.
func (w *Watchdog) newborn(stop <-chan struct{}, l level) (survey, error) {
	limits := w.live()
	return w.survey(l, order{stop, func(s *survey) bool { return s.fresh.beyond(limits, 1) }},
		func(s *survey) amount { return s.fresh })
}

// measure judges by what is there, beside the baseline.
func (w *Watchdog) measure(stop <-chan struct{}, l level) error {
	limits := w.live()
	_, err := w.survey(l, order{stop, func(s *survey) bool { return s.all.minus(w.base).beyond(limits, 1) }},
		func(s *survey) amount { return s.all.minus(w.base) })
	return err
}

// survey walks, and once more when that found a limit passed: what is moved or
// removed during a walk may have been counted where it isn't any more.
func (w *Watchdog) survey(l level, o order, grown func(*survey) amount) (s survey, err error) {
	for range 2 {
		first := w.tries == 1 && !w.based // which is not to be paid for
		s, err = w.trees.walk(o)
		if errors.Is(err, errTooBig) {
			w.statfs = true
			return s, w.judgeLevel(l)
		}
		if err != nil {
			return s, err
		}
		w.walked, w.ended, w.cost, w.grown = l, w.now(), s.cost, grown(&s)
		if w.removed != nil && w.limits.bytes > 0 {
			bytes, cost := w.removed()
			w.grown.bytes, w.cost = w.grown.bytes+bytes, w.cost+cost
		}
		if !first {
			w.purse.credit -= w.cost
		}
		if l, err = w.trees.level(); err != nil {
			return s, err
		}
		if s.obscured && (w.based || w.tries >= baselines) {
			w.grown = most(w.grown, l.minus(w.start.amount))
		}
		if !w.grown.beyond(w.live(), 1) {
			break
		}
	}
	w.judge(w.grown)
	return s, nil
}

// judgeLevel judges by the file systems alone.
func (w *Watchdog) judgeLevel(l level) error {
	if l.blindTo(w.limits) {
		return fmt.Errorf("%w, and the file system doesn't tell what is free", errTooBig)
	}
	w.grown = l.minus(w.start.amount)
	w.judge(w.grown)
	return nil
}

func (w *Watchdog) judge(grown amount) {
	if w.found != nil {
		w.found(grown)
	}
	limits := w.live()
	if limits.bytes > 0 && grown.bytes > limits.bytes {
		w.told.bytes = grown.bytes
		w.tell(status.Disk, grown.bytes)
	}
	if limits.files > 0 && grown.files > limits.files {
		w.told.files = grown.files
		w.tell(status.Files, grown.files)
	}
}

func (w *Watchdog) tell(c status.Capability, used int64) {
	if w.OnHit != nil {
		w.OnHit(c, used)
	}
}

// MaxEntries is how many entries trees may have to be walked: about a second of
// CPU time for a walk, and 13 MiB.
const MaxEntries = 390_000

var (
	errTooBig  = errors.New("the writable trees have too many entries to be walked")
	errStopped = errors.New("stopped")
)

// survey is what one walk found.
type survey struct {
	all   amount // each inode once
	fresh amount // the part of it that was born since the start
	// obscured: something that was changed since the start could not be looked into.
	obscured bool
	cut      bool          // it was enough before the end
	cost     time.Duration // CPU
}

// order is what a walk is asked for.
type order struct {
	stop <-chan struct{} // nil: it is not to be stopped
	// enough ends the walk early, with what was found until then.
	enough func(*survey) bool
}

// level is how much of the file systems is in use.
type level struct {
	amount
	noBytes, noFiles bool // one of them doesn't say
}

// blindTo: something is limited that the file systems say nothing of.
func (l level) blindTo(limits amount) bool {
	return l.noBytes && limits.bytes > 0 || l.noFiles && limits.files > 0
}

// trees are what is walked, for the watchdog.
type trees interface {
	walk(order) (survey, error)
	level() (level, error)
}

// Limits are what a run may add to its writable trees. Zero means no limit.
type Limits struct {
	Bytes int64 // allocated blocks
	Files int64 // inodes
}

// amount is of both that can be limited.
type amount struct{ bytes, files int64 }

func (a amount) minus(b amount) amount { return amount{a.bytes - b.bytes, a.files - b.files} }
func (a amount) plus(b amount) amount  { return amount{a.bytes + b.bytes, a.files + b.files} }

func most(a, b amount) amount {
	return amount{max(a.bytes, b.bytes), max(a.files, b.files)}
}

// beyond: a is above times as much as limit in something that is limited.
func (a amount) beyond(limit amount, times int64) bool {
	return limit.bytes > 0 && a.bytes/times > limit.bytes || limit.files > 0 && a.files/times > limit.files
}
