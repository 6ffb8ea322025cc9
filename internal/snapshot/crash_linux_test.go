package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// victim does something to a store, and is killed before its step of the number SNAPSHOT_STEP.
func victim() {
	s, err := Open(os.Getenv("SNAPSHOT_DIR"))
	must(nil, err)
	step, err := strconv.Atoi(os.Getenv("SNAPSHOT_STEP"))
	must(nil, err)
	s.hook = func(point string) error {
		if step--; step == 0 {
			fmt.Println(point)
			must(nil, unix.Kill(os.Getpid(), unix.SIGKILL))
			select {}
		}
		return nil
	}
	ctx, arg := context.Background(), os.Getenv("SNAPSHOT_ARG")
	switch os.Getenv("SNAPSHOT_OP") {
	case "open":
	case "add":
		fd, err := unix.Open(os.Getenv("SNAPSHOT_PLACE"), unix.O_RDONLY|unix.O_DIRECTORY, 0)
		must(nil, err)
		_, err = s.Add(ctx, Meta{Parent: arg, Created: someTime}, []Place{{"/work", fd}})
		must(nil, err)
	case "trees":
		_, err := s.Trees(ctx, arg)
		must(nil, err)
	case "import":
		f, err := os.Open(arg)
		must(nil, err)
		_, err = s.Import(ctx, f, Limits{})
		must(nil, err)
	case "name":
		must(nil, s.Name("other", arg))
	case "remove":
		must(nil, s.Remove(arg))
	default:
		os.Exit(4)
	}
	os.Exit(0)
}

// Whatever is killed, and when: what is found is whole, the same can be done again, and nothing is left of it.
func TestKilledAtEachStep(t *testing.T) {
	for _, op := range []string{"add", "trees", "import", "name", "remove"} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			points := map[string]bool{}
			for step := 1; ; step++ {
				point := killedAt(t, op, step)
				if point == "" {
					if step < 3 {
						t.Errorf("only %d steps", step)
					}
					break
				}
				points[point] = true
			}
			t.Logf("%d points: %v", len(points), points)
		})
	}
}

// A disk that is full at whatever step: the error says so, and nothing is left.
func TestAFaultAtEachStep(t *testing.T) {
	other := newStore(t)
	var bundle bytes.Buffer
	must(t, other.Export(t.Context(), add(t, other, "", upper(t, "/work", map[string]string{"i": "1"})), &bundle))
	for op, do := range map[string]func(s *Store, id string) error{
		"add": func(s *Store, id string) error {
			_, err := s.Add(t.Context(), Meta{Parent: id}, []Place{upper(t, "/work", map[string]string{"g": "1"})})
			return err
		},
		"import": func(s *Store, _ string) error {
			_, err := s.Import(t.Context(), bytes.NewReader(bundle.Bytes()), Limits{})
			if errors.Is(err, ErrBundle) {
				t.Error("the bundle is blamed: ", err)
			}
			return err
		},
		"trees": func(s *Store, id string) error {
			all, err := s.Trees(t.Context(), id)
			if errors.Is(err, ErrDamaged) {
				t.Error("the snapshot is blamed: ", err)
			}
			CloseTrees(all)
			return err
		},
		"remove": func(s *Store, id string) error { return s.Remove(id) },
	} {
		for step := 1; ; step++ {
			s := newStore(t)
			id := add(t, s, "", upper(t, "/work", map[string]string{"f": "1"}))
			met := false
			left := step
			s.hook = func(string) error {
				if left--; left == 0 {
					met = true
					return unix.ENOSPC
				}
				return nil
			}
			err := do(s, id)
			s.hook = nil
			nothingLeft(t, s)
			if !met {
				must(t, err)
				break
			}
			if !errors.Is(err, unix.ENOSPC) {
				t.Errorf("%s, step %d: %v", op, step, err)
			}
			whole(t, s)
		}
	}
}

