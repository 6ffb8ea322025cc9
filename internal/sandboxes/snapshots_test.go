package sandboxes_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/confine/confinetest"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/sandboxes"
	"github.com/confine-run/confine/internal/sandboxes/sandboxestest"
	"github.com/confine-run/confine/internal/snapshot"
)

const me, you = sandboxes.Owner("me"), sandboxes.Owner("you")

// world is a manager on the mock.
type world struct {
	*sandboxes.Manager
	t      *testing.T
	mock   *confinetest.Backend
	stores *sandboxestest.Stores
}

func newWorld(t *testing.T, change func(*sandboxes.Options, *confinetest.Backend)) *world {
	w := &world{t: t, mock: &confinetest.Backend{Handle: func(c *confinetest.Call) confinetest.Result {
		<-c.Context.Done()
		return confinetest.Result{}
	}}}
	w.stores = &sandboxestest.Stores{Mock: w.mock}
	o := sandboxes.Options{Backend: func(*config.Policy) backend.Backend { return w.mock }, Snapshots: "/state", OpenStore: w.stores.Open}
	if change != nil {
		change(&o, w.mock)
	}
	w.Manager = sandboxes.New(o)
	t.Cleanup(w.Close)
	return w
}

func request(from string) sandboxes.Request {
	p := config.Default()
	return sandboxes.Request{Spec: &backend.Spec{Policy: &p, Dir: "/"}, From: from}
}

func (w *world) create(owner sandboxes.Owner, from string) *sandboxes.Sandbox {
	w.t.Helper()
	b, err := w.Create(w.t.Context(), owner, request(from))
	must.Do(w.t, err)
	return b
}

func (w *world) put(b *sandboxes.Sandbox, name, text string) {
	w.t.Helper()
	f, err := b.Files().Create(name, 0o600)
	if err == nil {
		_, _ = io.WriteString(f, text)
		err = f.Close()
	}
	must.Do(w.t, err)
}

func (w *world) has(b *sandboxes.Sandbox, name, text string) {
	w.t.Helper()
	f, err := b.Files().Open(name)
	if err != nil {
		w.t.Error(err)
		return
	}
	if got, _ := io.ReadAll(f); string(got) != text {
		w.t.Errorf("%s: %q, want %q", name, got, text)
	}
}

// standing is how many sandboxes of an owner there are.
func (w *world) standing(owner sandboxes.Owner) (n int) {
	for _, b := range w.List(owner) {
		if b.Ended() == nil {
			n++
		}
	}
	return n
}

func TestASnapshotIsFoundByItsOwnerAloneByIDAndByName(t *testing.T) {
	w := newWorld(t, nil)
	b := w.create(me, "")
	w.put(b, "/tmp/a", "before")
	in, err := b.Snapshot(t.Context(), "first")
	if err != nil || len(in.Names) != 1 {
		t.Fatal(in, err)
	}
	w.put(b, "/tmp/a", "after")
	other := w.create(you, "")
	for _, word := range []string{in.ID, "first", "", "../" + in.ID, "guessed"} {
		if err := other.Restore(t.Context(), word); !errors.Is(err, sandboxes.ErrNoSnapshot) {
			t.Errorf("restored by somebody else, %q: %v", word, err)
		}
		if word != "" {
			if _, err := w.Create(t.Context(), you, request(word)); !errors.Is(err, sandboxes.ErrNoSnapshot) {
				t.Errorf("opened by somebody else, %q: %v", word, err)
			}
		}
		if err := w.Snapshots(you).Remove(word); !errors.Is(err, sandboxes.ErrNoSnapshot) {
			t.Errorf("removed by somebody else, %q: %v", word, err)
		}
		if err := w.Snapshots(you).Export(t.Context(), word, io.Discard); !errors.Is(err, sandboxes.ErrNoSnapshot) {
			t.Errorf("exported by somebody else, %q: %v", word, err)
		}
	}
	if all, err := w.Snapshots(you).List(); len(all) != 0 || err != nil {
		t.Errorf("listed for somebody else: %+v, %v", all, err)
	}
	if _, err := other.Snapshot(t.Context(), "first"); err != nil {
		t.Errorf("a name that somebody else has: %v", err)
	}
	for _, word := range []string{in.ID, "first"} {
		w.has(w.create(me, word), "/tmp/a", "before")
	}
	if err := b.Restore(t.Context(), "first"); err != nil {
		t.Error(err)
	}
	w.has(b, "/tmp/a", "before")
	if _, err := b.Snapshot(t.Context(), "first"); !errors.Is(err, snapshot.ErrTaken) {
		t.Errorf("a name twice: %v", err)
	}
	if err := w.Snapshots(me).Remove("first"); err != nil {
		t.Error(err)
	}
	if _, err := w.Create(t.Context(), me, request("first")); !errors.Is(err, sandboxes.ErrNoSnapshot) {
		t.Errorf("from what was removed: %v", err)
	}
	if n := w.standing(you); n != 1 {
		t.Errorf("%d sandboxes of somebody else", n)
	}
}

