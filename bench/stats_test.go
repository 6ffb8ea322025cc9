package main

import "testing"

func made(name string, values ...float64) series {
	s := series{name: name}
	for _, v := range values {
		s.readings = append(s.readings, reading{value: v})
	}
	return s
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		name string
		in   []float64
		want float64
	}{
		{"nothing", nil, 0},
		{"one", []float64{3}, 3},
		{"odd, not in order", []float64{9, 1, 5}, 5},
		{"even is the mean of the middle", []float64{8, 1, 2, 4}, 3},
	} {
		if got := median(c.in); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestRatioIsTakenWithinEachRound(t *testing.T) {
	// A host that gets slower and slower: the medians alone would say 4/2.
	base, s := made("base", 1, 2, 100), made("s", 3, 4, 110)
	if got := ratio(&s, &base); got != 2 {
		t.Errorf("ratio %v, want 2", got)
	}
	if got := difference(&s, &base); got != 2 {
		t.Errorf("difference %v, want 2", got)
	}
}

func TestSpread(t *testing.T) {
	s := made("s", 5, 1, 9)
	if got := s.values(); got != (spread{5, 1, 9}) {
		t.Errorf("%v", got)
	}
}

func TestFind(t *testing.T) {
	all := []series{made("a"), made("b")}
	if s := find(all, "b"); s == nil || s.name != "b" {
		t.Errorf("b: %v", s)
	}
	if s := find(all, "c"); s != nil {
		t.Errorf("c: %v", s)
	}
}
