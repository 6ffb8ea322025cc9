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

func (s *series) values() spread {
	return spreadOf(s.readings, func(r reading) float64 { return r.value })
}

func (s *series) cpu() spread {
	return spreadOf(s.readings, func(r reading) float64 { return r.cpu })
}

func spreadOf(readings []reading, of func(reading) float64) spread {
	list := make([]float64, len(readings))
	for i, r := range readings {
		list[i] = of(r)
	}
	if len(list) == 0 {
		return spread{}
	}
	return spread{median(list), slices.Min(list), slices.Max(list)}
}

// median of a list that it may reorder; of an even number, the mean of the two
// in the middle.
func median(list []float64) float64 {
	slices.Sort(list)
	n := len(list)
	switch {
	case n == 0:
		return 0
	case n%2 == 1:
		return list[n/2]
	}
	return (list[n/2-1] + list[n/2]) / 2
}

// ratio is the median of the ratios within each round.
func ratio(s, base *series) float64 {
	return pairs(s, base, func(a, b float64) float64 { return a / b })
}

// difference is the median of the differences within each round.
func difference(s, base *series) float64 {
	return pairs(s, base, func(a, b float64) float64 { return a - b })
}

func pairs(s, base *series, of func(a, b float64) float64) float64 {
	n := min(len(s.readings), len(base.readings))
	list := make([]float64, 0, n)
	for i := range n {
		if b := base.readings[i].value; b != 0 {
			list = append(list, of(s.readings[i].value, b))
		}
	}
	return median(list)
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