func TestASnapshotThatFailsLeavesNothing(t *testing.T) {
	fault := errors.New("the disk is full")
	for what, change := range map[string]func(*world){
		"the snapshot": func(w *world) { w.mock.SnapshotErr = fault },
		"the name":     func(w *world) { w.stores.NameErr = fault },
	} {
		w := newWorld(t, nil)
		b := w.create(me, "")
		change(w)
		if _, err := b.Snapshot(t.Context(), "name"); !errors.Is(err, fault) {
			t.Errorf("%s: %v", what, err)
		}
		if all, err := w.Snapshots(me).List(); len(all) != 0 || err != nil {
			t.Errorf("%s: left %+v, %v", what, all, err)
		}
	}
	w := newWorld(t, nil)
	b := w.create(me, "")
	for _, name := range []string{"../x", "a/b", "-x", strings.Repeat("a", 65), strings.Repeat("a", 64), "a b", "\x00"} {
		if _, err := b.Snapshot(t.Context(), name); !errors.As(err, new(*config.UsageError)) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if len(w.mock.KeptIn(sandboxes.SnapshotDir("/state", me))) != 0 {
		t.Error("a snapshot was made before its name was looked at")
	}
}

func TestQuotasOfSnapshotsAreEachOwnersOwn(t *testing.T) {
	w := newWorld(t, func(o *sandboxes.Options, _ *confinetest.Backend) {
		o.MaxSnapshots, o.MaxSnapshotBytes = 4, 3*sandboxestest.SnapshotBytes
	})
	b := w.create(me, "")
	var quota *sandboxes.QuotaError
	for i := range 4 {
		_, err := b.Snapshot(t.Context(), "")
		if (i < 3) != (err == nil) || i == 3 && !errors.As(err, &quota) {
			t.Errorf("number %d: %v", i, err)
		}
	}
	id := strings.Repeat("ab", 32)
	if _, _, err := w.Snapshots(me).Import(t.Context(), id, strings.NewReader("bundle of "+id+"\n")); !errors.As(err, &quota) {
		t.Errorf("imported: %v", err)
	}
	if all, _ := w.Snapshots(me).List(); len(all) != 3 {
		t.Errorf("%d snapshots", len(all))
	}
	if _, err := w.create(you, "").Snapshot(t.Context(), ""); err != nil {
		t.Errorf("somebody else's: %v", err)
	}
	w = newWorld(t, func(o *sandboxes.Options, m *confinetest.Backend) {
		o.MaxSnapshots, m.SnapshotDelay = 2, 50*time.Millisecond
	})
	b = w.create(me, "")
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() { _, _ = b.Snapshot(t.Context(), "") })
	}
	group.Wait()
	if all, _ := w.Snapshots(me).List(); len(all) > 2 || len(all) == 0 {
		t.Errorf("%d snapshots at once", len(all))
	}
}

