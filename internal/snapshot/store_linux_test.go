package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

func newStore(t testing.TB) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "snapshots"))
	must(t, err)
	t.Cleanup(func() {
		_ = s.Close()
		wipe(t, s.path)
	})
	return s
}

// wipe removes a directory, with what is closed to its owner.
func wipe(t testing.TB, dir string) {
	t.Helper()
	up, err := unix.Open(filepath.Dir(dir), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(up)
	must(t, linux.RemoveAll(up, filepath.Base(dir), 0))
}

// upper makes a place.
func upper(t testing.TB, path string, files map[string]string) Place {
	t.Helper()
	dir := t.TempDir()
	build(t, dir, files)
	return Place{path, openedDir(t, dir)}
}

var someTime = time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)

func add(t testing.TB, s *Store, parent string, places ...Place) string {
	t.Helper()
	m := Meta{Parent: parent, Created: someTime, PolicyDigest: "sha256:1234"}
	for _, p := range places {
		m.Places = append(m.Places, PlaceInfo{p.Path, Overlay})
	}
	id, err := s.Add(t.Context(), m, places)
	must(t, err)
	return id
}

func trees(t testing.TB, s *Store, id string) []Tree {
	t.Helper()
	all, err := s.Trees(t.Context(), id)
	must(t, err)
	t.Cleanup(func() { CloseTrees(all) })
	return all
}

func TestWhatIsAdded(t *testing.T) {
	s := newStore(t)
	if all, err := s.List(); err != nil || len(all) != 0 {
		t.Error(all, err)
	}
	first := add(t, s, "", upper(t, "/work", map[string]string{"f": "1"}))
	second := add(t, s, first, upper(t, "/work", map[string]string{"f": "2"}), upper(t, "/tmp", nil))
	if !ValidID(first) || !ValidID(second) || first == second {
		t.Error(first, second)
	}
	in, err := s.Get(second)
	must(t, err)
	if in.Parent != first || len(in.Layers) != 2 || in.Size == 0 || len(in.Places) != 2 || in.Places[0].Path != "/tmp" {
		t.Errorf("%+v", in)
	}
	all := trees(t, s, second)
	below := trees(t, s, first)
	if len(all) != 2 || len(below) != 1 || all[0].Ino != below[0].Ino || all[0].Path != below[0].Path {
		t.Error("the layer of both is unpacked twice")
	}
	for i, want := range []string{"1", "2"} {
		if text, err := os.ReadFile(all[i].Path + "/work/f"); string(text) != want {
			t.Errorf("layer %d: %q %v", i, text, err)
		}
		var st unix.Stat_t
		must(t, unix.Fstat(int(all[i].Dir.Fd()), &st))
		if st.Dev != all[i].Dev || st.Ino != all[i].Ino {
			t.Error("another directory")
		}
	}
	if _, err := os.Lstat(all[0].Path + "/tmp"); err == nil {
		t.Error("a place that the layer doesn't have")
	}
	for _, id := range []string{"", "..", "x", strings.Repeat("a", 64), strings.ToUpper(first), "../" + first[:61]} {
		_, err := s.Get(id)
		_, err2 := s.Trees(t.Context(), id)
		_, err3 := s.Add(t.Context(), Meta{Parent: id}, nil)
		for _, err := range []error{err, err2, s.Remove(id), s.Export(t.Context(), id, io.Discard), s.Name("x", id)} {
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%q: %v", id, err)
			}
		}
		if err3 == nil && id != "" {
			t.Errorf("%q is a parent", id)
		}
	}
}

