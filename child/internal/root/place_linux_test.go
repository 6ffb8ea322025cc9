package root

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/child/internal/fault"
	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/must"
)

// rooted is a builder whose new root is an ordinary directory.
func rooted(t *testing.T) (*Builder, string) {
	t.Helper()
	dir := t.TempDir()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must.Do(t, err)
	s := New(&handoff.Box{}, new(handoff.Built), -1, nil, nil)
	s.fd = fd
	t.Cleanup(func() {
		s.forget("/")
		_ = unix.Close(fd)
	})
	must.Do(t, s.own(fd, "/"))
	return s, dir
}

func TestWhatLeadsToAPlaceIsMade(t *testing.T) {
	s, dir := rooted(t)
	for _, err := range []error{
		s.makeDir("/a/b/c", 0o755),
		s.makeFile(&handoff.Mount{Dst: "/a/b/file", Text: "text", Mode: 0o644}),
		s.makeSymlink(&handoff.Mount{Dst: "/link", Text: "a"}),
		s.makeDir("/a/b/c", 0o755), // there already
	} {
		if err != nil {
			t.Error(err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "link/b/file")); string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
	if st, err := os.Stat(filepath.Join(dir, "a/b/c")); err != nil || !st.IsDir() {
		t.Errorf("a/b/c: %v", err)
	}
}

func TestNothingIsMadeBehindALinkOrInTheCallersTree(t *testing.T) {
	s, dir := rooted(t)
	outside := t.TempDir()
	must.Do(t, os.Symlink(outside, filepath.Join(dir, "link")))
	if err := s.makeDir("/link/new", 0o755); err == nil {
		t.Error("made a directory behind a link")
	}
	if err := s.makeDir("/mine", 0o755); err != nil { // the control
		t.Fatal(err)
	}
	s.devs = nil // from here on all of it is the caller's
	if err := s.makeDir("/theirs", 0o755); fault.Errno(err) != unix.EROFS {
		t.Errorf("made a directory in the caller's tree: %v", err)
	}
	if names, _ := os.ReadDir(outside); len(names) != 0 {
		t.Errorf("outside: %v", names)
	}
}

// A mount covers what was kept in mind below it, and what is kept says whose a directory is.
func TestADirectoryThatIsCoveredIsLeft(t *testing.T) {
	const at = "/a/b"
	for _, c := range []struct {
		name, mounted string
		left          bool
	}{
		{"mounted there", at, true},
		{"mounted above", "/a", true},
		{"mounted beside, with a name that begins alike", "/a/bc", false},
		{"mounted below", "/a/b/c", false},
	} {
		s, _ := rooted(t)
		must.Do(t, s.makeDir(at+"/first", 0o755))
		s.forget(c.mounted)
		if left := !slices.ContainsFunc(s.way, func(p place) bool { return p.path == at }); left != c.left {
			t.Errorf("%s: left: %v, want %v", c.name, left, c.left)
		}
	}
}

// What was to be hidden or protected, and isn't where it was, has another name now.
func TestWhatWasMovedAwayIsNoticed(t *testing.T) {
	s, dir := rooted(t)
	must.Do(t, os.WriteFile(filepath.Join(dir, "now"), nil, 0o600))
	var st unix.Stat_t
	must.Do(t, unix.Stat(filepath.Join(dir, "now"), &st))
	for _, c := range []struct {
		name string
		do   func() error
		want unix.Errno
	}{
		{"hidden, never there", func() error { return s.masker.mask(&handoff.Mount{Dst: "/gone"}) }, 0},
		{"hidden, moved away", func() error { return s.masker.mask(&handoff.Mount{Dst: "/gone", Ino: 1}) }, unix.ESTALE},
		{"hidden, replaced", func() error {
			return s.masker.mask(&handoff.Mount{Dst: "/now", Dev: uint64(st.Dev), Ino: st.Ino + 1})
		}, unix.ESTALE},
		{"hidden, on another file system", func() error {
			return s.masker.mask(&handoff.Mount{Dst: "/now", Dev: uint64(st.Dev) + 1, Ino: st.Ino})
		}, unix.ESTALE},
		{"protected, never there", func() error { return s.masker.again(&handoff.Mount{Dst: "/gone"}, 0) }, 0},
		{"protected, moved away", func() error { return s.masker.again(&handoff.Mount{Dst: "/gone", Ino: 1}, 0) }, unix.ESTALE},
		{"protected, its directory moved away", func() error { return s.masker.again(&handoff.Mount{Dst: "/no/gone", Ino: 1}, 0) }, unix.ESTALE},
	} {
		if err := c.do(); fault.Errno(err) != c.want || c.want == 0 && err != nil {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}