func TestABundleOfAnotherSnapshotIsNotTaken(t *testing.T) {
	w := newWorld(t, nil)
	one, other := strings.Repeat("ab", 32), strings.Repeat("cd", 32)
	h := w.Snapshots(me)
	bundle := func(id string) io.Reader { return strings.NewReader("bundle of " + id + "\n") }
	if in, made, err := h.Import(t.Context(), other, bundle(other)); err != nil || !made || in.ID != other {
		t.Fatal(in, made, err)
	}
	for _, wrong := range []string{other, strings.Repeat("ef", 32)} {
		if _, _, err := h.Import(t.Context(), one, bundle(wrong)); !errors.Is(err, snapshot.ErrOther) {
			t.Errorf("%.4s for %.4s: %v", wrong, one, err)
		}
	}
	if all, _ := h.List(); len(all) != 1 || all[0].ID != other {
		t.Errorf("%+v", all)
	}
	if _, made, err := h.Import(t.Context(), other, strings.NewReader("anything")); made || err != nil {
		t.Errorf("what is there already: %v, %v", made, err)
	}
	if _, _, err := h.Import(t.Context(), "../"+one, bundle(one)); !errors.As(err, new(*config.UsageError)) {
		t.Errorf("%v", err)
	}
}

func TestForksAreAllThereOrNone(t *testing.T) {
	fault := errors.New("no room")
	w := newWorld(t, func(o *sandboxes.Options, m *confinetest.Backend) {
		o.Max, m.ForkErr, m.ForksWell = 10, fault, 4
	})
	b := w.create(me, "")
	w.put(b, "/tmp/a", "shared")
	all, err := w.Fork(t.Context(), b, 2, sandboxes.Request{})
	if err != nil || len(all) != 2 || all[0].ID == all[1].ID || all[0].ID == b.ID {
		t.Fatal(all, err)
	}
	w.put(all[0], "/tmp/a", "its own")
	w.has(all[1], "/tmp/a", "shared")
	w.has(b, "/tmp/a", "shared")
	if _, err := w.Fork(t.Context(), b, 3, sandboxes.Request{}); !errors.Is(err, fault) { // the third fails
		t.Errorf("%v", err)
	}
	if n := w.standing(me); n != 3 {
		t.Errorf("%d sandboxes stand after forks that failed", n)
	}
	var quota *sandboxes.QuotaError
	for _, n := range []int{8, 257, 1_000_000_000, math.MaxInt} {
		if _, err := w.Fork(t.Context(), b, n, sandboxes.Request{}); !errors.As(err, &quota) {
			t.Errorf("%d forks: %v", n, err)
		}
	}
	for _, n := range []int{0, -1, math.MinInt} {
		if _, err := w.Fork(t.Context(), b, n, sandboxes.Request{}); !errors.As(err, new(*config.UsageError)) {
			t.Errorf("%d forks: %v", n, err)
		}
	}
	w.mock.ForkErr = nil
	if _, err := w.Fork(t.Context(), b, 7, sandboxes.Request{}); err != nil {
		t.Errorf("what the quota has room for: %v", err)
	}
}

func TestADiskOfSnapshotsThatIsFullIsNamed(t *testing.T) {
	w := newWorld(t, func(_ *sandboxes.Options, m *confinetest.Backend) {
		m.SnapshotErr = &fs.PathError{Op: "write", Path: "/state/0123/blobs", Err: syscall.ENOSPC}
	})
	b := w.create(me, "")
	if _, err := b.Snapshot(t.Context(), ""); !errors.Is(err, sandboxes.ErrNoSpace) {
		t.Error(err)
	}
}

