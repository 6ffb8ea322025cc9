// Package places bounds how many sandboxes there are at one time: from before one is begun until nothing is left of it. Whoever finds no
// place waits for one. Those who wait take turns by who they are, and of one the first comes first, so that nobody waits for all that
// another one asks for.
package places

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// ErrFull: there is no place, and none became free in time.
var ErrFull = errors.New("there is no room for another sandbox at the moment")

// Places are so many, and no more. Their methods may be called from any goroutine.
type Places struct {
	most int

	mu      sync.Mutex
	taken   int
	spare   int                        // of those, by what nobody has asked for
	lines   map[string][]chan struct{} // of those who wait, by who they are
	turns   []string                   // whose turn is next: each who waits, once
	waiting int
}

// New makes so many places. 0: any number.
func New(most int) *Places { return &Places{most: most, lines: map[string][]chan struct{}{}} }

// Place is one that was taken.
type Place struct {
	of    *Places
	spare bool // guarded by of.mu, as free
	free  bool
}

// Take takes a place, and waits so long for one. It is ErrFull, or the error of ctx.
func (p *Places) Take(ctx context.Context, who string, patience time.Duration) (*Place, error) {
	p.mu.Lock()
	if p.waiting == 0 && p.room() > 0 {
		defer p.mu.Unlock()
		p.taken++
		return &Place{of: p}, nil
	}
	given := make(chan struct{})
	if len(p.lines[who]) == 0 {
		p.turns = append(p.turns, who)
	}
	p.lines[who] = append(p.lines[who], given)
	p.waiting++
	p.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	err := ErrFull
	select {
	case <-given:
		return &Place{of: p}, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
	}
	if !p.leave(who, given) { // it was given one in this moment
		got := &Place{of: p}
		if err == ErrFull {
			return got, nil
		}
		got.Free()
	}
	return nil, err
}

// leave takes one who waits out of the line. It is false when it has a place.
func (p *Places) leave(who string, given chan struct{}) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	line := p.lines[who]
	i := slices.Index(line, given)
	if i < 0 {
		return false
	}
	p.waiting--
	if p.lines[who] = slices.Delete(line, i, i+1); len(line) == 1 {
		delete(p.lines, who)
		p.turns = slices.DeleteFunc(p.turns, func(w string) bool { return w == who })
	}
	return true
}

// Try takes so many places, if they are there and nobody waits.
func (p *Places) Try(n int) []*Place {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting > 0 || p.room() < n {
		return nil
	}
	p.taken += n
	all := make([]*Place, n)
	for i := range all {
		all[i] = &Place{of: p}
	}
	return all
}

// Spare takes one for what nobody has asked for yet. Such take half of all at most.
func (p *Places) Spare() *Place {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting > 0 || p.room() < 1 || p.most > 0 && p.spare >= p.most/2 {
		return nil
	}
	p.taken++
	p.spare++
	return &Place{of: p, spare: true}
}

// room is how many are free. The caller holds mu.
func (p *Places) room() int {
	if p.most == 0 {
		return int(^uint(0) >> 1)
	}
	return p.most - p.taken
}

// Waiting is how many wait.
func (p *Places) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting
}

// Most is how many there are. 0: any number.
func (p *Places) Most() int { return p.most }

// Used says that somebody has asked for what has the place.
func (l *Place) Used() {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	l.use()
}

func (l *Place) use() {
	if l.spare {
		l.spare = false
		l.of.spare--
	}
}

// Free gives the place back, once: whoever is next has it then.
func (l *Place) Free() {
	p := l.of
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.free {
		return
	}
	l.free = true
	l.use()
	if len(p.turns) == 0 {
		p.taken--
		return
	}
	who := p.turns[0]
	p.turns = p.turns[1:]
	line := p.lines[who]
	close(line[0])
	p.waiting--
	if p.lines[who] = line[1:]; len(line) == 1 {
		delete(p.lines, who)
	} else {
		p.turns = append(p.turns, who)
	}
}
