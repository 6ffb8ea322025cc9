package tree

import (
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

// beside measures PSS on a thread of its own. Who reads a smaps_rollup waits for whoever
// holds a lock of that memory, who on a busy host waits for a processor: half a second has
// been seen. Memory grows meanwhile, and somebody has to look.
type beside struct {
	reader
	sample Sample    // that is measured
	list   []process // whom it is made of
	done   chan error
	busy   bool // done has not been received from
	stale  bool // the tree was measured since
}

// measure replaces RSS by PSS.
func (t *Tree) measure(s *Sample) error {
	if err := t.reader.measure(s, t.cur); err != nil {
		return err
	}
	t.beside.stale = true
	for i := range t.cur {
		p := &t.cur[i]
		p.rssThen, p.faultsThen = p.rss, p.faults
	}
	t.lastPSS = *s
	return nil
}

// measureBeside begins to, for Measured, unless that goes on already. What a process gets
// from now on isn't known to be in its PSS.
func (t *Tree) measureBeside(s *Sample) {
	b := &t.beside
	if b.busy {
		return
	}
	if b.done == nil {
		b.done = make(chan error, 1)
	}
	b.reader.dir, b.sample, b.list, b.busy, b.stale = t.dir, *s, append(b.list[:0], t.cur...), true, false
	for i := range t.cur {
		p := &t.cur[i]
		p.rssAsked, p.faultsAsked = p.rss, p.faults
	}
	go func() {
		runtime.LockOSThread() // its time is measured
		defer runtime.UnlockOSThread()
		b.done <- b.reader.measure(&b.sample, b.list)
	}()
}

// Measured is an earlier sample whose PSS was measured beside since, or nil. It is given once,
// and valid until the next is.
func (t *Tree) Measured(wait bool) (*Sample, error) {
	b := &t.beside
	if !b.busy {
		return nil, nil
	}
	var err error
	if wait {
		err = <-b.done
	} else {
		select {
		case err = <-b.done:
		default:
			return nil, nil
		}
	}
	if b.busy = false; err != nil || b.stale {
		return nil, err
	}
	for i := range t.cur {
		p := &t.cur[i]
		p.rssThen, p.faultsThen = p.rssAsked, p.faultsAsked
	}
	t.lastPSS = b.sample
	return &t.lastPSS, nil
}

// measure asks for everybody's PSS.
func (r *reader) measure(s *Sample, list []process) error {
	busy := linux.ThreadTime()
	s.HasPSS = true
	for i := range list {
		p := &list[i]
		if p.root || p.dead() {
			continue
		}
		mem, err := r.rollup(p)
		switch {
		case err == nil:
			p.memory, p.shmem = mem.pss, mem.shmem
		case gone(err):
			// It ended since, or is between two programs.
			var now stat
			if r.stat(p.pid, &now) != nil || now.start != p.start || now.rss == 0 && p.tid == 0 {
				p.memory = 0
			} else {
				s.Estimated++
				p.shmem = p.memory
			}
		case errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM):
			s.Estimated++
			p.shmem = p.memory // any of it may be
		default:
			return fmt.Errorf("read %d/smaps_rollup in proc: %w", p.pid, err)
		}
		s.PSS += p.memory
		s.PSSShmem += p.shmem
	}
	s.pssCost = max(linux.ThreadTime()-busy, 0)
	s.Bound = s.Memory()
	return nil
}

func (r *reader) rollup(p *process) (rollup, error) {
	text, err := r.file(p.thread(), "smaps_rollup")
	if err != nil {
		return rollup{}, err
	}
	mem, ok := parseRollup(text)
	if !ok && len(text) > 0 {
		return rollup{}, unix.EACCES // another layout: RSS stands in
	}
	return mem, nil
}
