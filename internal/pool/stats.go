package pool

import (
	"slices"
	"time"
)

// Path is how a claim came by its sandbox.
type Path int

// The paths.
const (
	Parked Path = iota
	Cold
	paths
)

func (p Path) String() string { return [paths]string{"parked", "cold"}[p] }

// Stats is what a pool has, and has done.
type Stats struct {
	Ready int `json:"ready"` // parked now
	Want  int `json:"want"`  // how many are to be, by what was asked for lately
	Min   int `json:"min"`
	Max   int `json:"max"`

	Waiting int   `json:"waiting"` // claims that wait for a place
	Refused int64 `json:"refused"` // claims that have waited for one in vain

	Built   int64 `json:"built"`
	Failed  int64 `json:"failed"`  // could not be built, or were not ready
	Died    int64 `json:"died"`    // ended by themselves while parked
	Aged    int64 `json:"aged"`    // were parked for too long
	Changed int64 `json:"changed"` // would be built otherwise since

	// Parked are claims that found one, Cold those for which one was built.
	Parked PathStats `json:"parked"`
	Cold   PathStats `json:"cold"`
	// Problem is why there is nothing to park; empty: there is.
	Problem string `json:"problem,omitempty"`
}

// PathStats are claims that came by their sandboxes in one way.
type PathStats struct {
	Claims int64 `json:"claims"`
	// P50 and P99 are how long the last thousand took, in seconds.
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	// Total is how long all of them took, and Buckets how many took not more than Bounds say, in seconds.
	Total   float64                `json:"-"`
	Buckets [len(Bounds) + 1]int64 `json:"-"`
}

// Bounds are those of the buckets of a histogram, in seconds. The last bucket has none.
var Bounds = [...]float64{50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 1}

// window is how many claims of a path are remembered one by one.
const window = 1000

// counts are what is told by Stats.
type counts struct {
	built, failed, died, aged, changed, refused int64
	waiting                                     int
	path                                        [paths]struct {
		claims  int64
		total   time.Duration
		last    [window]time.Duration
		buckets [len(Bounds) + 1]int64
	}
}

// claimed counts a claim.
func (p *Pool) claimed(by Path, began time.Time) {
	d := time.Since(began)
	p.mu.Lock()
	defer p.mu.Unlock()
	c := &p.counts.path[by]
	c.last[c.claims%window] = d
	c.claims++
	c.total += d
	i := 0
	for i < len(Bounds) && d.Seconds() > Bounds[i] {
		i++
	}
	c.buckets[i]++
}

// Stats says what there is now.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := &p.counts
	s := Stats{Ready: len(p.parked), Want: p.want, Min: p.opts.Min, Max: p.opts.Max,
		Waiting: c.waiting, Refused: c.refused, Built: c.built, Failed: c.failed, Died: c.died, Aged: c.aged, Changed: c.changed}
	if p.now.err != nil {
		s.Problem = p.now.err.Error()
	}
	for path, to := range [paths]*PathStats{&s.Parked, &s.Cold} {
		of := &c.path[path]
		last := slices.Clone(of.last[:min(of.claims, window)])
		slices.Sort(last)
		*to = PathStats{Claims: of.claims, Total: of.total.Seconds(), Buckets: of.buckets}
		if n := len(last); n > 0 {
			to.P50, to.P99 = last[n/2].Seconds(), last[n*99/100].Seconds()
		}
	}
	return s
}
