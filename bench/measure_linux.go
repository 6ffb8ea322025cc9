package main

import (
	"fmt"
	"slices"
)

// measurement is one figure, taken of several peers in turns.
type measurement struct {
	name   string
	how    string // it is measured, in a sentence or two
	unit   string
	base   string // the ratios are to this peer
	rounds int    // unless -n says otherwise
	peers  func(*bench) ([]peer, error)
	aims   []aim
}

// aim is a line of the page's first table: one peer, held against another or a bound.
type aim struct {
	what string // is held, for people
	goal string // in words; bound judges
	of   string // this peer
	kind kind
	bound
	rival string // that has to be behind, too; "" if none has
}

// bound is what a figure has to keep to.
type bound struct{ most, least float64 } // 0: there is none

func (b bound) holds(x float64) bool { return x >= b.least && (b.most == 0 || x <= b.most) }

// kind is what of a peer is judged.
type kind int

const (
	times  kind = iota // the ratio to the base
	extra              // the difference to the base
	itself             // the median
	tail               // the 99th percentile of what is more than the base's median
)

func atMost(x float64) bound  { return bound{most: x} }
func atLeast(x float64) bound { return bound{least: x} }

// Names of peers that are judged, or that others are compared with.
const (
	bare           = "bare"
	standard       = "confine -p standard"
	testingProfile = "confine -p testing"
	asModule       = "confine -p standard --isolation wasm"
	bwrap          = "bwrap"
	sameMount      = "bwrap, confine's mounts one for one"
	byName         = "confine, by name"
	localhost      = "confine, localhost"
	pasta          = "pasta, port splice"
	allAllow       = "no sandbox, a filter of one instruction"
)

