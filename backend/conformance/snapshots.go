package conformance

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

// layered is what backends do that write sandboxes down.
type layered struct{ suite }

// holds is what the file of a sandbox holds; "-" if there is none.
func (s layered) holds(t *testing.T, box backend.Sandbox, name string) string {
	t.Helper()
	r, err := box.Files().Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "-"
	}
	must.Do(t, err)
	defer r.Close()
	text, err := io.ReadAll(r)
	must.Do(t, err)
	return string(text)
}

// want says which files of a sandbox hold what, in pairs.
func (s layered) want(t *testing.T, box backend.Sandbox, pairs ...string) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if got := s.holds(t, box, pairs[i]); got != pairs[i+1] {
			t.Errorf("%s: %q, want %q", pairs[i], got, pairs[i+1])
		}
	}
}

func (s layered) writes(t *testing.T, box backend.Sandbox, pairs ...string) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		s.says(t, box, nil, "write", pairs[i], pairs[i+1])
	}
}

// supported says whether there are snapshots, and holds a backend without to what it says then.
func (s layered) supported(t *testing.T, box backend.Sandbox) bool {
	t.Helper()
	if s.Snapshots {
		return true
	}
	_, err := box.Snapshot(t.Context())
	_, forked := box.Fork(t.Context())
	for _, err := range []error{err, forked} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%v", err)
		}
	}
	return false
}

func (s layered) snapshot(t *testing.T, box backend.Sandbox) backend.Snapshot {
	t.Helper()
	snap, err := box.Snapshot(t.Context())
	must.Do(t, err)
	if snap.ID() == "" {
		t.Error("a snapshot without an ID")
	}
	return snap
}

func (s layered) restore(t *testing.T, box backend.Sandbox, snap backend.Snapshot) {
	t.Helper()
	must.Do(t, box.Restore(t.Context(), snap))
}

func (s layered) fork(t *testing.T, box backend.Sandbox) backend.Sandbox {
	t.Helper()
	f, err := box.Fork(t.Context())
	must.Do(t, err)
	t.Cleanup(func() { _, _ = f.Close() })
	return f
}

func (s layered) snapshots(t *testing.T) {
	box := s.open(t)
	if !s.supported(t, box) {
		return
	}
	s.writes(t, box, "/tmp/kept", "then")
	before := s.snapshot(t, box)
	s.writes(t, box, "/tmp/later", "x", "/tmp/kept", "now")
	p, _ := s.start(t, box, nil, "sleep")
	s.restore(t, box, before)
	if r := p.Wait(); r.Status == status.OK {
		t.Errorf("what ran at a restore: %s", r.Status)
	}
	s.want(t, box, "/tmp/later", "-", "/tmp/kept", "then")
	select {
	case <-box.Done():
		t.Error("a sandbox that was restored has ended")
	default:
	}
	all(t, before.Close())
	if err := box.Restore(t.Context(), before); err == nil {
		t.Error("restored from what was thrown away")
	}
	s.want(t, box, "/tmp/kept", "then")
	if r, err := box.Close(); err != nil || len(r.Enforced) == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	<-box.Done()
	if _, err := box.Snapshot(t.Context()); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("a snapshot of what is closed: %v", err)
	}
	if _, err := box.Fork(t.Context()); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("a fork of what is closed: %v", err)
	}
}

// What is taken twice and restored twice goes two ways.
func (s layered) divergence(t *testing.T) {
	box := s.open(t)
	if !s.supported(t, box) {
		return
	}
	s.writes(t, box, "/tmp/a", "1")
	first := s.snapshot(t, box)
	s.writes(t, box, "/tmp/a", "2", "/tmp/b", "2")
	second := s.snapshot(t, box)
	for range 2 {
		s.restore(t, box, first)
		s.want(t, box, "/tmp/a", "1", "/tmp/b", "-")
		s.writes(t, box, "/tmp/a", "3", "/tmp/c", "3")
		s.restore(t, box, second)
		s.want(t, box, "/tmp/a", "2", "/tmp/b", "2", "/tmp/c", "-")
		s.writes(t, box, "/tmp/b", "4")
	}
	third := s.snapshot(t, box) // of what stands on the second
	s.restore(t, box, first)
	s.restore(t, box, third)
	s.want(t, box, "/tmp/a", "2", "/tmp/b", "4", "/tmp/c", "-")
}