func TestNames(t *testing.T) {
	s := newStore(t)
	one := add(t, s, "", upper(t, "/work", map[string]string{"f": "1"}))
	two := add(t, s, "", upper(t, "/work", map[string]string{"f": "2"}))
	must(t, s.Name("b", one))
	must(t, s.Name("a", one))
	must(t, s.Name("a", one))
	if err := s.Name("a", two); !errors.Is(err, ErrTaken) {
		t.Error(err)
	}
	for _, name := range []string{"", ".", "..", "a/b", "-x", "a b", "a\x00", "\x1b", "é", one, strings.Repeat("a", 65)} {
		if err := s.Name(name, two); !errors.Is(err, errBadName) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"a", "b", one} {
		in, err := s.Find(name)
		if err != nil || in.ID != one || !slices.Equal(in.Names, []string{"a", "b"}) {
			t.Errorf("%s: %+v %v", name, in, err)
		}
	}
	for _, name := range []string{"", "c"} {
		if _, err := s.Find(name); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	}
	if all, err := s.List(); err != nil || len(all) != 2 {
		t.Error(all, err)
	}
	must(t, s.Remove(one))
	if _, err := s.Find("a"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	must(t, s.Name("a", two))
}

// What others need stays; what a sandbox has mounted stays until it lets go.
func TestRemove(t *testing.T) {
	s := newStore(t)
	first := add(t, s, "", upper(t, "/work", map[string]string{"f": "1"}))
	second := add(t, s, first, upper(t, "/work", map[string]string{"f": "2"}))
	held, err := s.Trees(t.Context(), second)
	must(t, err)
	must(t, s.Remove(first))
	nothingLeft(t, s)
	CloseTrees(trees(t, s, second))
	must(t, s.Remove(second))
	for _, tree := range held {
		if _, err := os.Stat(tree.Path + "/work/f"); err != nil {
			t.Error("removed, though it is held: ", err)
		}
	}
	blobs, err := os.ReadDir(filepath.Join(s.path, blobsDir))
	if err != nil || len(blobs) != 0 {
		t.Errorf("%v %v", blobs, err)
	}
	CloseTrees(held)
	nothingLeft(t, s)
}

func TestAStoreThatOthersMayWriteIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "snapshots")
	s, err := Open(dir)
	must(t, err)
	must(t, s.Close())
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("%v", st.Mode())
	}
	for _, mode := range []os.FileMode{0o770, 0o702, 0o777} {
		must(t, os.Chmod(dir, mode))
		if _, err := Open(dir); !errors.Is(err, errForeign) {
			t.Errorf("%o: %v", mode, err)
		}
	}
	must(t, os.Chmod(dir, 0o700))
	must(t, os.Rename(dir, dir+"2"))
	must(t, os.Symlink(dir+"2", dir))
	if _, err := Open(dir); err == nil {
		t.Error("opened through a link")
	}
	if os.Geteuid() == 0 {
		must(t, os.Remove(dir))
		must(t, os.Rename(dir+"2", dir))
		must(t, os.Chown(dir, 1, 1))
		if _, err := Open(dir); !errors.Is(err, errForeign) {
			t.Error(err)
		}
	}
}

// Many at once, of several stores on one directory, as processes are: everything that is found is whole.
func TestManyAtOnce(t *testing.T) {
	s := newStore(t)
	base := add(t, s, "", upper(t, "/work", map[string]string{"base": "1", "d/x": "x"}))
	var bundle bytes.Buffer
	must(t, s.Export(t.Context(), base, &bundle))
	places := make([]Place, 8)
	for i := range places {
		places[i] = upper(t, "/work", map[string]string{"f": fmt.Sprint(i)})
	}
	var all sync.WaitGroup
	for i, p := range places {
		all.Go(func() {
			mine, err := Open(s.path)
			if err != nil {
				t.Error(err)
				return
			}
			defer mine.Close()
			for round := range 5 {
				id, err := mine.Add(t.Context(), Meta{Parent: base, Created: someTime.Add(time.Duration(round))}, []Place{p})
				if err != nil {
					t.Error(err)
					return
				}
				got, err := mine.Trees(t.Context(), id)
				if err != nil {
					t.Error(err)
					return
				}
				if text, err := os.ReadFile(got[1].Path + "/work/f"); string(text) != fmt.Sprint(i) {
					t.Errorf("%q %v", text, err)
				}
				if _, err := os.Stat(got[0].Path + "/work/d/x"); err != nil {
					t.Error(err)
				}
				CloseTrees(got)
				if _, err := mine.Import(t.Context(), bytes.NewReader(bundle.Bytes()), Limits{}); err != nil {
					t.Error(err)
				}
				if _, err := mine.List(); err != nil {
					t.Error(err)
				}
				if err := mine.Remove(id); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if left := ids(t, s); !slices.Equal(left, []string{base}) {
		t.Error(left)
	}
	nothingLeft(t, s)
}

// Whoever waits for the lock hears of the end of its context, and doesn't wait for ever.
func TestALockThatSomebodyHas(t *testing.T) {
	s := newStore(t)
	other, err := Open(s.path)
	must(t, err)
	defer other.Close()
	unlock, err := s.lock(t.Context())
	must(t, err)
	defer unlock()
	other.patience = 30 * time.Millisecond
	if err := other.Remove("x"); !errors.Is(err, ErrBusy) {
		t.Error(err)
	}
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stopped)
	if _, err := other.Add(ctx, Meta{}, nil); !errors.Is(err, stopped) {
		t.Error(err)
	}
}

func TestKernelsWithWhiteoutsByAttribute(t *testing.T) {
	for release, want := range map[string]bool{"6.7.0": true, "6.6.99": false, "6.18.44-fc": true, "7.0-rc1": true, "5.10": false, "": false, "6": false, "x.y": false} {
		if got := atLeast(release, 6, 7); got != want {
			t.Errorf("%q: %v", release, got)
		}
	}
}
