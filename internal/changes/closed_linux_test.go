package changes

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A run can close a directory that it made to everybody, and link what is in it elsewhere.
func TestNewDirectoriesThatAreClosedAreApplied(t *testing.T) {
	for _, mode := range []uint32{0, 0o100, 0o200, 0o400, 0o600, 0o555} {
		t.Run(fmt.Sprintf("%04o", mode), func(t *testing.T) {
			s := newScene(t, map[string]string{"sub/x": "1"}, map[string]string{"d/f": "1", "d/e/h": "2", "sub/c/f": "3"})
			must(t, os.Link(s.upper+"/d/f", s.upper+"/g"))
			must(t, os.Link(s.upper+"/d/e/h", s.upper+"/sub/h"))
			open := func(top string) {
				for _, dir := range []string{"/d", "/d/e", "/sub/c"} {
					_ = os.Chmod(top+dir, 0o700)
				}
			}
			t.Cleanup(func() { open(s.upper); open(s.lower) })
			for _, dir := range []string{"/d/e", "/d", "/sub/c"} {
				must(t, unix.Chmod(s.upper+dir, mode))
			}
			r := s.keep(t)
			// An error at any of the moments in which it makes something leaves nothing.
			failed := errors.New("at that moment")
			for n, reached := 1, true; reached; n++ {
				at := 0
				s.store.hook = func(point string) error {
					if point == "stage" || point == "sync" || point == "put" {
						at++
					}
					if reached = at >= n; at == n {
						at++
						return failed
					}
					return nil
				}
				_, err := s.store.Apply(r, nil, Options{})
				if reached && (!errors.Is(err, failed) || errors.Is(err, unix.EACCES)) || !reached && err != nil {
					t.Fatalf("at %d: %v", n, err)
				}
				if _, err := os.Lstat(s.lower + "/g"); reached && err == nil {
					t.Fatalf("at %d: something is applied", n)
				}
				litter(t, s.lower)
			}
			for _, dir := range []string{"d", "sub/c"} {
				n, err := os.Lstat(s.lower + "/" + dir)
				must(t, err)
				if got := uint32(n.Mode().Perm()); got != mode {
					t.Errorf("%s has %04o", dir, got)
				}
			}
			open(s.lower)
			s.want(t, "g", "1")
			s.want(t, "d/f", "1")
			s.want(t, "sub/c/f", "3")
			a, _ := inodeOf(t, s.lower+"/d/e/h")
			if b, _ := inodeOf(t, s.lower+"/sub/h"); a != b {
				t.Errorf("d/e/h is %d, sub/h %d", a, b)
			}
			litter(t, s.lower)
		})
	}
}

// What can't be finished or undone in one tree is told, and keeps nobody from another tree.
func TestAnApplyThatIsStuckMattersToItsOwnTrees(t *testing.T) {
	one := newScene(t, map[string]string{"a": "1", "sub/b": "1"})
	two := newScene(t, map[string]string{"a": "1"})
	build(t, one.upper, map[string]string{"a": "2"})
	build(t, two.upper, map[string]string{"a": "2"})
	store, broken := one.store, errors.New("broken")
	stuck, other := one.keep(t), keep(t, store, two.tree)
	below := keep(t, store, Tree{Path: one.lower + "/sub", Upper: openDir(t, one.upper), Lower: openDir(t, one.lower+"/sub")})
	blocked := true
	store.hook = func(point string) error {
		if point == "sync" || point == "clean" && blocked {
			return broken
		}
		return nil
	}
	if _, err := store.Apply(stuck, nil, Options{}); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	var told []string
	store.OnRecovered = func(d Recovered) { told = append(told, d.Notice().String()) }
	store.hook = func(point string) error {
		if point == "clean" && blocked {
			return broken
		}
		return nil
	}
	for _, r := range []*Run{stuck, below} {
		if _, err := store.Apply(r, nil, Options{}); !errors.Is(err, broken) {
			t.Errorf("%v: %v", r.Info().Trees, err)
		}
	}
	if len(told) > 0 {
		t.Errorf("%q", told)
	}
	all, err := store.Recover()
	must(t, err)
	if len(all) != 1 || all[0].Run != stuck.ID() || !errors.Is(store.InTheWay(stuck, all), broken) {
		t.Errorf("%+v", all)
	}
	// In the same store the tree that isn't concerned is whole at once.
	store.hook = func(point string) error {
		if point == "clean" && blocked {
			blocked = false // once: the stuck one's
			return broken
		}
		return nil
	}
	_, err = store.Apply(other, nil, Options{})
	must(t, err)
	two.want(t, "a", "2")
	if len(told) != 1 || !strings.Contains(told[0], "interrupted apply of run "+stuck.ID()+" can be neither finished nor undone now") {
		t.Errorf("%q", told)
	}
	recovered(t, store)
	one.want(t, "a", "1")
	litter(t, one.lower)
}