// What was removed before stays removed, and what stands there then is what is seen.
func (s layered) removals(t *testing.T) {
	box := s.open(t)
	if !s.supported(t, box) {
		return
	}
	f := box.Files()
	all(t, f.Mkdir("/tmp/d", 0o755), f.Mkdir("/tmp/d/e", 0o750))
	s.writes(t, box, "/tmp/d/x", "x", "/tmp/d/e/y", "y", "/tmp/gone", "x", "/tmp/file", "x")
	one := s.fork(t, box)
	f = one.Files()
	all(t, f.Remove("/tmp/gone"), f.Remove("/tmp/d/x"), f.Remove("/tmp/d/e/y"), f.Remove("/tmp/d/e"), f.Remove("/tmp/d"),
		f.Mkdir("/tmp/d", 0o700), f.Remove("/tmp/file"), f.Mkdir("/tmp/file", 0o711))
	two := s.fork(t, one)
	snap := s.snapshot(t, two)
	s.writes(t, two, "/tmp/d/x", "again")
	s.restore(t, two, snap)
	for name, b := range map[string]backend.Sandbox{"a fork": one, "a fork of the fork, restored": two} {
		f := b.Files()
		list, err := f.List("/tmp/d")
		all(t, err)
		if len(list) != 0 {
			t.Errorf("%s: %v in what was made anew", name, list)
		}
		for dir, mode := range map[string]fs.FileMode{"/tmp/d": 0o700, "/tmp/file": 0o711} {
			if info, err := f.Stat(dir); err != nil || info.Mode() != fs.ModeDir|mode {
				t.Errorf("%s: %s is %v, %v", name, dir, info, err)
			}
		}
		s.want(t, b, "/tmp/gone", "-")
	}
	s.want(t, box, "/tmp/gone", "x", "/tmp/d/x", "x", "/tmp/d/e/y", "y", "/tmp/file", "x")
	if info, err := two.Files().Stat("/tmp"); err != nil || info.Mode() != fs.ModeDir|fs.ModeSticky|0o777 {
		t.Errorf("/tmp of a fork is %v, %v", info, err)
	}
}

func (s layered) forks(t *testing.T) {
	box := s.open(t)
	if !s.supported(t, box) {
		return
	}
	s.writes(t, box, "/tmp/a", "source")
	one := s.fork(t, box)
	s.want(t, one, "/tmp/a", "source")
	s.writes(t, one, "/tmp/a", "fork", "/tmp/b", "fork")
	s.writes(t, box, "/tmp/c", "source")
	s.want(t, box, "/tmp/a", "source", "/tmp/b", "-", "/tmp/c", "source")
	s.want(t, one, "/tmp/a", "fork", "/tmp/b", "fork", "/tmp/c", "-")
	two := s.fork(t, one)
	s.want(t, two, "/tmp/a", "fork", "/tmp/b", "fork", "/tmp/c", "-")
	Close(t, one)
	s.writes(t, two, "/tmp/a", "fork of the fork")
	s.want(t, two, "/tmp/a", "fork of the fork", "/tmp/b", "fork")
	s.want(t, box, "/tmp/a", "source")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			f, err := box.Fork(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			s.want(t, f, "/tmp/c", "source")
			Close(t, f)
		})
	}
	all.Wait()
	s.want(t, box, "/tmp/a", "source", "/tmp/c", "source")
}

// A process goes on in the source, and isn't in the fork.
func (s layered) busyForks(t *testing.T) {
	box := s.open(t)
	if !s.supported(t, box) {
		return
	}
	s.writes(t, box, "/tmp/a", "source")
	in, feed := io.Pipe()
	p, out := s.start(t, box, &backend.Exec{Stdin: in}, "cat")
	one := s.fork(t, box)
	two := s.fork(t, one)
	snap := s.snapshot(t, box)
	s.want(t, two, "/tmp/a", "source")
	s.writes(t, two, "/tmp/a", "fork")
	if _, err := io.WriteString(feed, "goes on"); err != nil {
		t.Error(err)
	}
	_ = feed.Close()
	if r := p.Wait(); r.Status != status.OK || out.String() != "goes on" {
		t.Errorf("%s: %s, %q", r.Status, r.Reason, out.String())
	}
	s.want(t, box, "/tmp/a", "source")
	s.writes(t, box, "/tmp/a", "later")
	s.restore(t, box, snap)
	s.want(t, box, "/tmp/a", "source")
	s.want(t, two, "/tmp/a", "fork")
}

// A sandbox can begin with what another was, also when that is gone.
func (s layered) beginnings(t *testing.T) {
	spec := s.spec(t)
	spec.Snapshots = t.TempDir()
	box := Open(t, s.Backend, spec)
	if !s.supported(t, box) {
		return
	}
	s.writes(t, box, "/tmp/a", "then")
	snap := s.snapshot(t, box)
	id := snap.ID()
	Close(t, box)
	all(t, snap.Close())
	keeper, ok := s.Backend.(backend.Keeper)
	if !ok {
		t.Fatal("snapshots, and none that stays")
	}
	if _, err := keeper.Kept(spec.Snapshots, strings.Repeat("0", 64)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a snapshot that isn't there: %v", err)
	}
	again, err := keeper.Kept(spec.Snapshots, id)
	must.Do(t, err)
	defer again.Close()
	spec.From = again
	for range 2 {
		box := Open(t, s.Backend, spec)
		s.want(t, box, "/tmp/a", "then")
		s.writes(t, box, "/tmp/a", "now")
		Close(t, box)
	}
}

