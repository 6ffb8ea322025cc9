package changes

import (
	"context"
	"errors"
	"testing"
	"time"
)

// held is a scene with a kept run whose store somebody else has locked.
func held(t *testing.T) (s *scene, r *Run, unlock func()) {
	t.Helper()
	s = newScene(t, nil)
	build(t, s.upper, map[string]string{"a": "1"})
	r = s.keep(t)
	other, err := OpenStore(s.store.path)
	must(t, err)
	t.Cleanup(func() { _ = other.Close() })
	unlock, err = other.lock(t.Context())
	must(t, err)
	s.store.silence, s.store.patience = 0, time.Hour
	return s, r, unlock
}

func TestOneAtATime(t *testing.T) {
	s, r, unlock := held(t)
	s.store.patience = 0
	for name, do := range map[string]func() error{
		"apply":   func() error { _, err := s.store.Apply(r, nil, Options{}); return err },
		"discard": func() error { _, err := s.store.Discard(r.ID()); return err },
		"recover": func() error { _, err := s.store.Recover(); return err },
	} {
		if err := do(); !errors.Is(err, ErrBusy) {
			t.Errorf("%s: %v", name, err)
		}
		s.want(t, "a", "")
	}
	// Those that gave up don't hold it when their turn comes.
	unlock()
	s.apply(t, r)
	s.want(t, "a", "1")
}

// Who has to wait for the other says so once, and goes on when that has ended.
func TestAnApplyWaitsForAnother(t *testing.T) {
	s, r, unlock := held(t)
	told := 0
	s.store.Waiting = func() {
		told++
		s.want(t, "a", "")
		time.AfterFunc(50*time.Millisecond, unlock)
	}
	s.apply(t, r)
	if told != 1 {
		t.Errorf("told %d times", told)
	}
	s.want(t, "a", "1")
}

// What ends an apply before its commit ends its wait too.
func TestAWaitIsStopped(t *testing.T) {
	s, r, unlock := held(t)
	why := errors.New("SIGTERM")
	ctx, stop := context.WithCancelCause(t.Context())
	s.store.Waiting = func() { stop(why) }
	if _, err := s.store.Apply(r, nil, Options{Context: ctx}); err != why {
		t.Error(err)
	}
	unlock()
	s.want(t, "a", "")
	s.apply(t, r)
}
