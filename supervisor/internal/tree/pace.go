package tree

import "time"

// Bounds of the time between two samples, and what they are computed from.
const (
	slowest    = 250 * time.Millisecond
	slowestMem = 50 * time.Millisecond
	fastestMem = time.Millisecond
	slowestCnt = 20 * time.Millisecond
	usual      = 20 * time.Millisecond
	fast       = 10 * time.Millisecond // a tick of /proc/PID/stat: CPU time is known no finer
	fastest    = 5 * time.Millisecond

	// fillRate is how fast one core can touch fresh memory, in bytes per
	// second: measured 2 to 3 GiB/s with pages of 4 KiB, 7 to 8 GiB/s with huge ones.
	// From fillCores on the memory itself is the bound.
	fillRate  = 8 << 30
	fillCores = 8

	// rising is a growth that may be the beginning of a rush.
	rising = 64 << 20
)

// Overshoot is by how much memory may be above a limit before that is found: by a tree
// that touches it as fast as two cores can. It is what samples are paced for.
func Overshoot(limit int64) int64 { return max(64<<20, limit/100*15) }

// situation is what the next sample's time follows from.
type situation struct {
	limits   Limits
	cores    int
	used     time.Duration
	unreaped bool // processes are reaped by nobody, so that their time is only known from samples
	memory   int64
	growth   int64         // bytes per second since the last sample
	tasks    int64         // alive
	tokens   time.Duration // of the rate
	cost     time.Duration // of the last sample, in CPU time
	nth      int
	cpuDone  bool // the limit was hit, and told
	memDone  bool
}

// next is how long to wait for the next sample: as long as nothing can go
// past its limit meanwhile, however hard it tries.
func (s *situation) next() time.Duration {
	d := slowest
	if s.nth < 8 {
		d = min(d, fast<<s.nth) // short runs have a peak too
	}
	urgent := false
	cores := time.Duration(max(s.cores, 1))
	if s.limits.CPU > 0 && !s.cpuDone {
		d = min(d, max((s.limits.CPU-s.used)/cores, fast))
	}
	if s.limits.CPUPercent > 0 {
		d = min(d, max(s.tokens/cores, fastest), ratePeriod)
	}
	if s.unreaped && (s.limits.CPU > 0 || s.limits.CPUPercent > 0) {
		d = min(d, fast)
	}
	if s.limits.Tasks > 0 {
		switch {
		case s.tasks > s.limits.Tasks:
			d, urgent = min(d, fastest), true
		case s.tasks > s.limits.Tasks/2:
			d = min(d, fast)
		default:
			d = min(d, slowestCnt)
		}
	}
	// Many processes make a sample dear. Looking must not become the load.
	if urgent {
		d = max(d, min(4*s.cost, usual))
	} else {
		d = max(d, min(16*s.cost, slowest))
	}
	if s.limits.Memory > 0 && !s.memDone {
		// Memory grows as fast, however dear a sample is.
		d = min(d, max(s.memoryDue(), 3*s.cost))
	}
	return d
}

// memoryDue is when memory could be above its limit by some part of what is allowed
// for: a quarter of that when it rises, since it takes time to stop everybody.
func (s *situation) memoryDue() time.Duration {
	room := max(s.limits.Memory-s.memory, 0)
	allowed := Overshoot(s.limits.Memory)
	if s.growth > rising {
		allowed /= 4
	}
	rate := max(int64(min(max(s.cores, 1), fillCores))*fillRate, s.growth)
	return min(max(seconds(room+allowed, rate), fastestMem), slowestMem)
}

// seconds is n/rate as a duration.
func seconds(n, rate int64) time.Duration {
	return time.Duration(min(float64(n)/float64(rate), 3600) * float64(time.Second))
}

// ratePeriod is the period over which a CPU rate is held. It is that of the
// kernel's own bandwidth controller.
const ratePeriod = 100 * time.Millisecond

// tokenBucket holds a CPU rate: it fills with time and is emptied by CPU time. It
// never holds more than one period's budget, so that who was idle can't save up.
type tokenBucket struct {
	percent int
	tokens  time.Duration
	at      time.Time
	used    time.Duration // by the tree, when last told
}

func newTokenBucket(percent int, now time.Time) tokenBucket {
	b := tokenBucket{percent: percent, at: now}
	b.tokens = b.budget()
	return b
}

func (b *tokenBucket) budget() time.Duration { return b.share(ratePeriod) }

func (b *tokenBucket) share(d time.Duration) time.Duration {
	return d * time.Duration(b.percent) / 100
}

// spend says how much the tree has used in all.
func (b *tokenBucket) spend(used time.Duration, now time.Time) {
	// After a long pause the product could overflow, and the bucket is full anyway.
	elapsed := min(now.Sub(b.at), time.Hour)
	b.tokens = min(b.tokens+b.share(elapsed)-(used-b.used), b.budget())
	b.used, b.at = used, now
}

func (b *tokenBucket) empty() bool { return b.tokens <= 0 }
func (b *tokenBucket) full() bool  { return b.tokens >= b.budget() }

// refill is how long it takes until the bucket is full.
func (b *tokenBucket) refill() time.Duration {
	return max(b.budget()-b.tokens, 0)*100/time.Duration(b.percent) + 1
}
