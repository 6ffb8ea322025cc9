package changes

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

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
