package changes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func inodeOf(t *testing.T, path string) (ino uint64, links uint64) {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Lstat(path, &st))
	return st.Ino, uint64(st.Nlink)
}

func (s *scene) linked(t *testing.T, a, b string, want bool) {
	t.Helper()
	x, _ := inodeOf(t, filepath.Join(s.lower, a))
	y, _ := inodeOf(t, filepath.Join(s.lower, b))
	if (x == y) != want {
		t.Errorf("%s and %s are one file: %v", a, b, x == y)
	}
}

// A new name of a file that the run didn't write is one of the real file, if that is
// still what the run saw.
func TestNewNamesOfUnchangedFiles(t *testing.T) {
	for name, c := range map[string]struct {
		before  func(t *testing.T, s *scene) // between run and apply
		paths   []string
		options Options
		linked  bool
		copied  int
	}{
		"unchanged":       {linked: true},
		"only the name":   {paths: []string{"again", "d"}, linked: true},
		"written since":   {before: func(t *testing.T, s *scene) { build(t, s.lower, map[string]string{"old": "another"}) }, copied: 2},
		"of another mode": {before: func(t *testing.T, s *scene) { must(t, os.Chmod(s.lower+"/old", 0o600)) }, copied: 2},
		"lends rights":    {before: func(t *testing.T, s *scene) { must(t, unix.Chmod(s.lower+"/old", 0o2644)) }, copied: 2},
		"gone":            {before: func(t *testing.T, s *scene) { must(t, os.Remove(s.lower+"/old")) }, copied: 2},
		"a link since": {before: func(t *testing.T, s *scene) {
			must(t, os.Rename(s.lower+"/old", s.lower+"/o"))
			must(t, os.Symlink("o", s.lower+"/old"))
		}, copied: 2},
		"protected":         {options: Options{Protected: protecting("/old")}, copied: 2},
		"protected, wanted": {options: Options{AllowProtected: true, Protected: protecting("/old")}, linked: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, map[string]string{"old": "content"}, map[string]string{"old": "content", "d/": ""})
			must(t, os.Link(s.upper+"/old", s.upper+"/again"))
			must(t, os.Link(s.upper+"/old", s.upper+"/d/third"))
			equal(t, s.lines(t), []string{"A again (hard link of old)", "A d/", "A d/third (hard link of old)"})
			r := s.keep(t)
			if c.before != nil {
				c.before(t, s)
			}
			done, err := s.store.Apply(r, c.paths, c.options)
			must(t, err)
			// The first copy is what the second is a link of.
			if c.copied > 0 {
				c.copied = 1
			}
			if done.Copied != c.copied || done.Applied != 3 {
				t.Errorf("%+v", done)
			}
			s.want(t, "again", "content")
			s.want(t, "d/third", "content")
			s.linked(t, "again", "d/third", true)
			if n, err := os.Lstat(s.lower + "/old"); err == nil && n.Mode().IsRegular() {
				s.linked(t, "old", "again", c.linked)
			}
			litter(t, s.lower)
		})
	}
}

// Where what a link is of was dropped, nothing is left to be a link of, and that is told.
func TestALinkOfWhatWasDiscarded(t *testing.T) {
	s := newScene(t, nil)
	build(t, s.upper, map[string]string{"a": "1"})
	must(t, os.Link(s.upper+"/a", s.upper+"/b"))
	r := s.keep(t)
	_, err := s.store.Discard(r.ID(), "a")
	must(t, err)
	if done, err := s.store.Apply(r, nil, Options{}); err != nil || done.Copied != 1 {
		t.Errorf("%+v, %v", done, err)
	}
}

// The mode of what the new name is of changes as well, and the two stay one file.
func TestALinkOfAFileOfAnotherMode(t *testing.T) {
	for _, one := range []bool{true, false} {
		s := newScene(t, map[string]string{"old": "content"}, map[string]string{"old": "content"})
		must(t, os.Link(s.upper+"/old", s.upper+"/again"))
		must(t, os.Chmod(s.upper+"/old", 0o600))
		if !one { // then old becomes a file of its own
			must(t, os.Link(s.lower+"/old", filepath.Dir(s.lower)+"/outside"))
		}
		done, err := s.store.Apply(s.keep(t), nil, Options{})
		if err != nil || done.Copied != 0 {
			t.Errorf("%+v, %v", done, err)
		}
		s.linked(t, "old", "again", true)
		if st, err := os.Stat(s.lower + "/again"); err != nil || st.Mode() != 0o600 {
			t.Errorf("%v, %v", st.Mode(), err)
		}
		if !one {
			s.linked(t, "old", "../outside", false)
		}
	}
}

// What lends rights gets no second name, though it stays what it is.
func TestALinkOfAFileThatLendsRights(t *testing.T) {
	s := newScene(t, map[string]string{"old": "content"}, map[string]string{"old": "content"})
	must(t, os.Link(s.upper+"/old", s.upper+"/again"))
	must(t, unix.Chmod(s.lower+"/old", 0o2755))
	must(t, unix.Chmod(s.upper+"/old", 0o2700))
	done, err := s.store.Apply(s.keep(t), nil, Options{})
	if err != nil || done.Copied != 1 || done.NoSetID != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	s.linked(t, "old", "again", false)
	if x, y := modeOf(t, s.lower+"/old"), modeOf(t, s.lower+"/again"); x != 0o2700 || y != 0o700 {
		t.Errorf("%04o, %04o", x, y)
	}
}

// What fails afterwards takes the names away again, and the file stays as it was.
func TestALinkOfARealFileIsUndone(t *testing.T) {
	s := newScene(t, map[string]string{"old": "content"}, map[string]string{"old": "content", "zz": "z"})
	must(t, os.Link(s.upper+"/old", s.upper+"/again"))
	r := s.keep(t)
	puts := 0
	s.store.hook = func(point string) error {
		if point == "put" {
			if puts++; puts == 2 {
				if _, n := inodeOf(t, s.lower+"/old"); n != 2 {
					t.Errorf("%d links in between", n)
				}
				return unix.EDQUOT
			}
		}
		return nil
	}
	if _, err := s.store.Apply(r, nil, Options{}); err == nil {
		t.Error("applied")
	}
	if _, n := inodeOf(t, s.lower+"/old"); n != 1 {
		t.Errorf("%d links are left", n)
	}
	s.want(t, "old", "content")
	s.want(t, "again", "")
	litter(t, s.lower)
}

// Overlayfs parts a file from its other names when it is written to: so does apply, and
// both say it.
func TestWhereALinkIsParted(t *testing.T) {
	s := newScene(t, map[string]string{"a": "1", "m": "1"})
	must(t, os.Link(s.lower+"/a", s.lower+"/b"))
	must(t, os.Link(s.lower+"/m", s.lower+"/n"))
	build(t, s.upper, map[string]string{"a": "2", "m": "2"})
	whiteout(t, s.upper+"/n")
	r := s.keep(t)
	if got := diffOf(t, r, DiffOptions{}); !strings.HasPrefix(got, "M a (one of 2 hard links; the others stay as they are)\n") {
		t.Error(got)
	}
	done, err := s.store.Apply(r, nil, Options{})
	if err != nil || done.Parted != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	s.want(t, "a", "2")
	s.want(t, "b", "1")
	s.want(t, "m", "2")
	s.want(t, "n", "")
}
