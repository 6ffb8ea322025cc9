package main

import (
	"fmt"
	"slices"
)

// measurement is one thing that is measured, for itself or against an aim.
type measurement struct {
	name string
	what string // in a line, for people
	aim  string
	run  func(*bench) (*result, error)
}

// measurements is all there is, in the order in which it is run and shown.
var measurements = []measurement{
	{"start", "cold start of `/bin/true` in full confinement", "≤ 1.25 × `bwrap --unshare-all` with the like mounts", measureStart},
	{"memory", "supervisor and PID 1 together, while a `sleep` runs", "≤ 6 MiB", measureMemory},
	{"calls", "a plain system call (`getppid`)", "≤ 10 ns more than bare", measureCalls},
	{"pytest", "a pytest suite", "≤ 1.02 × bare", measurePytest},
	{"gobuild", "a `go build`", "≤ 1.02 × bare", measureGoBuild},
	{"rules-start", "the same start with 100 rules", "≤ 1.25 × `bwrap` with the like mounts", measureRulesStart},
	{"rules-pytest", "the pytest suite under an overlay and 100 rules", "≤ 1.02 × bare", measureRulesPytest},
	{"rules-gobuild", "the `go build` under an overlay and 100 rules", "≤ 1.02 × bare", measureRulesGoBuild},
	{"relay", "1 GiB of output, passed on", "≥ 0.8 × a bare pipe", measureRelay},
	{"drop", "1 GiB of output, dropped past a cap of 1M", "–", measureDrop},
	{"net-up", "one TCP connection to the caller's loopback, up", "≥ 0.65 × bare, ahead of pasta and slirp4netns", measureNetUp},
	{"net-down", "the same, down", "≥ 0.65 × bare, ahead of both", measureNetDown},
	{"net-latency", "a round trip of one byte", "≤ 2 × bare, ahead of both", measureNetLatency},
	{"net-polled", "the same by Go's poller", "–", measureNetPolled},
	{"net-connect", "a new connection", "≤ 0.3 ms", measureNetConnect},
	{"net-requests", "round trips of one byte over 32 connections", "–", measureNetRequests},
	{"net-memory", "supervisor and PID 1 with a network", "≤ 10 MiB at rest", measureNetMemory},
	{"net-start", "cold start with an allowlist, against one without", "–", measureNetStart},
	{"sequence", "1,000 runs one after another", "none fails, nothing is left", measureSequence},
	{"together", "200 runs at once", "none fails, nothing is left", measureTogether},
}

// verdict is how a measurement stands to its aim.
type verdict string

const (
	met    verdict = "met"
	missed verdict = "**not met**"
	noAim  verdict = "–"
	absent verdict = "not judged"
)

func judge(ok bool) verdict {
	if ok {
		return met
	}
	return missed
}

// result is what a measurement found.
type result struct {
	unit     string
	base     string // the ratios are to it
	all      []series
	measured string // against the aim, in a few words
	verdict  verdict
	notes    []string
}

func (r *result) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// peer is one of those that are compared: take gives its next reading.
type peer struct {
	name string
	take func() (reading, error)
}

// warmUp is how many rounds don't count.
const warmUp = 2

// inTurns lets the peers measure one after another, round by round.
func inTurns(peers []peer, rounds int) ([]series, error) {
	all := make([]series, len(peers))
	for i, p := range peers {
		all[i].name = p.name
	}
	for round := -min(warmUp, rounds); round < rounds; round++ {
		for i, p := range peers {
			got, err := p.take()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.name, err)
			}
			if round >= 0 {
				all[i].readings = append(all[i].readings, got)
			}
		}
	}
	return all, nil
}

// compare measures all peers, and judges one of them by its ratio to the base,
// which ok knows the aim of.
func (r *result) compare(peers []peer, rounds int, judged string, ok func(ratio float64) bool) error {
	var err error
	if r.all, err = inTurns(peers, rounds); err != nil {
		return err
	}
	base := find(r.all, r.base)
	if base == nil {
		r.measured, r.verdict = r.base+" is missing", absent
		return nil
	}
	x := ratio(find(r.all, judged), base)
	r.measured, r.verdict = fmt.Sprintf("%.2f ×", x), judge(ok(x))
	return nil
}

func atMost(limit float64) func(float64) bool  { return func(x float64) bool { return x <= limit } }
func atLeast(limit float64) func(float64) bool { return func(x float64) bool { return x >= limit } }

// chosen are the measurements of these names, or all; an unknown name is an error.
func chosen(names []string) ([]measurement, error) {
	if len(names) == 0 {
		return measurements, nil
	}
	var list []measurement
	var known []string
	for _, m := range measurements {
		known = append(known, m.name)
		if slices.Contains(names, m.name) {
			list = append(list, m)
		}
	}
	for _, n := range names {
		if !slices.Contains(known, n) {
			return nil, fmt.Errorf("no measurement %q\nhint: there are %v", n, known)
		}
	}
	return list, nil
}
