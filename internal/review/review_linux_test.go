package review

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/changes"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

// box is a sandbox of which only the overlay of one tree is there.
type box struct {
	t           *testing.T
	tree, upper string
	began       time.Time
	agreed      *Agreed
}

func newBox(t *testing.T) *box {
	b := &box{t, t.TempDir(), t.TempDir(), time.Now(), &Agreed{}}
	b.put(b.tree, "old", "as it was")
	time.Sleep(10 * time.Millisecond)
	b.began = time.Now()
	time.Sleep(10 * time.Millisecond)
	return b
}

func (b *box) put(dir, name, text string) {
	b.t.Helper()
	path := filepath.Join(dir, name)
	must.Do(b.t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)))
}

func (b *box) Changes(_ context.Context, keep string) (*status.Changes, error) {
	open := func(dir string) int {
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		must.Do(b.t, err)
		b.t.Cleanup(func() { _ = unix.Close(fd) })
		return fd
	}
	tree := changes.Tree{Path: b.tree, Upper: open(b.upper), Lower: open(b.tree)}
	set, err := changes.Read(tree, changes.Limits{})
	if err != nil || len(set.Changes) == 0 {
		return &status.Changes{Trees: []string{b.tree}}, err
	}
	store, err := changes.OpenStore(keep)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	id, _, err := store.Keep(changes.Keeping{Start: b.began, Trees: []changes.Tree{tree}, Sets: []*changes.Set{set}})
	return &status.Changes{RunID: id, Kept: true, Trees: []string{b.tree}, Counts: status.ChangeCounts{Added: len(set.Changes)}}, err
}

// take looks at the changes, and forgets them when the test has.
func take(t *testing.T, b *box, keep string) *Review {
	t.Helper()
	r, err := Take(t.Context(), b, keep, b.agreed)
	must.Do(t, err)
	return r
}

func none(string) string { return "" }

