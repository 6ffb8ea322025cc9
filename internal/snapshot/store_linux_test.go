package snapshot

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func newStore(t testing.TB) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "snapshots"))
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// build makes a tree: "path" → content; "path/" a directory, "path@" a link, "path!" a whiteout, "path/^" an opaque directory.
func build(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	var names []string
	for n := range files {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, name := range names {
		p := filepath.Join(dir, strings.TrimRight(name, "/@!^"))
		must(t, os.MkdirAll(filepath.Dir(p), 0o755))
		switch {
		case strings.HasSuffix(name, "/^"):
			must(t, os.MkdirAll(p, 0o755))
			must(t, unix.Setxattr(p, "user.overlay.opaque", []byte("y"), 0))
		case strings.HasSuffix(name, "/"):
			must(t, os.MkdirAll(p, 0o755))
		case strings.HasSuffix(name, "@"):
			must(t, os.Symlink(files[name], p))
		case strings.HasSuffix(name, "!"):
			must(t, unix.Mknod(p, unix.S_IFCHR, 0))
		default:
			must(t, os.WriteFile(p, []byte(files[name]), 0o644))
		}
	}
}

func openedDir(t testing.TB, dir string) int {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
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

func TestSmoke(t *testing.T) {
	s := newStore(t)
	id := add(t, s, "", upper(t, "/work/a", map[string]string{"f": "1", "d/x": "x", "l@": "f", "gone!": "", "hid/^": ""}), upper(t, "/tmp", map[string]string{"t": "t"}))
	one := trees(t, s, id)
	if len(one) != 1 {
		t.Fatal(one)
	}
	must(t, filepath.Walk(one[0].Path, func(p string, i os.FileInfo, err error) error {
		t.Log(p[len(one[0].Path):], i.Mode(), i.Size(), i.ModTime())
		return err
	}))
	two := add(t, s, id, upper(t, "/work/a", map[string]string{"f!": ""}))
	must(t, s.Name("first", id))
	must(t, s.Remove(id))
	if got := trees(t, s, two); len(got) != 2 || got[0].Ino != one[0].Ino {
		t.Error(got)
	}
	all, err := s.List()
	must(t, err)
	t.Logf("%+v", all)
}
