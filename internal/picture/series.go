package picture

import "slices"

// series is a figure over time, in columns of one width. Where nothing is known there is a gap, and not zero.
type series struct {
	top, part []float64 // by column; part is a part of top, or nil
	known     []bool
}

// late says whether so much is missing between two samples that nothing can be said of the time between them.
func late(before, after *Sample) bool { return after.AtMS-before.AtMS > 3*before.EveryMS+250 }

// gaps counts them.
func (run *Run) gaps() (n int) {
	for i := 1; i < len(run.Samples); i++ {
		if late(&run.Samples[i-1], &run.Samples[i]) {
			n++
		}
	}
	return n
}

// level is the highest of a figure in each column. It stays as a sample has it until the next, if that isn't late.
func (run *Run) level(columns int, of func(*Sample) *int64) *series {
	s := newSeries(columns)
	for i := range run.Samples {
		v := of(&run.Samples[i])
		if v == nil {
			continue
		}
		until := run.Samples[i].AtMS + run.Samples[i].EveryMS
		if i+1 < len(run.Samples) && !late(&run.Samples[i], &run.Samples[i+1]) {
			until = run.Samples[i+1].AtMS
		}
		s.fill(run, run.Samples[i].AtMS, min(until, run.EndMS), func(c int, _ float64) { s.top[c] = max(s.top[c], float64(*v)) })
	}
	return s
}

// rate is what a counter grew by in a second, in each column: of each two samples, their share of the column's time. part is that of a
// part of it, or nil.
func (run *Run) rate(columns int, of, part func(*Sample) *int64) *series {
	s := newSeries(columns)
	weight := make([]float64, columns)
	if part != nil {
		s.part = make([]float64, columns)
	}
	zero := int64(0)
	before, was, partWas := &Sample{}, &zero, &zero // all counters begin with 0, when the run does
	before.EveryMS = 1
	share := 0.0
	for i := range run.Samples {
		now := &run.Samples[i]
		n := of(now)
		if n == nil {
			was = nil
			continue
		}
		if was != nil && now.AtMS > before.AtMS && !late(before, now) {
			per := float64(max(*n-*was, 0)) * 1000 / float64(now.AtMS-before.AtMS)
			if part != nil {
				p := part(now)
				if p != nil && partWas != nil && *n > *was {
					share = min(float64(max(*p-*partWas, 0))/float64(*n-*was), 1)
				}
				partWas = p
			}
			s.fill(run, before.AtMS, now.AtMS, func(c int, w float64) {
				s.top[c] += per * w
				weight[c] += w
				if part != nil {
					s.part[c] += per * share * w
				}
			})
		}
		before, was = now, n
	}
	for c := range s.top {
		if weight[c] > 0 {
			s.top[c] /= weight[c]
			if part != nil {
				s.part[c] /= weight[c]
			}
		}
	}
	return s
}

func newSeries(columns int) *series {
	return &series{top: make([]float64, columns), known: make([]bool, columns)}
}

// fill calls for each column between two times, with the part of the column that is between them.
func (s *series) fill(run *Run, from, to int64, do func(c int, part float64)) {
	n := float64(len(s.top))
	a, b := float64(from)*n/float64(run.EndMS), float64(to)*n/float64(run.EndMS)
	for c := max(int(a), 0); c < len(s.top) && (float64(c) < b || c == int(a)); c++ {
		part := min(b, float64(c+1)) - max(a, float64(c))
		if part <= 0 {
			part = 1e-9
		}
		s.known[c] = true
		do(c, part)
	}
}

// highest is that of all columns.
func (s *series) highest() (most float64) {
	for i, v := range s.top {
		if s.known[i] {
			most = max(most, v)
		}
	}
	return most
}

func (s *series) any() bool {
	return slices.Contains(s.known, true)
}
