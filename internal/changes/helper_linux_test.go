package changes

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// snapshot describes everything below a directory, one line a path: what apply has
// to bring about.
func snapshot(t testing.TB, dir int) map[string]string {
	t.Helper()
	all := map[string]string{}
	up := newUppers([]int{dir})[0]
	defer up.restore()
	for todo := []string{""}; len(todo) > 0; {
		at := todo[0]
		todo = todo[1:]
		fd, err := up.dir(at)
		must(t, err)
		must(t, names(fd, func(name string) error {
			n, err := statAt(fd, name)
			must(t, err)
			line := string(n.typ)
			switch n.typ {
			case Dir:
				sub, err := up.dir(join(at, name))
				must(t, err)
				x, err := xattrs(sub)
				must(t, err)
				_ = unix.Close(sub)
				line += fmt.Sprintf(" %04o %q", n.mode, x)
				todo = append(todo, join(at, name))
			case Symlink:
				target, err := readLink(fd, name)
				must(t, err)
				line += " " + target
			case File:
				f, done, err := up.file(fd, name)
				must(t, err)
				sum, err := digest(f, n.size)
				must(t, err)
				x, err := xattrs(f)
				must(t, err)
				done()
				line += fmt.Sprintf(" %04o %d %.12s %q", n.mode, n.size, sum, x)
			}
			all[join(at, name)] = line
			return nil
		}))
		_ = unix.Close(fd)
	}
	return all
}

func snapshotPath(t testing.TB, dir string) map[string]string {
	t.Helper()
	fd := openDir(t, dir)
	return snapshot(t, fd)
}

// whiteout makes what an overlay makes of a deletion.
func whiteout(t testing.TB, path string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	if err := unix.Mknod(path, unix.S_IFCHR, 0); err != nil {
		t.Skip("mknod of a whiteout: ", err)
	}
}

func setXattr(t testing.TB, path, name, value string) {
	t.Helper()
	if err := unix.Lsetxattr(path, name, []byte(value), 0); err != nil {
		t.Skip("setxattr: ", err)
	}
}

func newStore(t testing.TB) *Store {
	t.Helper()
	s, err := OpenStore(filepath.Join(t.TempDir(), "confine", "runs"))
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// farFuture as the beginning of a run: no base is raced.
var farFuture = time.Now().Add(time.Hour)

// scene is a real tree, an upper directory made by hand, and a store.
type scene struct {
	lower, upper string
	tree         Tree
	store        *Store
}

func newScene(t testing.TB, lower map[string]string, upper ...map[string]string) *scene {
	t.Helper()
	unix.Umask(0o022)
	s := &scene{lower: filepath.Join(t.TempDir(), "lower"), upper: filepath.Join(t.TempDir(), "upper"), store: newStore(t)}
	must(t, os.Mkdir(s.lower, 0o755))
	must(t, os.Mkdir(s.upper, 0o755))
	build(t, s.lower, lower)
	for _, files := range upper {
		build(t, s.upper, files)
	}
	s.tree = Tree{Path: s.lower, Upper: openDir(t, s.upper), Lower: openDir(t, s.lower)}
	return s
}

func (s *scene) read(t testing.TB) *Set {
	t.Helper()
	set, err := Read(s.tree, Limits{})
	must(t, err)
	return set
}

func (s *scene) lines(t testing.TB) []string {
	t.Helper()
	shown := lines{&Run{m: &manifest{Trees: []keptTree{{Path: "/tree"}}}}, "/tree", func(*Entry) string { return "" }}
	var all []string
	for _, c := range s.read(t).Changes {
		all = append(all, shown.line(&Entry{Change: c}))
	}
	return all
}

func keep(t testing.TB, store *Store, trees ...Tree) *Run {
	t.Helper()
	k := Keeping{Start: farFuture, Command: []string{"make", "all"}, Trees: trees}
	for _, tree := range trees {
		set, err := Read(tree, Limits{})
		must(t, err)
		k.Sets = append(k.Sets, set)
	}
	id, _, err := store.Keep(k)
	must(t, err)
	r, err := store.Open(id)
	must(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func (s *scene) keep(t testing.TB) *Run {
	t.Helper()
	return keep(t, s.store, s.tree)
}

func (s *scene) want(t testing.TB, path, content string) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(s.lower, path))
	if content == "" {
		if err == nil {
			t.Errorf("%s is there", path)
		}
		return
	}
	if err != nil || string(got) != content {
		t.Errorf("%s: %q, %v, want %q", path, got, err, content)
	}
}

func litter(t testing.TB, dir string) {
	t.Helper()
	for path := range snapshotPath(t, dir) {
		if strings.Contains(path, tempPrefix) {
			t.Errorf("left behind: %s", path)
		}
	}
}

func equal(t testing.TB, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// inMemory has a test's directories where syncing costs nothing, if there is such a
// place.
func inMemory(t *testing.T) {
	t.Helper()
	if os.Getenv("TMPDIR") == "" && unix.Access("/dev/shm", unix.W_OK|unix.X_OK) == nil {
		t.Setenv("TMPDIR", "/dev/shm")
	}
}

// apply applies what has to go.
func (s *scene) apply(t testing.TB, r *Run, paths ...string) {
	t.Helper()
	_, err := s.store.Apply(r, paths, Options{})
	must(t, err)
}
