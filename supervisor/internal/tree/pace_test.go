package tree

import (
	"testing"
	"time"
)

const ms = time.Millisecond

// touching is how long so many cores take to touch so much.
func touching(bytes int64, cores int64) time.Duration { return seconds(bytes, cores*fillRate) }

func TestTheNextSampleComesBeforeALimitCanBePassed(t *testing.T) {
	late := situation{cores: 2, nth: 100}
	for name, c := range map[string]struct {
		change func(*situation)
		want   time.Duration
	}{
		"no limit":                        {func(s *situation) {}, slowest},
		"the first sample":                {func(s *situation) { s.nth = 0 }, fast},
		"cpu far off":                     {func(s *situation) { s.limits.CPU = 20 * time.Second }, slowest},
		"cpu: the rest by cores":          {func(s *situation) { s.limits.CPU = time.Second; s.used = 800 * ms }, 100 * ms},
		"cpu: never below a tick":         {func(s *situation) { s.limits.CPU = time.Second; s.used = 999 * ms }, fast},
		"cpu over":                        {func(s *situation) { s.limits.CPU = time.Second; s.used = 2 * time.Second }, fast},
		"cpu told":                        {func(s *situation) { s.limits.CPU = time.Second; s.used = 2 * time.Second; s.cpuDone = true }, slowest},
		"cpu with unreaped children":      {func(s *situation) { s.limits.CPU = time.Hour; s.unreaped = true }, fast},
		"unreaped, but no cpu limit":      {func(s *situation) { s.unreaped = true }, slowest},
		"rate: the rest by cores":         {func(s *situation) { s.limits.CPUPercent = 100; s.tokens = 80 * ms }, 40 * ms},
		"rate nearly used up":             {func(s *situation) { s.limits.CPUPercent = 100; s.tokens = ms }, fastest},
		"memory: far off on two cores":    {func(s *situation) { s.limits.Memory = 400 << 20 }, touching((400+64)<<20, 2)},
		"memory: far off, large":          {func(s *situation) { s.limits.Memory = 8 << 30 }, slowestMem},
		"memory: many cores":              {func(s *situation) { s.limits.Memory = 400 << 20; s.cores = 64 }, touching((400+64)<<20, 8)},
		"memory: full, but steady":        {func(s *situation) { s.limits.Memory = 64 << 20; s.memory = 64 << 20 }, touching(64<<20, 2)},
		"memory: full and rising":         {func(s *situation) { s.limits.Memory = 64 << 20; s.memory = 64 << 20; s.growth = 1 << 30 }, fastestMem},
		"memory: close and rising":        {func(s *situation) { s.limits.Memory = 256 << 20; s.memory = 192 << 20; s.growth = 1 << 30 }, touching(80<<20, 2)},
		"memory: faster than was thought": {func(s *situation) { s.limits.Memory = 240 << 20; s.growth = 32 << 30 }, 7812500},
		"memory: a dear sample":           {func(s *situation) { s.limits.Memory = 64 << 20; s.memory = 64 << 20; s.cost = 4 * ms }, 12 * ms},
		"memory told":                     {func(s *situation) { s.limits.Memory = 1; s.memory = 2; s.memDone = true }, slowest},
		"tasks: few":                      {func(s *situation) { s.limits.Tasks = 32; s.tasks = 2 }, slowestCnt},
		"tasks: many":                     {func(s *situation) { s.limits.Tasks = 32; s.tasks = 20 }, fast},
		"tasks: over":                     {func(s *situation) { s.limits.Tasks = 32; s.tasks = 33 }, fastest},
		"a dear sample":                   {func(s *situation) { s.cost = 5 * ms; s.limits.Tasks = 32; s.tasks = 2 }, 80 * ms},
		"a very dear sample":              {func(s *situation) { s.cost = 50 * ms }, slowest},
		"a dear sample when it is urgent": {func(s *situation) { s.cost = 4 * ms; s.limits.Tasks = 32; s.tasks = 33 }, 16 * ms},
	} {
		s := late
		c.change(&s)
		if got := s.next(); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestTokenBucketIsEmptyOnlyAboveTheRate(t *testing.T) {
	now := time.Unix(0, 0)
	b := newTokenBucket(50, now)
	var used time.Duration
	spend := func(elapsed, cpu time.Duration) {
		now, used = now.Add(elapsed), used+cpu
		b.spend(used, now)
	}
	for range 100 { // 40 % of one core
		if spend(10*ms, 4*ms); b.empty() {
			t.Fatal("empty at less than the rate")
		}
	}
	spend(time.Hour, 0)
	if !b.full() || b.tokens != 50*ms {
		t.Fatalf("after idling: %v", b.tokens)
	}
	n := 0
	for ; !b.empty() && n < 100; n++ { // a whole core
		spend(10*ms, 10*ms)
	}
	if n != 10 { // 50 ms, and what fills meanwhile
		t.Errorf("empty after %d0 ms of a whole core", n)
	}
	if spend(b.refill(), 0); !b.full() {
		t.Errorf("not full after its own time: %v", b.tokens)
	}
}

func TestTokenBucketKeepsItsDebt(t *testing.T) {
	now := time.Unix(0, 0)
	b := newTokenBucket(10, now)
	b.spend(510*ms, now.Add(100*ms)) // 10 ms were saved, 10 came meanwhile
	if got := b.refill().Round(ms); got != 5000*ms {
		t.Errorf("refill takes %v", got)
	}
	b.spend(510*ms, now.Add(1000*time.Hour))
	if !b.full() {
		t.Error("not full after a thousand hours")
	}
}
