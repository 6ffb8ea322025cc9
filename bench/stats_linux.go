package main

import "slices"

// reading is one figure of one turn.
type reading struct {
	value float64
	cpu   float64 // milliseconds of user and system time; 0: not known
}

// series is all readings of one peer, one for each round.
type series struct {
	name     string
	readings []reading
}

// spread is what a series comes down to.
type spread struct {
	median, min, max float64
}

func (s *series) spread(of func(reading) float64) spread {
	list := make([]float64, len(s.readings))
	for i, r := range s.readings {
		list[i] = of(r)
	}
	return spread{median(list), slices.Min(list), slices.Max(list)}
}

func (s *series) values() spread { return s.spread(func(r reading) float64 { return r.value }) }

// percentile is the reading that so many of a hundred aren't above.
func (s *series) percentile(n int) float64 {
	var list []float64
	for _, r := range s.readings {
		list = append(list, r.value)
	}
	slices.Sort(list)
	return list[(len(list)-1)*n/100]
}

// median of a list that it may reorder; of an even number, the mean of the two
// in the middle.
func median(list []float64) float64 {
	slices.Sort(list)
	n := len(list)
	return (list[(n-1)/2] + list[n/2]) / 2
}

// pairs is the median of what is said of the two readings of each round.
func pairs(s, base *series, of func(a, b float64) float64) float64 {
	list := make([]float64, len(s.readings))
	for i := range list {
		list[i] = of(s.readings[i].value, base.readings[i].value)
	}
	return median(list)
}

func ratio(s, base *series) float64 {
	return pairs(s, base, func(a, b float64) float64 { return a / b })
}

func difference(s, base *series) float64 {
	return pairs(s, base, func(a, b float64) float64 { return a - b })
}

// find is the series of that name, or nil.
func find(all []series, name string) *series {
	for i := range all {
		if all[i].name == name {
			return &all[i]
		}
	}
	return nil
}
