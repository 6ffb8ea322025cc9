package main

import (
	"errors"
	"fmt"
	"os/exec"
)

// rivals are those whom confine has to be ahead of.
var rivals = []string{waySplice, wayTap, waySlirp}

// network measures one figure on all ways, and judges confine's by its ratio to
// bare loopback and by its place among the others.
type network struct {
	word   string
	n      int
	unit   string
	rounds int
	more   bool // is better
	limit  func(median, ratio float64) bool
	ahead  bool // of the rivals, is an aim too
}

func (m *network) measure(b *bench) (*result, error) {
	w, err := b.openWays()
	if err != nil {
		return nil, err
	}
	r := &result{unit: m.unit, base: wayBare}
	var peers []peer
	for _, one := range w.all {
		peers = append(peers, peer{one.name, func() (reading, error) {
			return one.tried(func() (reading, error) { return one.measure(m.word, m.n) })
		}})
	}
	r.all, err = inTurns(peers, b.rounds(m.rounds))
	if failed := w.close(); err == nil {
		err = failed
	}
	if err != nil {
		return nil, err
	}
	w.notes(r)
	own := find(r.all, wayName)
	x := ratio(own, find(r.all, wayBare))
	r.measured = fmt.Sprintf("%.2f %s, %.2f ×", own.values().median, m.unit, x)
	r.verdict = judge(m.limit(own.values().median, x))
	for _, name := range rivals {
		rival := find(r.all, name)
		if rival == nil {
			continue
		}
		y := ratio(own, rival)
		r.measured += fmt.Sprintf("; %.2f × %s", y, name)
		if m.ahead && y < 1 == m.more {
			r.verdict = missed
		}
	}
	return r, nil
}

func measureNetUp(b *bench) (*result, error) {
	m := network{"up", 256 << 20, "GiB/s", 15, true, func(_, x float64) bool { return x >= 0.65 }, true}
	return m.measure(b)
}

func measureNetDown(b *bench) (*result, error) {
	m := network{"down", 256 << 20, "GiB/s", 15, true, func(_, x float64) bool { return x >= 0.65 }, true}
	return m.measure(b)
}

func measureNetLatency(b *bench) (*result, error) {
	m := network{"latency", 3000, "µs", 15, false, func(_, x float64) bool { return x <= 2 }, true}
	r, err := m.measure(b)
	if err == nil {
		r.note("The median of 3,000 round trips, each time. Client and server (`cat`) sleep in `read(2)`.")
	}
	return r, err
}

func measureNetPolled(b *bench) (*result, error) {
	m := network{"polled", 3000, "µs", 15, false, func(_, _ float64) bool { return true }, false}
	r, err := m.measure(b)
	if err == nil {
		r.verdict = noAim
		r.note("The median of 3,000 round trips, each time. Client and server are woken by the poller of Go's runtime, whose threads take part in all ways.")
	}
	return r, err
}

func measureNetConnect(b *bench) (*result, error) {
	m := network{"connect", 300, "ms", 15, false, func(ms, _ float64) bool { return ms <= 0.3 }, false}
	r, err := m.measure(b)
	if err == nil {
		r.note("One after another, each with a byte there and back: who says yes before it has reached the server gains nothing.")
	}
	return r, err
}

func measureNetRequests(b *bench) (*result, error) {
	m := network{"requests", 300, "/s", 15, true, func(_, _ float64) bool { return true }, false}
	r, err := m.measure(b)
	if err == nil {
		r.verdict = noAim
	}
	return r, err
}

func measureNetMemory(b *bench) (*result, error) {
	const many = 1000
	r := &result{unit: "MiB"}
	for range b.rounds(3) {
		if err := b.networkMemory(r, many); err != nil {
			return nil, err
		}
	}
	rest := find(r.all, wayName+", "+atRest).values()
	full := find(r.all, wayName+", "+fmt.Sprintf(heldOpen, many)).values()
	r.measured = fmt.Sprintf("%.1f MiB; %.1f MiB with %d connections", rest.median, full.median, many)
	r.verdict = judge(rest.median <= 10)
	r.note("PSS of all that carries the bytes, without the client: of confine its supervisor and its PID 1. At rest one connection has been made and closed.")
	return r, nil
}

const (
	atRest   = "at rest"
	heldOpen = "%d connections"
)

// networkMemory is one round, in which everybody is started anew.
func (b *bench) networkMemory(r *result, many int) error {
	w, err := b.openWays()
	if err != nil {
		return err
	}
	for _, one := range w.all {
		if one.name == wayBare {
			continue
		}
		err = errors.Join(err, r.add(one, atRest, 1, 0), r.add(one, fmt.Sprintf(heldOpen, many), many), r.add(one, "after them", 0))
	}
	w.notes(r)
	return errors.Join(err, w.close())
}

// add is the memory of a way after it was asked to hold so many connections, one after another.
func (r *result) add(one *way, state string, held ...int) error {
	got, err := one.tried(func() (got reading, err error) {
		for _, n := range held {
			if _, err := one.ask("hold", n); err != nil {
				return got, err
			}
		}
		return one.memory(r)
	})
	if err != nil || one.failed != nil {
		return err
	}
	name := one.name + ", " + state
	s := find(r.all, name)
	if s == nil {
		r.all = append(r.all, series{name: name})
		s = &r.all[len(r.all)-1]
	}
	s.readings = append(s.readings, got)
	return nil
}

func measureNetStart(b *bench) (*result, error) {
	const without = "confine -p standard, no network"
	r := &result{unit: "ms", base: without, verdict: noAim}
	peers := []peer{
		b.timed(without, b.confined("-p standard", target)),
		b.timed("confine -p standard --allow-network *.example.org:443", b.confined("-p standard --allow-network *.example.org:443", target)),
	}
	if pasta, err := exec.LookPath("pasta"); err != nil {
		r.note("Not installed: pasta.")
	} else {
		peers = append(peers, b.timed("pasta, no sandbox", command{argv: pastaed(pasta, "-T none", []string{target})}))
	}
	var err error
	if r.all, err = inTurns(peers, b.rounds(40)); err != nil {
		return nil, err
	}
	own, base := &r.all[1], &r.all[0]
	r.measured = fmt.Sprintf("%+.2f ms, %.2f ×", difference(own, base), ratio(own, base))
	return r, nil
}
