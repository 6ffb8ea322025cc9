package changes

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

func TestReadTable(t *testing.T) {
	for name, c := range map[string]struct {
		lower, upper map[string]string
		also         func(t *testing.T, s *scene)
		want         []string
	}{
		"nothing":                     {map[string]string{"a": "1"}, nil, nil, nil},
		"copied up only":              {map[string]string{"a": "1", "d/b": "2"}, map[string]string{"a": "1", "d/b": "2"}, nil, nil},
		"same size, other content":    {map[string]string{"a": "12"}, map[string]string{"a": "21"}, nil, []string{"M a"}},
		"in the order of a walk":      {nil, map[string]string{"a/x": "1", "a-b": "2"}, nil, []string{"A a/", "A a/x", "A a-b"}},
		"a link with the same target": {map[string]string{"l@": "x"}, map[string]string{"l@": "x"}, nil, nil},
		"a link instead of a file":    {map[string]string{"l": "x"}, map[string]string{"l@": "/etc"}, nil, []string{"L l → /etc (was a file)"}},
		"a file instead of a link":    {map[string]string{"l@": "x"}, map[string]string{"l": "x"}, nil, []string{"L l (a file, was a symlink)"}},
		"a link to a directory is not followed": {map[string]string{"d/a": "1", "l@": "d"}, map[string]string{"l/a": "2"}, nil,
			[]string{"L l/ (a dir, was a symlink)", "A l/a"}},
		"a whiteout of nothing": {nil, nil, func(t *testing.T, s *scene) { whiteout(t, s.upper+"/x") }, nil},
		"a whiteout of a tree with a link": {map[string]string{"d/a": "1", "d/e/b": "1", "d/l@": "/etc", "other/x": "1"}, nil,
			func(t *testing.T, s *scene) { whiteout(t, s.upper+"/d") }, []string{"D d/", "D d/a", "D d/e/", "D d/e/b", "D d/l"}},
		"opaque": {map[string]string{"d/a": "1", "d/e/b": "1", "d/same": "s", "d/f/x": "1", "d/f/y": "1"}, map[string]string{"d/same": "s", "d/new": "n", "d/f/x": "1"},
			func(t *testing.T, s *scene) { setXattr(t, s.upper+"/d", "user.overlay.opaque", "y") }, []string{"D d/a", "D d/e/", "D d/e/b", "D d/f/y", "A d/new"}},
		"other attributes of the overlay": {map[string]string{"d/a": "1"}, map[string]string{"d/a": "1"}, func(t *testing.T, s *scene) {
			setXattr(t, s.upper+"/d", "user.overlay.origin", "x")
			setXattr(t, s.upper+"/d/a", "user.overlay.nlink", "U+1")
		}, nil},
		"attributes": {map[string]string{"a": "1"}, map[string]string{"a": "1"}, func(t *testing.T, s *scene) { setXattr(t, s.upper+"/a", "user.x", "1") },
			[]string{"m a (owner or attributes)"}},
		"a whiteout that is an empty file": {map[string]string{"d/a": "1", "d/b": "2", "e/a": "1"}, map[string]string{"d/a": "", "d/b": "", "e/a": ""},
			func(t *testing.T, s *scene) {
				setXattr(t, s.upper+"/d", "user.overlay.opaque", "x")
				setXattr(t, s.upper+"/d/a", "user.overlay.whiteout", "")
				setXattr(t, s.upper+"/e/a", "user.overlay.whiteout", "") // its directory doesn't say so
			}, []string{"D d/a", "M d/b", "M e/a"}},
		"what isn't a file": {map[string]string{"a": "1"}, nil, func(t *testing.T, s *scene) { must(t, unix.Mkfifo(s.upper+"/a", 0o644)) },
			[]string{"M a (file → fifo)"}},
		"names": {nil, map[string]string{"line\nfeed": "1", "bad\xff": "2", "\x1b[31m": "3", strings.Repeat("n", 255): "4", "é \"": "5"}, nil,
			[]string{`A "\033[31m"`, `A "bad\377"`, `A "line\nfeed"`, "A " + strings.Repeat("n", 255), `A "é \""`}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, c.lower, c.upper)
			if c.also != nil {
				c.also(t, s)
			}
			equal(t, s.lines(t), c.want)
		})
	}
}

func TestAHostileUpperIsBounded(t *testing.T) {
	inMemory(t)
	s := newScene(t, map[string]string{"gone/a": "1", "gone/b": "1"})
	whiteout(t, s.upper+"/gone")
	const many = 90_000
	must(t, os.Mkdir(s.upper+"/many", 0o755))
	dir := openDir(t, s.upper+"/many")
	for i := range many {
		must(t, unix.Mknodat(dir, fmt.Sprint(i), unix.S_IFREG|0o644, 0))
	}
	set := s.read(t)
	if len(set.Changes) != many+4 || set.Truncated != 0 {
		t.Errorf("%d changes, %d truncated", len(set.Changes), set.Truncated)
	}
	set, err := Read(s.tree, Limits{Changes: 1000})
	must(t, err)
	if len(set.Changes) != 1000 || set.Truncated != many+4-1000 || set.Summary.Added != many+1 || set.Summary.Deleted != 3 {
		t.Errorf("%d changes, %d truncated, %+v", len(set.Changes), set.Truncated, set.Summary)
	}
	set, err = Read(s.tree, Limits{PathBytes: 5000})
	must(t, err)
	if len(set.Changes) > 1000 || len(set.Changes)+set.Truncated < many {
		t.Errorf("%d changes, %d truncated", len(set.Changes), set.Truncated)
	}
}

