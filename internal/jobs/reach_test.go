package jobs_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/confine-run/confine/internal/jobs"
	"github.com/confine-run/confine/internal/jobs/jobstest"
	"github.com/confine-run/confine/internal/must"
)

// TestAnImpostorIsNotReached: somebody who answers on a worker's subject, and has a key of his own, is not taken for it, nor is one whose name leads elsewhere.
func TestAnImpostorIsNotReached(t *testing.T) {
	q, err := jobs.Open(t.Context(), jobs.Options{URL: jobstest.Inside(t)})
	must.Do(t, err)
	defer q.Close()
	mine, theirs := identity(t), identity(t)
	lease, err := q.Enlist(t.Context(), jobs.WorkerInfo{Lease: 10, Identity: mine.Digest})
	must.Do(t, err)
	open := func(id *jobs.Identity) {
		door, err := lease.Open(id)
		must.Do(t, err)
		t.Cleanup(func() { _ = door.Close() })
		go func() {
			for {
				v, err := door.Accept()
				if err != nil {
					return
				}
				go func() { _ = v.Handshake() }()
			}
		}()
	}
	all := jobs.SessionsOf(q)
	if c, err := all.Reach(t.Context(), "a", lease.Name); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("nobody is there: %v, %v", c, err)
	}
	open(theirs)
	if c, err := all.Reach(t.Context(), "a", lease.Name); err == nil || !strings.Contains(err.Error(), "somebody else answers") {
		t.Errorf("an impostor: %v, %v", c, err)
	}
	for _, name := range []string{"", "*", ">", "a.b", "x y", lease.Name + ".>"} {
		if c, err := all.Reach(t.Context(), "a", name); err == nil {
			t.Errorf("the worker %q: %v", name, c)
		}
		if c, err := all.Reach(t.Context(), name, lease.Name); err == nil {
			t.Errorf("the account %q: %v", name, c)
		}
		if k, err := all.Find(t.Context(), "a", name); !errors.Is(err, jobs.ErrNoSession) {
			t.Errorf("the session %q: %+v, %v", name, k, err)
		}
	}
}

func identity(t *testing.T) *jobs.Identity {
	t.Helper()
	id, err := jobs.NewIdentity()
	must.Do(t, err)
	return id
}

// TestOfTwoWhoWriteTheRecordOfASessionOneIsRefused: that is what all of a move rests on.
func TestOfTwoWhoWriteTheRecordOfASessionOneIsRefused(t *testing.T) {
	q, err := jobs.Open(t.Context(), jobs.Options{URL: jobstest.Inside(t)})
	must.Do(t, err)
	defer q.Close()
	all := jobs.SessionsOf(q)
	k := jobs.KeptSession{Key: jobs.SessionKey{Account: "a", Name: "n"}}
	won := make(chan error, 16)
	for i := range cap(won) {
		go func() {
			_, err := all.Put(t.Context(), k, &jobs.Session{Worker: string(rune('a' + i))})
			won <- err
		}()
	}
	winners := 0
	for range cap(won) {
		switch err := <-won; {
		case err == nil:
			winners++
		case !errors.Is(err, jobs.ErrChanged):
			t.Error(err)
		}
	}
	if winners != 1 {
		t.Errorf("%d have written it", winners)
	}
}