// What was changed in an overlay is told while the sandbox goes on, and adds up over all that it was.
func (s layered) changesSoFar(t *testing.T) {
	spec := s.spec(t)
	spec.Policy.Filesystem.Workdir = "overlay"
	dir := spec.Dir
	for name, text := range map[string]string{"same": "same", "changed": "before", "removed": "x"} {
		must.Do(t, os.WriteFile(dir+"/"+name, []byte(text), 0o644))
	}
	box := Open(t, s.Backend, spec)
	if !s.supported(t, box) {
		return
	}
	told := func(box backend.Sandbox, added, modified, deleted []string) {
		t.Helper()
		c, err := box.Changes(t.Context(), "")
		must.Do(t, err)
		for what, lists := range map[string][2][]string{"added": {c.Added, added}, "modified": {c.Modified, modified}, "deleted": {c.Deleted, deleted}} {
			want := []string{}
			for _, name := range lists[1] {
				want = append(want, dir+"/"+name)
			}
			if !slices.Equal(append([]string{}, lists[0]...), want) {
				t.Errorf("%s: %q, want %q", what, lists[0], want)
			}
		}
	}
	told(box, nil, nil, nil)
	s.writes(t, box, dir+"/new", "1", dir+"/changed", "after")
	told(box, []string{"new"}, []string{"changed"}, nil)
	fork := s.fork(t, box)
	told(fork, []string{"new"}, []string{"changed"}, nil)
	all(t, box.Files().Remove(dir+"/new"), box.Files().Remove(dir+"/removed"))
	told(box, nil, []string{"changed"}, []string{"removed"})
	s.writes(t, fork, dir+"/changed", "before", dir+"/other", "2")
	told(fork, []string{"new", "other"}, nil, nil)
	r, err := fork.Close()
	if err != nil || r.Changes == nil || !slices.Equal(r.Changes.Added, []string{dir + "/new", dir + "/other"}) {
		t.Errorf("%+v, %v", r.Changes, err)
	}
	snap := s.snapshot(t, box)
	s.writes(t, box, dir+"/removed", "again")
	told(box, nil, []string{"changed", "removed"}, nil)
	s.restore(t, box, snap)
	told(box, nil, []string{"changed"}, []string{"removed"})
	r, err = box.Close()
	if err != nil || r.Changes == nil || !slices.Equal(r.Changes.Modified, []string{dir + "/changed"}) || !slices.Equal(r.Changes.Deleted, []string{dir + "/removed"}) {
		t.Errorf("%+v, %v", r.Changes, err)
	}
	if text, err := os.ReadFile(dir + "/changed"); err != nil || string(text) != "before" {
		t.Errorf("the caller's own file: %q, %v", text, err)
	}
}

// A snapshot of a sandbox with other places isn't shown in this one.
func (s layered) otherPlaces(t *testing.T) {
	box := s.open(t)
	if !s.supported(t, box) {
		return
	}
	snap := s.snapshot(t, box)
	spec := s.spec(t)
	spec.Policy.Filesystem.Workdir = "overlay"
	other := Open(t, s.Backend, spec)
	s.writes(t, other, "/tmp/a", "still there")
	if err := other.Restore(t.Context(), snap); !errors.As(err, new(*config.UsageError)) {
		t.Errorf("restored from another's: %v", err)
	}
	s.want(t, other, "/tmp/a", "still there")
	spec.From = snap
	if box, _, err := backend.Open(t.Context(), s.Backend, spec); !errors.As(err, new(*config.UsageError)) {
		t.Errorf("begun with another's: %v, %v", box, err)
	}
}

// What a sandbox stands on can be thrown away: it stands, and can be written down again.
func (s layered) thrownAway(t *testing.T) {
	box := s.open(t)
	if !s.supported(t, box) {
		return
	}
	s.writes(t, box, "/tmp/a", "1")
	first := s.snapshot(t, box)
	s.restore(t, box, first)
	s.writes(t, box, "/tmp/b", "2")
	all(t, first.Close())
	s.want(t, box, "/tmp/a", "1", "/tmp/b", "2")
	second := s.snapshot(t, box)
	s.writes(t, box, "/tmp/b", "3")
	f := s.fork(t, box)
	s.restore(t, box, second)
	s.want(t, box, "/tmp/a", "1", "/tmp/b", "2")
	Close(t, box)
	s.want(t, f, "/tmp/a", "1", "/tmp/b", "3")
	third := s.snapshot(t, f)
	all(t, second.Close(), third.Close())
}