// Deeper than any path, than descriptors, than a stack.
func TestADeepUpperIsBounded(t *testing.T) {
	inMemory(t)
	var was unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
	s := newScene(t, nil)
	at, err := unix.Open(s.upper, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	const deep = 5000
	for range deep {
		must(t, unix.Mkdirat(at, "d", 0o755))
		next, err := unix.Openat(at, "d", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		must(t, err)
		_ = unix.Close(at)
		at = next
	}
	_ = unix.Close(at)
	low := was
	low.Cur = 64
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &low))
	defer func() { must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &was)) }()
	set := s.read(t)
	if len(set.Changes) != 2048 || set.Truncated != 0 || set.Deep == 0 {
		t.Errorf("%d changes, %d truncated, %d too deep", len(set.Changes), set.Truncated, set.Deep)
	}
	r := s.keep(t)
	if _, err := s.store.Apply(r, nil, Options{}); err == nil {
		t.Error("a record that isn't whole was applied")
	}
	if _, err := s.store.Apply(r, nil, Options{Force: true}); err != nil {
		t.Error(err)
	}
	top := openDir(t, s.upper)
	must(t, linux.RemoveAll(top, "d", 0))
}

// The size of a sparse file costs nothing, and its layout doesn't count.
func TestSparseFiles(t *testing.T) {
	s := newScene(t, map[string]string{"same": strings.Repeat("\x00", 1<<20) + "end"})
	f, err := os.Create(s.upper + "/same")
	must(t, err)
	_, err = f.WriteAt([]byte("end"), 1<<20)
	must(t, err)
	must(t, f.Close())
	must(t, os.WriteFile(s.upper+"/huge", []byte("begin"), 0o644))
	must(t, os.Truncate(s.upper+"/huge", 1<<40))
	equal(t, s.lines(t), []string{"A huge"})
	r := s.keep(t)
	s.apply(t, r)
	var st unix.Stat_t
	must(t, unix.Stat(s.lower+"/huge", &st))
	if st.Size != 1<<40 || st.Blocks > 1000 {
		t.Errorf("%d bytes in %d blocks", st.Size, st.Blocks)
	}
}

// What no system call can name isn't kept, which is said as what it is; the rest can be
// named, and needs no force.
func TestPathsThatAreTooLong(t *testing.T) {
	inMemory(t)
	s := newScene(t, nil, map[string]string{"fine": "1", "in/deep/": "", "in/fine": "2"})
	deepen(t, s.upper+"/in/deep")
	set := s.read(t)
	if set.Truncated != 0 || set.Deep != 1 || !strings.HasPrefix(set.DeepIn, "in/deep/dd") {
		t.Errorf("%d, %d below %.40q", set.Truncated, set.Deep, set.DeepIn)
	}
	r := s.keep(t)
	_, err := s.store.Apply(r, nil, Options{})
	if !errors.Is(err, ErrDeep) || errors.Is(err, ErrIncomplete) || !strings.Contains(err.Error(), "too long") {
		t.Errorf("%v", err)
	}
	for _, paths := range [][]string{{"in"}, {"fine", "in/deep"}, {"in/deep/" + strings.Repeat("d", 255)}, {s.lower}} {
		if _, err := s.store.Apply(r, paths, Options{}); !errors.Is(err, ErrDeep) {
			t.Errorf("%.40q: %v", paths, err)
		}
	}
	var out strings.Builder
	must(t, Diff(&out, r, []string{"fine"}, DiffOptions{}))
	if !strings.Contains(out.String(), "at least 1 with paths that are too long to be kept, below "+s.lower+"/in/deep") {
		t.Error(out.String())
	}
	done, err := s.store.Apply(r, []string{"fine", "in/fine"}, Options{})
	if err != nil || done.Applied != 3 {
		t.Errorf("%+v, %v", done, err)
	}
	_, err = s.store.Apply(r, nil, Options{Force: true})
	must(t, err)
	s.want(t, "in/fine", "2")
}

func TestTheDirectoryOfAllThatIsTooLong(t *testing.T) {
	for _, c := range [][3]string{{"a/x", "a/y", "a"}, {"a", "b", ""}, {"ab", "a", ""}} {
		s := newScene(t, nil)
		for _, at := range c[:2] {
			build(t, s.upper, map[string]string{at + "/": ""})
			deepen(t, s.upper+"/"+at)
		}
		if set := s.read(t); set.Deep != 2 || set.DeepIn != c[2] {
			t.Errorf("%q: %d below %.40q", c, set.Deep, set.DeepIn)
		}
		r := s.keep(t)
		for _, at := range c[:2] {
			if _, err := s.store.Apply(r, []string{at}, Options{}); !errors.Is(err, ErrDeep) {
				t.Errorf("%q: %v", at, err)
			}
		}
	}
}

// deepen makes directories below dir, too deep for a path.
func deepen(t *testing.T, dir string) {
	t.Helper()
	at := openDir(t, dir)
	for n := strings.Count(dir, "/"); n < 40; n++ {
		name := strings.Repeat("d", 255)
		must(t, unix.Mkdirat(at, name, 0o755))
		next, err := unix.Openat(at, name, dirFlags|unix.O_CLOEXEC, 0)
		must(t, err)
		t.Cleanup(func() { _ = unix.Close(next) })
		at = next
	}
}
