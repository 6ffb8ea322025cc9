package disk

import "time"

// Bounds of the time between two looks, and what they are computed from.
const (
	slowest = 250 * time.Millisecond
	fastest = 5 * time.Millisecond

	// What can be written and made in a second, with all cores: more than was measured.
	fillRate = 4 << 30 // bytes, into the page cache of a memory file system
	makeRate = 1 << 20 // empty files

	// A file system that tells nothing, or one whose loss others make good, is
	// found out by a walk now and then.
	pauseBlind  = 50 * time.Millisecond
	pauseMoving = time.Second
	pauseStill  = 5 * time.Second

	share       = 20 // of the time, one part is for walks
	shareUrgent = 5
	// burst is the credit that walks start with, and save up to.
	burst = 250 * time.Millisecond
)

// situation is what follows from the last walk and the last look at the file systems.
type situation struct {
	limits amount // those that were not told yet
	grown  amount // by the last walk
	lost   amount // by the file systems since then
	still  bool   // they are exactly as they were then
	blind  bool   // one of them tells nothing
	since  time.Duration
	cost   time.Duration // of the last walk, in CPU time
	credit time.Duration
}

// due: the trees have to be walked now.
func (s *situation) due() bool {
	could := s.grown.plus(s.lost)
	switch {
	case s.limits == amount{}:
		return false
	case could.beyond(s.limits, 2) && !s.still && s.since >= (shareUrgent-1)*s.cost:
		return true
	case s.credit <= 0:
		return false
	case could.beyond(s.limits, 1) && !s.still:
		return true
	}
	return s.since >= max(share*s.cost, s.pause())
}

func (s *situation) pause() time.Duration {
	switch {
	case s.blind:
		return pauseBlind
	case s.still:
		return pauseStill
	}
	return pauseMoving
}

// next is how long to wait for the next look: as long as nothing can go far past
// its limit meanwhile, however hard it tries.
func (s *situation) next() time.Duration {
	d := slowest
	room := s.limits.minus(s.grown.plus(s.lost))
	if s.limits.bytes > 0 {
		d = min(d, seconds(room.bytes, fillRate))
	}
	if s.limits.files > 0 {
		d = min(d, seconds(room.files, makeRate))
	}
	if s.blind {
		d = min(d, max(pauseBlind, share*s.cost))
	}
	return max(d, fastest)
}

// seconds is n/rate as a duration.
func seconds(n, rate int64) time.Duration {
	return time.Duration(min(float64(max(n, 0))/float64(rate), 3600) * float64(time.Second))
}

// purse is what walks may still cost.
type purse struct {
	credit time.Duration
	at     time.Time
}

func (p *purse) earn(now time.Time, lastCost time.Duration) {
	if !p.at.IsZero() {
		p.credit += now.Sub(p.at) / share
	}
	p.credit, p.at = min(p.credit, max(burst, 2*lastCost)), now
}