// What has arrived elsewhere isn't said to go on here; that it has arrived can be said twice.
func TestADepartureHasOneEnd(t *testing.T) {
	w := newWorld(t, nil)
	r := request("")
	r.Origin = []byte("{}")
	for _, arrives := range []bool{true, false} {
		b, err := w.Create(t.Context(), me, r)
		must.Do(t, err)
		l := sandboxes.LeavingOf(b)
		d, err := l.Depart(t.Context())
		must.Do(t, err)
		if err := l.Return("another"); !errors.Is(err, sandboxes.ErrNotFound) {
			t.Errorf("by another token: %v", err)
		}
		if arrives {
			if first, again := l.Arrived(d.Token, "x"), l.Arrived(d.Token, "x"); first != nil || again != nil || b.Ended() == nil {
				t.Errorf("%v, %v, %v", first, again, b.Ended())
			}
			var elsewhere *sandboxes.ElsewhereError
			if err := l.Arrived(d.Token, "y"); !errors.As(err, &elsewhere) || elsewhere.At != "x" {
				t.Errorf("who has it at a second place hears %v", err)
			}
			if err := l.Return(d.Token); !errors.Is(err, backend.ErrClosed) {
				t.Errorf("one that has arrived goes on here: %v", err)
			}
			continue
		}
		if err := l.Return(d.Token); err != nil || l.Now() != nil || b.Ended() != nil {
			t.Errorf("%v, %+v, %v", err, l.Now(), b.Ended())
		}
		if err := l.Arrived(d.Token, "x"); !errors.Is(err, sandboxes.ErrNotFound) {
			t.Errorf("one that went on here has arrived: %v", err)
		}
	}
}

func TestAForkOutlivesWhatItWasForkedFrom(t *testing.T) {
	w := newWorld(t, nil)
	b := w.create(me, "")
	all, err := w.Fork(t.Context(), b, 1, sandboxes.Request{Name: "copy", Lifetime: time.Hour, Labels: map[string]string{"k": "v"}})
	must.Do(t, err)
	b.Close(sandboxes.CauseClosed, "asked")
	got, err := w.Get(me, "copy")
	if err != nil || got != all[0] || got.Ended() != nil || got.Labels()["k"] != "v" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := w.Get(you, "copy"); !errors.Is(err, sandboxes.ErrNotFound) {
		t.Errorf("by somebody else: %v", err)
	}
	if _, err := w.Fork(t.Context(), b, 1, sandboxes.Request{}); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("of what has ended: %v", err)
	}
	if _, err := w.Fork(t.Context(), got, 1, sandboxes.Request{Name: "copy"}); !errors.As(err, new(*sandboxes.TakenError)) {
		t.Errorf("a name twice: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Fork(ctx, got, 2, sandboxes.Request{}); !errors.Is(err, context.Canceled) {
		t.Errorf("for a client that left: %v", err)
	}
	if n := w.standing(me); n != 1 {
		t.Errorf("%d stand", n)
	}
}

func TestASnapshotKeepsASandboxFromBeingIdle(t *testing.T) {
	w := newWorld(t, func(_ *sandboxes.Options, m *confinetest.Backend) { m.SnapshotDelay = 300 * time.Millisecond })
	r := request("")
	r.Idle = 100 * time.Millisecond
	b, err := w.Create(t.Context(), me, r)
	must.Do(t, err)
	if _, err := b.Snapshot(t.Context(), ""); err != nil || b.Ended() != nil {
		t.Errorf("%v, %+v", err, b.Ended())
	}
	<-b.Done()
	if end := b.Ended(); end.Cause != sandboxes.CauseIdle {
		t.Errorf("%+v", end)
	}
}

func TestWhoeverIsToldOfASandboxMayRefuseIt(t *testing.T) {
	fault, told := errors.New("no directory"), 0
	w := newWorld(t, func(o *sandboxes.Options, _ *confinetest.Backend) {
		o.Opened = func(*sandboxes.Sandbox) error {
			if told++; told > 2 {
				return fault
			}
			return nil
		}
	})
	b := w.create(me, "")
	if _, err := w.Fork(t.Context(), b, 3, sandboxes.Request{}); !errors.Is(err, fault) {
		t.Errorf("%v", err)
	}
	if n := w.standing(me); n != 1 || told != 3 {
		t.Errorf("%d stand, %d were told of", n, told)
	}
}

func TestWithoutADirectoryNoSnapshotIsKept(t *testing.T) {
	w := newWorld(t, func(o *sandboxes.Options, _ *confinetest.Backend) { o.Snapshots = "" })
	if _, err := w.create(me, "").Snapshot(t.Context(), ""); !errors.As(err, new(*config.UsageError)) {
		t.Errorf("%v", err)
	}
}
