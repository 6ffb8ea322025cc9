package changes

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// stopAt is an apply that is left as a kill at that point leaves it.
func stopAt(t *testing.T, s *scene, paths []string, point string) *Run {
	t.Helper()
	r := s.keep(t)
	died := errors.New("died")
	s.store.hook = func(at string) error {
		if at == point {
			panic(died)
		}
		return nil
	}
	func() {
		defer func() {
			if recover() != died {
				t.Fatal("it never came to " + point)
			}
		}()
		_, _ = s.store.Apply(r, paths, Options{})
	}()
	s.store.hook = nil
	return r
}

func TestWhoFinishesAnInterruptedApplySaysSo(t *testing.T) {
	for _, c := range []struct {
		point, did string
		finished   bool
	}{
		{"stage", "undid the interrupted apply of run ID: none of its 2 changes is in the tree", false},
		{"swap", "undid the interrupted apply of run ID: none of its 2 changes is in the tree", false},
		{"clean", "finished the interrupted apply of run ID: 2 changes", true},
		{"forget", "finished the interrupted apply of run ID: 2 changes", true},
	} {
		for _, who := range []string{"apply", "discard", "diff"} {
			t.Run(c.point+" "+who, func(t *testing.T) {
				s := newScene(t, map[string]string{"a": "1"}, map[string]string{"a": "2", "b": "2"})
				r := stopAt(t, s, nil, c.point)
				var told []string
				s.store.OnRecovered = func(did Recovered) { told = append(told, strings.ReplaceAll(did.Notice().String(), r.ID(), "ID")) }
				var err error
				switch who {
				case "apply":
					_, err = s.store.Apply(r, nil, Options{})
				case "discard":
					_, err = s.store.Discard(r.ID())
				case "diff":
					recovered(t, s.store)
					var again *Run
					if again, err = s.store.Open(r.ID()); err == nil {
						must(t, again.Close())
					}
				}
				if !slices.Equal(told, []string{c.did}) {
					t.Errorf("told %q", told)
				}
				if errors.Is(err, errApplied) != c.finished || !c.finished && err != nil {
					t.Errorf("%v", err)
				}
				if c.finished {
					s.want(t, "a", "2")
					s.want(t, "b", "2")
				} else if who == "discard" {
					s.want(t, "a", "1")
				}
				litter(t, s.lower)
			})
		}
	}
}

// What wasn't part of the interrupted apply is still there to be discarded.
func TestTheRestOfAnInterruptedApply(t *testing.T) {
	s := newScene(t, map[string]string{"a": "1"}, map[string]string{"a": "2", "b": "2"})
	r := stopAt(t, s, []string{"a"}, "clean")
	n, err := s.store.Discard(r.ID())
	if err != nil || n != 1 {
		t.Error(n, err)
	}
	s.want(t, "a", "2")
	s.want(t, "b", "")
}

// endsWhen is a context that has ended when ask says so.
type endsWhen struct {
	context.Context
	ask func() error
}

func (a endsWhen) Value(any) any { return nil }
func (a endsWhen) Err() error    { return a.ask() }

func TestAnApplyIsStoppedBeforeItsCommit(t *testing.T) {
	stop := errors.New("stopped")
	// Asked at a time each: the first path's check … the last before the commit.
	for n := 1; ; n++ {
		s := newScene(t, map[string]string{"a": "1", "d/x": "x"}, map[string]string{"a": "2", "n/m": "m"})
		whiteout(t, s.upper+"/d")
		before := snapshotPath(t, s.lower)
		asked, committed, built, last := 0, false, false, false
		s.store.hook = func(point string) error { built = built || point == "sync"; return nil }
		_, err := s.store.Apply(s.keep(t), nil, Options{Committed: func() { committed = true }, Context: endsWhen{t.Context(), func() error {
			if committed {
				t.Error("asked after the commit")
			}
			last = last || built
			if asked++; asked == n {
				return stop
			}
			return nil
		}}})
		if err == nil {
			if n < 8 || !committed || !last {
				t.Errorf("asked %d times, when all was built: %v, committed: %v", n-1, last, committed)
			}
			break
		}
		if err != stop || committed {
			t.Errorf("%d: %v", n, err)
		}
		if d := difference(before, snapshotPath(t, s.lower)); d != "" {
			t.Errorf("%d: touched:\n%s", n, d)
		}
		if runs, err := s.store.List(); err != nil || len(runs) != 1 {
			t.Errorf("%d: %v, %v", n, runs, err)
		}
	}
}

