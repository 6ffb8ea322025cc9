package main

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"
)

// batch is many runs under one set of options.
type batch struct {
	setup        string
	flight       int
	runs, killed int // killed in time; others ended before
	mechanisms   map[string]int
	took         []time.Duration // of those that exit at once
	elapsed      time.Duration
	wrong        []string
}

const (
	oneIn = 3 // supervisors is killed
	// killWithin is well before a victim ends by itself.
	killWithin = atMost / 4
)

func (s *soak) batch(u setup, count, flight int) *batch {
	b := &batch{setup: u.name, flight: flight, mechanisms: map[string]int{}}
	began := time.Now()
	usual := s.usual(u) * time.Duration(1+flight/runtime.NumCPU())
	var mu sync.Mutex
	inFlight(count, flight, func(i int) {
		l, kill := &loads[i%len(loads)], time.Duration(0)
		if rand.N(oneIn) == 0 {
			// From before it is set up to well in the middle of it.
			l, kill = &victim, 1+rand.N(min(3*usual, killWithin))
		}
		e, err := s.run(slices.Concat(u.options, l.options), l.words, kill)
		mu.Lock()
		defer mu.Unlock()
		b.add(l, e, err)
	})
	b.elapsed = time.Since(began)
	b.wrong = append(b.wrong, reaped()...)
	return b
}

// add counts one run.
func (b *batch) add(l *load, e *ending, err error) {
	b.runs++
	switch {
	case err != nil:
		b.wrong = append(b.wrong, l.name+": "+err.Error())
	case e.killed:
		b.killed++
	case e.status != l.status || e.rc != l.rc:
		b.wrong = append(b.wrong, fmt.Sprintf("%s: %s, not %s", l.name, e, l.status))
	default:
		b.mechanisms[e.mechanisms]++
		if l == &loads[0] {
			b.took = append(b.took, e.took)
		}
	}
}

// reaped waits for whom the killed supervisors have left to us, before there are too many.
func reaped() []string {
	if err := reap(); err != nil {
		return []string{err.Error()}
	}
	return nil
}

// usual is how long a run takes with nobody else about.
func (s *soak) usual(u setup) time.Duration {
	best := time.Second
	for range 5 {
		if e, err := s.run(u.options, loads[0].words, 0); err == nil {
			best = min(best, e.took)
		}
	}
	return best
}

// inFlight does something so many times, with so many in flight.
func inFlight(count, flight int, do func(i int)) {
	next := make(chan int)
	var done sync.WaitGroup
	for range min(count, flight) {
		done.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range count {
		next <- i
	}
	close(next)
	done.Wait()
}

// struck is what came of one pair of limits.
type struck struct {
	setup  string
	strike strike
	runs   int
	seen   map[string]int // "STATUS rc [limits hit]"
	wrong  []string
}

func (s *soak) strike(u setup, k strike, count, flight int) *struck {
	r := &struck{setup: u.name, strike: k, seen: map[string]int{}}
	var mu sync.Mutex
	inFlight(count, flight, func(int) {
		e, err := s.run(slices.Concat(u.options, k.options), k.words, 0)
		mu.Lock()
		defer mu.Unlock()
		r.add(e, err)
	})
	r.wrong = append(r.wrong, reaped()...)
	if len(r.seen) > 1 {
		r.wrong = append(r.wrong, fmt.Sprintf("%s is not stable: %v", k.name, r.seen))
	}
	return r
}

func (r *struck) add(e *ending, err error) {
	r.runs++
	if err != nil {
		r.wrong = append(r.wrong, r.strike.name+": "+err.Error())
		return
	}
	r.seen[fmt.Sprintf("%s %d %v", e.status, e.rc, e.hits)]++
	missing := slices.ContainsFunc(r.strike.hits, func(h string) bool { return !slices.Contains(e.hits, h) })
	if e.status != r.strike.status || missing {
		r.wrong = append(r.wrong, fmt.Sprintf("%s: %s, not %s with %v", r.strike.name, e, r.strike.status, r.strike.hits))
	}
}