// measurements is all there is, in the order in which it is run and shown. The many at once
// come last: they are a crowd by themselves.
var measurements = []measurement{
	{"start", "`/bin/true` from fork to exit. bwrap, as its users call it and with a mount for each of confine's, loads no system call filter, keeps no clocks, hands its streams on and doesn't wait until its namespaces are gone.",
		"ms", bwrap, 60, (*bench).starts,
		[]aim{{"cold start of `/bin/true` in full confinement", "≤ 1.6 × `bwrap --unshare-all`, as its users call it", standard, times, atMost(1.6), ""}}},
	{"module", "A module of WebAssembly that ends at once, as it is compiled already, from fork to exit; beside it `/bin/true`, and wazero's own command line where it is installed.",
		"ms", standard, 60, modules,
		[]aim{{"a module of WebAssembly, compiled already", "≤ 2 ms more than `/bin/true`", asModule, extra, atMost(2), ""}}},
	{"memory", "PSS of supervisor and PID 1, a second after the start of a target that waits, without the target.", "MiB", bwrap, 5, (*bench).memory,
		[]aim{{"memory of supervisor and PID 1", "≤ 6 MiB", standard, itself, atMost(6), ""}}},
	{"calls", "`getppid`, the best of 60 loops of 50,000 each time. Any filter at all has its price, one of a single instruction too.", "ns", bare, 15, (*bench).calls,
		[]aim{{"a plain system call", "≤ 10 ns more than bare", "confine", extra, atMost(10), ""},
			{"the part of it that any filter costs", "–", allAllow, extra, bound{}, ""}}},
	{"pytest", "A suite that computes, parses and writes small files, start-up included. `$TMPDIR` is in memory for all.", "ms", bare, 7, (*bench).suites,
		[]aim{{"a pytest suite", "≤ 1.02 × bare", testingProfile, times, atMost(1.02), ""}}},
	{"net-up", "256 MiB over one TCP connection to the caller's loopback.", "GiB/s", bare, 15, flow("up", 256<<20),
		[]aim{{"one TCP connection, up", "≥ 0.65 × bare, ahead of pasta", byName, times, atLeast(0.65), pasta}}},
	{"net-down", "The same from there.", "GiB/s", bare, 15, flow("down", 256<<20),
		[]aim{{"the same, down", "≥ 0.65 × bare, ahead of pasta", byName, times, atLeast(0.65), pasta}}},
	{"net-latency", "The median of 3,000 round trips of a byte. Client and server (`cat`) sleep in `read(2)`.", "µs", bare, 15, flow("latency", 3000),
		[]aim{{"a round trip of one byte", "≤ 2 × bare, ahead of pasta", byName, times, atMost(2), pasta}}},
	{"net-connect", "300 connections one after another, each with a byte there and back: who says yes before it has reached the server gains nothing.", "ms", bare, 15, flow("connect", 300),
		[]aim{{"a new connection", "≤ 0.3 ms", byName, itself, atMost(0.3), ""}}},
	{"net-memory", "PSS of all that carries the bytes, without the client: of confine its supervisor and PID 1. At rest one connection has been made and closed.", "MiB", "", 3, (*bench).flowMemory,
		[]aim{{"supervisor and PID 1 with a network", "≤ 10 MiB at rest", byName + atRest, itself, atMost(10), ""},
			{"with 1,000 connections", "–", byName + heldOpen, itself, bound{}, ""}}},
	{"parked", "A program of three instructions in a sandbox that is there already, until its result is: by package confine in this process, and by `confine serve` on a unix socket, whose answer to a request for nothing stands beside it. " +
		"All sandboxes are ready before each, and nothing is being built.",
		"ms", bare, 100, (*bench).parked,
		[]aim{{"a run in a parked sandbox, by the Go API", "≤ 0.6 ms more than fork and exec", pooled, extra, atMost(0.6), ""},
			{"the slowest of a hundred of them", "–", pooled, tail, bound{}, ""},
			{"the same by HTTP", "≤ 1.3 ms more than fork and exec", overHTTP, extra, atMost(1.3), ""},
			{"the slowest of a hundred of them", "–", overHTTP, tail, bound{}, ""}}},
	{"burst", "The same program, 200 runs at once, out of a pool of 200.", "s", bwrap, 3, burst(200, 200, 200),
		[]aim{{"a burst of 200 runs out of a pool", "≤ 0.5 × bwrap", pooled, times, atMost(0.5), ""}}},
	{"sustained", "The same program, 600 runs, 16 in flight, out of a pool of 20 that is refilled meanwhile.", "s", bwrap, 3, burst(600, 16, 20),
		[]aim{{"runs for longer than a pool lasts", "≥ 0.8 × bwrap's throughput, ≤ 1.25 × its time", pooled, times, atMost(1.25), ""}}},
	{"at-once", "100 sandboxes are opened at one time, with none parked.", "s", "", 3, atOnce(100),
		[]aim{{"100 sandboxes at one time", "none fails", pooled, itself, bound{}, ""}}},
	{"pool-memory", "PSS of the PID 1 of a parked sandbox and what the process that keeps it grows by: the mean of 40.", "MiB", "", 3, poolMemory(40),
		[]aim{{"memory of a parked sandbox", "≤ 1.5 MiB", poolInit, itself, atMost(1.5), ""}}},
	{"fork", "A sandbox with 1 GiB in 64 files of its private /tmp is forked, until the fork stands; beside it one without files, and an open. Each is closed before the next. After a fork the init of another starts ahead: the one with 1 GiB has it, and the open, which comes after that.", "ms", opened, 30, (*bench).forks,
		[]aim{{"fork of a sandbox with 1 GiB of files", "≤ 5 ms", forked, itself, atMost(5), ""}}},
	{"machine", "A machine of 512 MiB on emulated CPUs (`VMKERNEL` names its kernel): from fork to exit of `confine`, with `/bin/true` in it; beside it QEMU alone with the same kernel and a Go program as its first, which ends the machine at once. " +
		"A restore is by package confine, from a snapshot on the disk up to the end of `/bin/true`; a fork until it answers; a claim is of one of two that are parked.", "ms", plainQEMU, 7, machine,
		[]aim{{"a machine up to the first command's end", "≤ 1.3 × plain QEMU to a Go init", machineBoot, times, atMost(1.3), ""},
			{"a restore to the first command's end", "≤ 150 ms", machineBack, itself, atMost(150), ""},
			{"a claim from a pool of machines, to the first command's end", "≤ 150 ms", machinePool, itself, atMost(150), ""},
			{"a fork of a machine of 512 MiB", "≤ 200 ms", machineFork, itself, atMost(200), ""}}},
	{"sequence", "`/bin/true`, 1,000 runs one after another. That nothing is left of runs is for `make soak` to show.", "s", bwrap, 1, batch(1000, 1),
		[]aim{{"1,000 runs one after another", "≤ 1.6 × bwrap, none fails", standard, times, atMost(1.6), ""}}},
	{"together", "The same, 200 runs at once.", "s", bwrap, 3, batch(200, 200),
		[]aim{{"200 runs at once", "≤ 2 × bwrap, none fails", standard, times, atMost(2), ""}}},
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
	for round := -min(warmUp, rounds-1); round < rounds; round++ {
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

// run measures, and judges by the aims.
func (m *measurement) run(b *bench) (*result, error) {
	defer b.closeAll()
	peers, err := m.peers(b)
	if err != nil || len(peers) == 0 {
		return &result{measurement: m, answers: m.judge(nil)}, err
	}
	rounds := m.rounds
	if b.n > 0 {
		rounds = b.n
	}
	all, err := inTurns(peers, rounds)
	if err != nil {
		return nil, err
	}
	return &result{measurement: m, rows: rows(all, m.base), answers: m.judge(all)}, nil
}

// judge holds what was measured against each aim.
func (m *measurement) judge(all []series) (list []answer) {
	for _, a := range m.aims {
		own, base := find(all, a.of), find(all, m.base)
		if own == nil || base == nil && a.kind != itself {
			list = append(list, answer{"a peer is missing", absent})
			continue
		}
		var x float64
		var said string
		switch a.kind {
		case times:
			x = ratio(own, base)
			said = fmt.Sprintf("%.2f ×", x)
		case extra:
			x = difference(own, base)
			said = fmt.Sprintf("%+.1f %s", x, m.unit)
		case tail:
			x = own.percentile(99) - base.values().median
			said = fmt.Sprintf("%+.1f %s", x, m.unit)
		case itself:
			x = own.values().median
			said = fmt.Sprintf("%.2f %s", x, m.unit)
		}
		ok := a.holds(x)
		if rival := find(all, a.rival); rival != nil {
			y := ratio(own, rival)
			said += fmt.Sprintf(", %.2f × %s", y, rival.name)
			ok = ok && (y >= 1) == (a.least > 0)
		}
		v := met
		switch {
		case a.goal == "–":
			v = noAim
		case !ok:
			v = missed
		}
		list = append(list, answer{said, v})
	}
	return list
}

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
