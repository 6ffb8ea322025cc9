package tree

import "time"

// Bounds of the time between two samples, and what they are computed from.
const (
	slowest    = 250 * time.Millisecond
	slowestMem = 100 * time.Millisecond
	slowestCnt = 20 * time.Millisecond
	usual      = 20 * time.Millisecond
	fast       = 10 * time.Millisecond // a tick of /proc/PID/stat: CPU time is known no finer
	fastest    = 5 * time.Millisecond

	// fillRate is how fast one core can touch fresh memory, in bytes per
	// second: measured 2 to 3 GiB/s with 4 KiB pages, more with huge ones.
	fillRate = 4 << 30
)

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
	if s.limits.Memory > 0 && !s.memDone {
		m, close := s.memoryDue()
		d, urgent = min(d, m), urgent || close
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
		return max(d, min(4*s.cost, usual))
	}
	return max(d, min(16*s.cost, slowest))
}

// memoryDue is when memory could be full, and whether that is close.
func (s *situation) memoryDue() (d time.Duration, close bool) {
	room := max(s.limits.Memory-s.memory, 0)
	d = seconds(room, int64(max(s.cores, 1))*fillRate)
	if s.growth > 0 {
		d = min(d, seconds(room, s.growth)/2)
	}
	close = room < s.limits.Memory/4 && s.growth > 0 || s.growth > 0 && seconds(room, s.growth) < 2*usual
	if close {
		return min(max(d, fastest), fast), true
	}
	return min(max(d, usual), slowestMem), false
}

// seconds is n/rate as a duration.
func seconds(n, rate int64) time.Duration {
	return time.Duration(min(float64(n)/float64(rate), 3600) * float64(time.Second))
}
