package tree

import "time"

// ratePeriod is the period over which a CPU rate is held. It is that of the
// kernel's own bandwidth controller.
const ratePeriod = 100 * time.Millisecond

// bucket holds a CPU rate: it fills with time and is emptied by CPU time. It
// never holds more than one period's budget, so that who was idle can't save up.
type bucket struct {
	percent int
	tokens  time.Duration
	at      time.Time
	used    time.Duration // by the tree, when last told
}

func newBucket(percent int, now time.Time) bucket {
	b := bucket{percent: percent, at: now}
	b.tokens = b.budget()
	return b
}

func (b *bucket) budget() time.Duration { return b.share(ratePeriod) }

func (b *bucket) share(d time.Duration) time.Duration {
	return d * time.Duration(b.percent) / 100
}

// tell says how much the tree has used in all.
func (b *bucket) tell(used time.Duration, now time.Time) {
	// After a long pause the product could overflow, and the bucket is full anyway.
	elapsed := min(now.Sub(b.at), time.Hour)
	b.tokens = min(b.tokens+b.share(elapsed)-(used-b.used), b.budget())
	b.used, b.at = used, now
}

func (b *bucket) empty() bool { return b.tokens <= 0 }
func (b *bucket) full() bool  { return b.tokens >= b.budget() }

// refill is how long it takes until the bucket is full.
func (b *bucket) refill() time.Duration {
	return max(b.budget()-b.tokens, 0)*100/time.Duration(b.percent) + 1
}
