package confinetest

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/backend/conformance"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

func open(t *testing.T, b *Backend, change func(*backend.Spec)) backend.Sandbox {
	t.Helper()
	p := config.Default()
	p.Filesystem.Workdir = "overlay"
	spec := &backend.Spec{Policy: &p, Dir: "/work/tree", Snapshots: "/state"}
	if change != nil {
		change(spec)
	}
	return conformance.Open(t, b, spec)
}

func put(t *testing.T, box backend.Sandbox, name, text string) {
	t.Helper()
	must.Do(t, write(box.Files(), name, text))
}

func want(t *testing.T, box backend.Sandbox, name, text string) {
	t.Helper()
	if got, err := read(box.Files(), name); string(got) != text || (err != nil) != (text == "") {
		t.Errorf("%s: %q, %v, want %q", name, got, err, text)
	}
}

func TestASnapshotThatIsKeptIsFoundInItsDirectoryAndInNoOther(t *testing.T) {
	mock := &Backend{}
	box := open(t, mock, nil)
	put(t, box, "/tmp/a", "before")
	made, err := box.Snapshot(t.Context())
	must.Do(t, err)
	put(t, box, "/tmp/a", "after")
	_ = made.Close()
	_, _ = box.Close()
	for _, at := range []struct{ dir, id string }{{"/other", made.ID()}, {"/state", "guessed"}, {"", made.ID()}} {
		if _, err := mock.Kept(at.dir, at.id); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q in %q: %v", at.id, at.dir, err)
		}
	}
	kept, err := mock.Kept("/state", made.ID())
	must.Do(t, err)
	for range 2 {
		other := open(t, mock, func(s *backend.Spec) { s.From = kept })
		want(t, other, "/tmp/a", "before")
		put(t, other, "/tmp/a", "its own")
	}
}

func TestAForkHasTheFilesAndAnEndOfItsOwn(t *testing.T) {
	mock := &Backend{Handle: toy, ForksWell: 1, ForkErr: errors.New("no room")}
	box := open(t, mock, nil)
	put(t, box, "/tmp/a", "shared")
	fork, err := box.Fork(t.Context())
	must.Do(t, err)
	put(t, fork, "/tmp/a", "of the fork")
	want(t, box, "/tmp/a", "shared")
	if _, err := box.Fork(t.Context()); err == nil || err.Error() != "no room" {
		t.Errorf("the second fork: %v", err)
	}
	_, _ = box.Close()
	want(t, fork, "/tmp/a", "of the fork")
	if _, err := box.Fork(t.Context()); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("a fork of what has ended: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	second, err := fork.Fork(ctx)
	must.Do(t, err)
	cancel()
	<-second.Done()
	want(t, fork, "/tmp/a", "of the fork")
}

func TestChangesAreWhatIsBelowTheOverlay(t *testing.T) {
	box := open(t, &Backend{}, nil)
	put(t, box, "/tmp/a", "no change of the caller's")
	put(t, box, "/work/tree/new", "12345")
	c, err := box.Changes(t.Context(), "")
	if err != nil || len(c.Added) != 1 || c.Added[0] != "/work/tree/new" || c.Counts != (status.ChangeCounts{Added: 1}) || c.Bytes != 5 {
		t.Errorf("%+v, %v", c, err)
	}
	none := open(t, &Backend{}, func(s *backend.Spec) { s.Policy.Filesystem.Workdir = "none" })
	if c, err := none.Changes(t.Context(), ""); c != nil || err != nil {
		t.Errorf("without an overlay: %+v, %v", c, err)
	}
}

func TestFaultsOfTheMockAreThoseThatItIsGiven(t *testing.T) {
	fault := errors.New("the disk is full")
	box := open(t, &Backend{SnapshotErr: fault, RestoreErr: fault, ChangesErr: fault}, nil)
	put(t, box, "/tmp/a", "as it was")
	_, err := box.Snapshot(t.Context())
	_, changes := box.Changes(t.Context(), "")
	for _, err := range []error{err, changes} {
		if !errors.Is(err, fault) {
			t.Error(err)
		}
	}
	well := open(t, &Backend{}, nil)
	from, err := well.Snapshot(t.Context())
	must.Do(t, err)
	if err := box.Restore(t.Context(), from); !errors.Is(err, fault) {
		t.Error(err)
	}
	want(t, box, "/tmp/a", "as it was")
}

// The interface of a sandbox has five operations: it executes, reads, writes, is written down and restored. The mock has all of them on every system,
// and isolates nothing; its snapshots are simulated: files, and no processes.
func TestTheMockDoesWhatEverySandboxDoes(t *testing.T) {
	mock := &Backend{Handle: func(c *Call) Result { _, _ = io.WriteString(c.Stdout, "ran "+c.Args[0]); return Result{} }}
	box := open(t, mock, nil)
	for _, op := range []struct {
		name string
		do   func() error
	}{
		{"exec", func() error {
			var out strings.Builder
			p, err := box.Start(t.Context(), &backend.Exec{Argv: []string{"tool"}, Stdout: &out})
			if err == nil && (p.Wait().Status != status.OK || out.String() != "ran tool") {
				err = errors.New(out.String())
			}
			return err
		}},
		{"write_file", func() error { return write(box.Files(), "/tmp/a", "then") }},
		{"read_file", func() error { _, err := read(box.Files(), "/tmp/a"); return err }},
		{"snapshot and restore", func() error {
			snap, err := box.Snapshot(t.Context())
			if err != nil {
				return err
			}
			put(t, box, "/tmp/a", "now")
			if err := box.Restore(t.Context(), snap); err != nil {
				return err
			}
			want(t, box, "/tmp/a", "then")
			return snap.Close()
		}},
	} {
		if err := op.do(); err != nil {
			t.Errorf("%s: %v", op.name, err)
		}
	}
	if e := box.Ledger()[status.Isolation]; e.Applied {
		t.Errorf("it says that it isolates: %+v", e)
	}
	if _, moves := backend.As[backend.Mover](box); moves {
		t.Error("a simulated snapshot has processes in it")
	}
}