func TestWhatIsAppliedIsNoChangeAnyMore(t *testing.T) {
	b, keep := newBox(t), t.TempDir()
	b.put(b.upper, "new", "text\n")
	b.put(b.upper, "dir/below", "more\n")
	r := take(t, b, keep)
	var shown bytes.Buffer
	if err := r.Diff(&shown, nil, changes.DiffOptions{From: b.tree}); err != nil || shown.String() != "A dir/\nA dir/below\nA new\n" {
		t.Errorf("%q, %v", shown.String(), err)
	}
	if done, err := r.Apply(t.Context(), none, nil, changes.Options{Dry: true}); err != nil || done.Applied != 3 {
		t.Errorf("dry: %+v, %v", done, err)
	}
	if _, err := os.Stat(filepath.Join(b.tree, "new")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a dry apply made it: %v", err)
	}
	if done, err := r.Apply(t.Context(), none, []string{b.tree + "/new"}, changes.Options{}); err != nil || done.Applied != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	r = take(t, b, keep)
	shown.Reset()
	if err := r.Diff(&shown, nil, changes.DiffOptions{From: b.tree}); err != nil || shown.String() != "A dir/\nA dir/below\n" {
		t.Errorf("%q, %v", shown.String(), err)
	}
	if _, err := r.Apply(t.Context(), none, nil, changes.Options{}); err != nil {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	r = take(t, b, keep)
	shown.Reset()
	if err := r.Diff(&shown, nil, changes.DiffOptions{JSON: true}); err != nil || !json.Valid(shown.Bytes()) || !strings.Contains(shown.String(), `"changes":[]`) {
		t.Errorf("%q, %v", shown.String(), err)
	}
	if _, err := r.Apply(t.Context(), none, []string{b.tree + "/new"}, changes.Options{}); !errors.Is(err, changes.ErrNoMatch) {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	store, err := changes.FindStore(keep)
	must.Do(t, err)
	defer store.Close()
	if all, err := store.List(); err != nil || len(all) != 0 {
		t.Errorf("left behind: %+v, %v", all, err)
	}
}

func TestPathsAreTakenAsTheyAreOrNotAtAll(t *testing.T) {
	b := newBox(t)
	b.put(b.upper, "new", "text\n")
	r := take(t, b, t.TempDir())
	defer r.Close()
	for _, path := range []string{"new", "", b.tree + "/../" + filepath.Base(b.tree) + "/new", b.tree + "/./new", b.tree + "//new", b.tree + "/new/"} {
		var bad *PathError
		if _, err := r.Apply(t.Context(), none, []string{path}, changes.Options{}); !errors.As(err, &bad) {
			t.Errorf("apply %q: %v", path, err)
		}
		if err := r.Diff(&bytes.Buffer{}, []string{path}, changes.DiffOptions{}); !errors.As(err, &bad) {
			t.Errorf("diff %q: %v", path, err)
		}
	}
}

func TestConflictsAndWhatIsProtectedAreRefused(t *testing.T) {
	b := newBox(t)
	b.put(b.upper, "old", "by the sandbox")
	b.put(b.upper, ".bashrc", "echo obeyed")
	r := take(t, b, t.TempDir())
	defer r.Close()
	home := func(name string) string { return map[string]string{"HOME": b.tree}[name] }
	var refused *changes.RefusedError
	if _, err := r.Apply(t.Context(), home, nil, changes.Options{}); !errors.As(err, &refused) || !refused.Asked() || len(refused.Paths) != 1 {
		t.Errorf("%v", err)
	}
	b.put(b.tree, "old", "by somebody else")
	var conflict *changes.ConflictError
	if _, err := r.Apply(t.Context(), home, nil, changes.Options{AllowProtected: true}); !errors.As(err, &conflict) || conflict.Paths[0].Path != b.tree+"/old" {
		t.Errorf("%v", err)
	}
	if done, err := r.Apply(t.Context(), home, nil, changes.Options{AllowProtected: true, Force: true}); err != nil || done.Applied != 2 {
		t.Errorf("%+v, %v", done, err)
	}
}

func TestAnEndedContextChangesNothing(t *testing.T) {
	b := newBox(t)
	b.put(b.upper, "new", "text\n")
	r := take(t, b, t.TempDir())
	defer r.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Apply(ctx, none, nil, changes.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(b.tree, "new")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// A file that was applied may be changed again and applied again, unless somebody else has changed it meanwhile.
func TestWhatWasAppliedIsNoConflictOfTheNext(t *testing.T) {
	b, keep := newBox(t), t.TempDir()
	apply := func(b *box, force bool) error {
		t.Helper()
		r := take(t, b, keep)
		_, err := r.Apply(t.Context(), none, nil, changes.Options{Force: force})
		return errors.Join(err, r.Close())
	}
	for i, text := range []string{"first", "second", "third"} {
		b.put(b.upper, "old", text)
		b.put(b.upper, "new", text)
		if err := apply(b, false); err != nil {
			t.Errorf("apply %d: %v", i, err)
		}
	}
	fork := *b
	fork.agreed = b.agreed.Clone()
	b.put(b.upper, "old", "by the source")
	if err := apply(b, false); err != nil {
		t.Error(err)
	}
	fork.upper = t.TempDir()
	b.put(fork.upper, "old", "by the fork")
	var conflict *changes.ConflictError
	if err := apply(&fork, false); !errors.As(err, &conflict) {
		t.Errorf("over what the source has applied since: %v", err)
	}
	b.put(b.tree, "new", "by somebody else")
	b.put(b.upper, "new", "fourth")
	if err := apply(b, false); !errors.As(err, &conflict) || conflict.Paths[0].Path != b.tree+"/new" {
		t.Errorf("over somebody else's: %v", err)
	}
	if err := apply(b, true); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(b.tree + "/new"); string(text) != "fourth" {
		t.Errorf("%q, %v", text, err)
	}
}
