package changes

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/confine-run/confine/internal/overlaytest"
)

// What the run saw is what apply makes of a copy.
func TestApplyGivesWhatTheOverlayShowed(t *testing.T) {
	rounds := 30
	if testing.Short() {
		rounds = 5
	}
	for seed := range rounds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := newScene(t, overlaytest.Tree())
			must(t, os.Link(s.lower+"/a", s.lower+"/hard"))
			o := newOverlay(t, s.lower, seed%4)
			var script []string
			acts := overlaytest.RandomActs(rand.New(rand.NewPCG(uint64(seed), 7)), 60, "append", "truncate", "exchange", "unxattr")
			for i, said := range o.do(t, acts...) {
				script = append(script, fmt.Sprintf("%s %q %q %o: %s", acts[i].Op, acts[i].A, acts[i].B, acts[i].N, said))
			}
			r := keep(t, s.store, o.tree(t))
			shown := snapshot(t, o.Merged(t))
			before := snapshotPath(t, s.lower)
			if maps.Equal(shown, before) {
				t.Fatal("nothing happened")
			}
			t.Cleanup(func() { _ = exec.Command("chmod", "-R", "u+rwx", s.lower).Run() })
			_, err := s.store.Apply(r, nil, Options{})
			if err != nil {
				t.Fatalf("%v\n%v", err, script)
			}
			if d := difference(shown, snapshotPath(t, s.lower)); d != "" {
				t.Errorf("shown | applied\n%s\n%v", d, script)
			}
			if left, err := s.store.List(); err != nil || len(left) != 0 {
				t.Errorf("the run is still there: %v %v", left, err)
			}
		})
	}
}

func TestReadOfARealOverlay(t *testing.T) {
	s := newScene(t, map[string]string{"keep": "k", "touched": "t", "edit": "1234", "gone": "g", "dir/a": "a", "dir/b": "b", "swap/x": "x", "file": "f",
		"link@": "keep", "wipe/one": "1", "wipe/two/three": "3"})
	o := newOverlay(t, s.lower, 0)
	for i, said := range o.do(t,
		act{Op: "touch", A: []byte("touched"), N: 5},
		act{Op: "write", A: []byte("edit"), B: []byte("4321")},
		act{Op: "remove", A: []byte("gone")},
		act{Op: "remove", A: []byte("dir")},
		act{Op: "mkdir", A: []byte("dir")},
		act{Op: "write", A: []byte("dir/a"), B: []byte("a")},
		act{Op: "write", A: []byte("dir/c"), B: []byte("c")},
		act{Op: "remove", A: []byte("swap")},
		act{Op: "write", A: []byte("swap"), B: []byte("now a file")},
		act{Op: "remove", A: []byte("file")},
		act{Op: "mkdir", A: []byte("file")},
		act{Op: "write", A: []byte("file/in"), B: []byte("in")},
		act{Op: "link", A: []byte("file/in"), B: []byte("again")},
		act{Op: "remove", A: []byte("link")},
		act{Op: "symlink", A: []byte("link"), B: []byte("edit")},
		act{Op: "remove", A: []byte("wipe")},
		act{Op: "chmod", A: []byte("keep"), N: 0o600},
	) {
		if said != "" {
			t.Fatal(i, said)
		}
	}
	s.tree = o.tree(t)
	equal(t, s.lines(t), []string{
		"A again", "D dir/b", "A dir/c", "M edit", "M file/ (file → dir)", "A file/in (hard link of again)", "D gone", "m keep 0644 → 0600",
		"L link → edit", "M swap (dir → file)", "D swap/x", "D wipe/", "D wipe/one", "D wipe/two/", "D wipe/two/three"})
	sum := s.read(t).Summary
	if sum != (Summary{Added: 3, Modified: 3, Deleted: 7, Mode: 1, Link: 1, Bytes: 2 + 2 + 1 + 4 + 10}) {
		t.Errorf("%+v", sum)
	}
	s.keepAndApply(t, o)
}

func (s *scene) keepAndApply(t *testing.T, o *overlay) {
	t.Helper()
	r := keep(t, s.store, o.tree(t))
	shown := snapshot(t, o.Merged(t))
	s.apply(t, r)
	if d := difference(shown, snapshotPath(t, s.lower)); d != "" {
		t.Error(d)
	}
	one, err := os.Stat(s.lower + "/again")
	must(t, err)
	other, err := os.Stat(s.lower + "/file/in")
	must(t, err)
	if !os.SameFile(one, other) {
		t.Error("hard links were made two files")
	}
}

// What the target made unreadable is read, and recorded as it was.
func TestUnreadableThings(t *testing.T) {
	s := newScene(t, map[string]string{"dir/old": "old"})
	o := newOverlay(t, s.lower, 0)
	for i, said := range o.do(t,
		act{Op: "mkdir", A: []byte("secret")}, act{Op: "mkdir", A: []byte("secret/deep")},
		act{Op: "write", A: []byte("secret/deep/f"), B: []byte("hidden")},
		act{Op: "chmod", A: []byte("secret/deep/f"), N: 0},
		act{Op: "chmod", A: []byte("secret/deep"), N: 0o200},
		act{Op: "chmod", A: []byte("secret"), N: 0},
		act{Op: "write", A: []byte("dir/new"), B: []byte("n")},
		act{Op: "chmod", A: []byte("dir"), N: 0o100},
	) {
		if said != "" {
			t.Fatal(i, said)
		}
	}
	s.tree = o.tree(t)
	want := []string{"m dir/ 0755 → 0100", "A dir/new", "A secret/ 0000", "A secret/deep/ 0200", "A secret/deep/f 0000"}
	equal(t, s.lines(t), want)
	equal(t, s.lines(t), want) // the first reading left nothing changed
	r := keep(t, s.store, o.tree(t))
	shown := snapshot(t, o.Merged(t))
	t.Cleanup(func() { _ = exec.Command("chmod", "-R", "u+rwx", s.lower).Run() })
	s.apply(t, r)
	now := snapshotPath(t, s.lower)
	if d := difference(shown, now); d != "" {
		t.Error(d)
	}
	if !slices.Contains(slices.Collect(maps.Values(now)), "dir 0000 map[]") {
		t.Errorf("the mode wasn't recorded: %v", now)
	}
}
