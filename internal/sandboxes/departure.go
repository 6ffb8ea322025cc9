package sandboxes

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
)

// CauseDeparted is the end of a sandbox that goes on elsewhere.
const CauseDeparted = "departed"

// Departure is a sandbox that is about to go on elsewhere: it is written down, and does nothing until it is known whether it has arrived.
type Departure struct {
	Token    string // of this departure; whoever takes the sandbox in does so once for it
	Snapshot string // ID of what it is written down in
	Memory   bool   // its processes are in it, and go on; else it is files
	Origin   []byte // what asked for it, as Request.Origin had it
}

// ErrDeparting is the answer of a sandbox that is about to go on elsewhere.
var ErrDeparting = errors.New("the sandbox is being moved elsewhere, and stands still until that has come to an end")

// ElsewhereError says where a sandbox has arrived, to somebody who has it at another place.
type ElsewhereError struct{ At string }

func (e *ElsewhereError) Error() string {
	return "the sandbox goes on at " + e.At + ": what is elsewhere is a second one"
}

// departing is what of a sandbox is about its departure.
type departing struct {
	one  sync.Mutex // at a time
	mu   sync.Mutex
	now  *Departure
	back func() error // it goes on here
	used func()
	at   *string // where it has arrived; guarded by one
}

// Leaving is what is done with a sandbox that is to go on elsewhere.
type Leaving struct{ s *Sandbox }

// LeavingOf is that.
func LeavingOf(s *Sandbox) Leaving { return Leaving{s} }

// Now is how it departs; nil: it doesn't.
func (l Leaving) Now() *Departure {
	d := &l.s.departing
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

// Depart writes it down, and has it stand still. One that departs already gives the same once more. Where the backend has no memory of
// processes, none may run: they would be lost.
func (l Leaving) Depart(ctx context.Context) (*Departure, error) {
	s, d := l.s, &l.s.departing
	d.one.Lock()
	defer d.one.Unlock()
	if now := l.Now(); now != nil {
		return now, nil
	}
	if s.Ended() != nil {
		return nil, backend.ErrClosed
	}
	_, origin, _ := askedOf(s)
	if origin == nil {
		return nil, &config.UsageError{Msg: "it isn't known how to ask for this sandbox elsewhere", Err: errors.ErrUnsupported}
	}
	used := s.Use()
	back := func() error { return nil }
	mover, memory := backend.As[backend.Mover](boxOf(s))
	take := boxOf(s).Snapshot
	if memory {
		take = func(ctx context.Context) (made backend.Snapshot, err error) {
			made, back, err = mover.Depart(ctx)
			return made, err
		}
	} else if err := l.quiet(); err != nil {
		used()
		return nil, err
	}
	in, err := s.manager.Snapshots(s.Owner).write(ctx, s, "", take)
	if err == nil && !memory {
		err = l.quiet()
	}
	if err != nil {
		if back != nil {
			err = errors.Join(err, back())
		}
		used()
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now, d.back, d.used = &Departure{Token: newID() + newID(), Snapshot: in.ID, Memory: memory, Origin: origin}, back, used
	return d.now, nil
}

// quiet says that processes run, if some do.
func (l Leaving) quiet() error {
	for _, p := range l.s.Processes() {
		if p.Report() == nil {
			return &config.UsageError{Msg: fmt.Sprintf("process %d runs: of a sandbox of this isolation files are moved, and no processes", p.Number),
				Hint: "wait for it or end it, or take --isolation vm, which moves processes too"}
		}
	}
	return nil
}

// departs is how it departs by that token, which nobody else settles from now on.
func (l Leaving) departs(token string) (*Departure, func(), error) {
	one := &l.s.departing.one
	one.Lock()
	if now := l.Now(); now != nil && now.Token == token {
		return now, one.Unlock, nil
	}
	one.Unlock()
	return nil, nil, fmt.Errorf("a departure with that token: %w", ErrNotFound)
}

// Return has it go on here: nobody took it in. One that has ended meanwhile, as one that has arrived, doesn't.
func (l Leaving) Return(token string) error {
	now, done, err := l.departs(token)
	if err != nil {
		return err
	}
	defer done()
	if l.s.Ended() != nil {
		return backend.ErrClosed
	}
	d := &l.s.departing
	err = d.back()
	d.mu.Lock()
	d.now = nil
	d.mu.Unlock()
	d.used()
	return errors.Join(err, l.forget(now))
}

// Arrived ends it: it goes on elsewhere. Who moved it to two places at once is told so by the second.
func (l Leaving) Arrived(token, where string) error {
	now, done, err := l.departs(token)
	if err != nil {
		return err
	}
	defer done()
	d := &l.s.departing
	if d.at == nil {
		d.at = &where
	}
	if *d.at != where {
		return &ElsewhereError{*d.at}
	}
	l.s.Close(CauseDeparted, "it goes on at "+where)
	return l.forget(now)
}

// forget throws away what it was written down in, unless somebody gave that a name.
func (l Leaving) forget(d *Departure) error {
	of := l.s.manager.Snapshots(l.s.Owner)
	in, err := of.Find(d.Snapshot)
	if err == nil && len(in.Names) == 0 {
		err = of.Remove(d.Snapshot)
	}
	if errors.Is(err, ErrNoSnapshot) {
		return nil
	}
	return err
}