// killedAt kills it before a step, and gives the name of that; none if it came to its end.
func killedAt(t *testing.T, op string, step int) string {
	s := newStore(t)
	first := add(t, s, "", upper(t, "/work", map[string]string{"f": "1", "d/x": "x"}))
	must(t, s.Name("first", first))
	second := add(t, s, first, upper(t, "/work", map[string]string{"f": "2", "d!": ""}))
	place := t.TempDir()
	build(t, place, map[string]string{"g": "3", "f!": ""})
	arg := second
	switch op {
	case "import":
		other := newStore(t)
		arg = t.TempDir() + "/bundle"
		id := add(t, other, "", upper(t, "/work", map[string]string{"i": "1"}))
		f, err := os.Create(arg)
		must(t, err)
		must(t, other.Export(t.Context(), add(t, other, id, upper(t, "/work", map[string]string{"i": "2"})), f))
		must(t, f.Close())
	case "remove":
		CloseTrees(func() []Tree { all, err := s.Trees(t.Context(), second); must(t, err); return all }())
	}
	was := ids(t, s)
	run := func(step int) (string, error) {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), "SNAPSHOT_ROLE=victim", "SNAPSHOT_DIR="+s.path, "SNAPSHOT_OP="+op, "SNAPSHOT_ARG="+arg, "SNAPSHOT_PLACE="+place, "SNAPSHOT_STEP="+strconv.Itoa(step))
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		return strings.TrimSpace(string(out)), err
	}
	point, err := run(step)
	if point == "" {
		must(t, err)
	}
	now := ids(t, s)
	whole(t, s)
	if op == "add" || op == "import" {
		if extra := len(now) - len(was); extra != 0 && point != "" || extra != 1 && point == "" {
			t.Errorf("killed at %q: %d more than before", point, extra)
		}
	}
	// Once more, to its end, unless it was all but done.
	if slices.Contains(now, second) {
		if _, err := run(0); err != nil {
			t.Errorf("killed at %q; the next one: %v", point, err)
		}
	}
	whole(t, s)
	nothingLeft(t, s)
	return point
}

func ids(t *testing.T, s *Store) (all []string) {
	t.Helper()
	list, err := s.List()
	must(t, err)
	for _, in := range list {
		must(t, in.Err)
		all = append(all, in.ID)
	}
	return all
}

// whole: each snapshot that is found can be used, and handed on.
func whole(t *testing.T, s *Store) {
	t.Helper()
	for _, id := range ids(t, s) {
		all, err := s.Trees(t.Context(), id)
		must(t, err)
		for _, tree := range all {
			if err := unix.Access(tree.Path+"/work", unix.F_OK); err != nil {
				t.Errorf("%s: %v", tree.Path, err)
			}
		}
		CloseTrees(all)
		var out bytes.Buffer
		must(t, s.Export(t.Context(), id, &out))
	}
}

// nothingLeft: after the next change a store holds what its snapshots need, and nothing else.
func nothingLeft(t *testing.T, s *Store) {
	t.Helper()
	w, err := s.begin(t.Context())
	must(t, err)
	s.end(w)
	want := map[string]bool{}
	list, err := s.List()
	must(t, err)
	for _, in := range list {
		m, layers, err := s.manifest(in.ID)
		must(t, err)
		config, _ := m.Config.blob()
		for _, name := range append(layers, config, in.ID) {
			want[blobsDir+"/"+name] = true
		}
		for _, name := range layers {
			want[treesDir+"/"+name] = false // may be there
		}
	}
	for _, dir := range []string{".", blobsDir, treesDir} {
		names, err := os.ReadDir(filepath.Join(s.path, dir))
		must(t, err)
		for _, n := range names {
			path := filepath.Join(dir, n.Name())
			switch _, ok := want[path]; {
			case ok, slices.Contains([]string{lockName, layoutName, indexName, blobsName, treesDir}, path):
			default:
				t.Error("left: ", path)
			}
			delete(want, path)
		}
	}
	for path, must := range want {
		if must {
			t.Error("missing: ", path)
		}
	}
}