// A record that can't be read can be dropped, and doesn't keep an apply from its end.
func TestACutRecord(t *testing.T) {
	for _, interrupted := range []bool{false, true} {
		s := newScene(t, map[string]string{"a": "1"}, map[string]string{"a": "2", "b": "2"})
		var r *Run
		if interrupted {
			r = stopAt(t, s, nil, "clean")
		} else {
			r = s.keep(t)
		}
		must(t, os.Truncate(r.path+"/"+manifestName, 100))
		_, err := s.store.Open(r.ID())
		if err == nil || !strings.Contains(err.Error(), "hint: confine discard --run "+r.ID()) {
			t.Errorf("%v", err)
		}
		if _, err := s.store.Discard(r.ID(), "a"); err == nil {
			t.Error("a path of it was found")
		}
		_, err = s.store.Discard(r.ID())
		must(t, err)
		if _, err := s.store.Open(r.ID()); !errors.Is(err, ErrNoRun) && !interrupted {
			t.Errorf("still there: %v", err)
		}
		if runs, err := s.store.List(); err != nil || len(runs) != 0 {
			t.Errorf("%v, %v", runs, err)
		}
		if interrupted {
			s.want(t, "b", "2")
		}
		litter(t, s.lower)
	}
}

func TestATreeThatIsGoneHasAHint(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(t *testing.T, path string)
		want string
		is   error
	}{
		"gone":   {func(*testing.T, string) {}, "is gone: put it back", unix.ENOENT},
		"a link": {func(t *testing.T, path string) { must(t, os.Symlink("/", path)) }, "is now a symbolic link", unix.ELOOP},
		"a file": {func(t *testing.T, path string) { must(t, os.WriteFile(path, nil, 0o600)) }, "is no directory", unix.ENOTDIR},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, map[string]string{"a": "1"}, map[string]string{"a": "2"})
			r := s.keep(t)
			must(t, os.Rename(s.lower, s.lower+".old"))
			c.do(t, s.lower)
			for _, err := range []error{
				func() error { _, err := s.store.Apply(r, nil, Options{}); return err }(),
				Diff(&strings.Builder{}, r, nil, DiffOptions{Patch: true}),
			} {
				if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "hint: ") || !strings.Contains(err.Error(), "--run "+r.ID()) {
					t.Errorf("%v", err)
				}
			}
		})
	}
}

// Somebody puts a file where a step is being undone: theirs stays, and what was there
// before isn't lost.
func TestSomebodyInTheWayOfUndoing(t *testing.T) {
	s := newScene(t, map[string]string{"edit": "old", "mode": "m", "gone": "g"}, map[string]string{"edit": "new", "mode": "m"})
	must(t, os.Chmod(s.upper+"/mode", 0o600))
	whiteout(t, s.upper+"/gone")
	r := s.keep(t)
	s.store.hook = func(at string) error {
		switch at {
		case "mode":
			return unix.EIO
		case "undo swap":
			// Most likely with the same inode number, but born in another tick.
			at := openDir(t, s.lower)
			born := func() int64 { n, _ := statAt(at, "edit"); return n.born }
			was := born()
			if was == 0 {
				t.Skip("a file system that doesn't know when a file was made")
			}
			for born() == was || born() == 0 {
				_ = os.Remove(s.lower + "/edit")
				must(t, os.WriteFile(s.lower+"/edit", []byte("theirs"), 0o644))
			}
		}
		return nil
	}
	_, err := s.store.Apply(r, nil, Options{})
	s.store.hook = nil
	var left *LeftError
	if !errors.Is(err, unix.EIO) || !errors.As(err, &left) || left.Name != s.lower+"/edit" {
		t.Fatalf("%v", err)
	}
	s.want(t, "edit", "theirs")
	s.want(t, "gone", "g")
	if old, err := os.ReadFile(left.Path); err != nil || string(old) != "old" {
		t.Errorf("%s: %q %v", left.Path, old, err)
	}
	recovered(t, s.store) // it doesn't come back to that
	s.want(t, "edit", "theirs")
}
