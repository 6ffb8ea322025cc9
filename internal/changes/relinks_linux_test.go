package changes

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// three is a run that left one file with the names a, b and d/c.
func three(t *testing.T, lower map[string]string) (*scene, *Run) {
	t.Helper()
	s := newScene(t, lower, map[string]string{"a": "x", "d/": ""})
	must(t, os.Link(s.upper+"/a", s.upper+"/b"))
	must(t, os.Link(s.upper+"/a", s.upper+"/d/c"))
	return s, s.keep(t)
}

func (s *scene) applyEach(t *testing.T, r *Run, paths ...string) {
	t.Helper()
	for _, p := range paths {
		done, err := s.store.Apply(r, []string{p}, Options{})
		if err != nil || done.Copied != 0 {
			t.Errorf("%s: %+v, %v", p, done, err)
		}
	}
}

func TestNamesOfOneFileAreLinkedInAnyOrder(t *testing.T) {
	for _, lower := range []map[string]string{nil, {"a": "old"}, {"b": "old"}, {"a": "old", "b": "old", "d/c": "older"}} {
		for order := range strings.SplitSeq("a b d,a d b,b a d,b d a,d a b,d b a", ",") {
			s, r := three(t, lower)
			s.applyEach(t, r, strings.Fields(order)...)
			for _, name := range []string{"a", "b", "d/c"} {
				s.want(t, name, "x")
			}
			s.linked(t, "a", "b", true)
			s.linked(t, "a", "d/c", true)
			if _, n := inodeOf(t, s.lower+"/a"); n != 3 {
				t.Errorf("%s: %d links", order, n)
			}
			litter(t, s.lower)
		}
	}
}

// What was applied before is linked to as long as it is still that.
func TestWhatIsAppliedLaterIsALinkOfWhatIsStillThere(t *testing.T) {
	for name, c := range map[string]struct {
		between func(t *testing.T, s *scene, r *Run) // after b, and before a
		options Options
		linked  bool
	}{
		"still there": {linked: true},
		"written": {between: func(t *testing.T, s *scene, _ *Run) {
			must(t, os.WriteFile(s.lower+"/b", []byte("y"), 0o644))
		}},
		"lends rights":   {between: func(t *testing.T, s *scene, _ *Run) { must(t, unix.Chmod(s.lower+"/b", 0o2644)) }},
		"has attributes": {between: func(t *testing.T, s *scene, _ *Run) { setXattr(t, s.lower+"/b", "user.x", "1") }},
		"a link": {between: func(t *testing.T, s *scene, _ *Run) {
			must(t, os.Rename(s.lower+"/b", s.lower+"/other"))
			must(t, os.Symlink("other", s.lower+"/b"))
		}},
		"protected":         {options: Options{Protected: protecting("/b")}},
		"protected, wanted": {options: Options{Protected: protecting("/b"), AllowProtected: true}, linked: true},
		"the first name dropped": {between: func(t *testing.T, s *scene, r *Run) {
			_, err := s.store.Discard(r.ID(), "a")
			must(t, err)
			build(t, s.lower, map[string]string{"a": "mine"})
		}, linked: true},
	} {
		t.Run(name, func(t *testing.T) {
			s, r := three(t, nil)
			s.applyEach(t, r, "b")
			if c.between != nil {
				c.between(t, s, r)
			}
			done, err := s.store.Apply(r, []string{"d"}, c.options)
			must(t, err)
			if done.Copied != 0 {
				t.Errorf("%+v", done) // a comes later, and is linked then
			}
			s.want(t, "d/c", "x")
			if _, err := os.Lstat(s.lower + "/b"); err == nil {
				s.linked(t, "b", "d/c", c.linked)
			}
			if name == "the first name dropped" {
				s.want(t, "a", "mine")
				return
			}
			if done, err := s.store.Apply(r, []string{"a"}, c.options); err != nil || done.Copied != 0 {
				t.Errorf("%+v, %v", done, err)
			}
			s.linked(t, "a", "d/c", true)
		})
	}
}

// Where nothing is left to be linked to, that is told.
func TestALinkThatNothingIsLeftOf(t *testing.T) {
	s, r := three(t, nil)
	s.applyEach(t, r, "a", "b")
	for _, name := range []string{"a", "b"} {
		must(t, os.Remove(s.lower+"/"+name))
		must(t, os.WriteFile(s.lower+"/"+name, []byte("y"), 0o644))
	}
	done, err := s.store.Apply(r, nil, Options{})
	if err != nil || done.Copied != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	s.want(t, "d/c", "x")
	s.linked(t, "a", "d/c", false)
	// Of two that were applied one is enough.
	s, r = three(t, nil)
	s.applyEach(t, r, "a", "b")
	must(t, os.Remove(s.lower+"/a"))
	s.applyEach(t, r, "d")
	s.linked(t, "b", "d/c", true)
}

func TestDiffNamesWhatWasAppliedBefore(t *testing.T) {
	s, r := three(t, map[string]string{"a": "old"})
	if got := diffOf(t, r, DiffOptions{}, "a"); got != "M a\n" {
		t.Error(got)
	}
	s.applyEach(t, r, "b")
	if got := diffOf(t, r, DiffOptions{}); got != "M a (hard link of b)\nA d/\nA d/c (hard link of a)\n" {
		t.Error(got)
	}
	if got := diffOf(t, r, DiffOptions{JSON: true}, "a"); !strings.Contains(got, `"hard_link":"b"`) {
		t.Error(got)
	}
}

// A mode alone of a file that has new names: with the mode first these are links of it, and the
// other way round it becomes one of them.
func TestANewModeAndANewNameInAnyOrder(t *testing.T) {
	for _, order := range []string{"old z", "z old", "z y old", "y old z"} {
		s := newScene(t, map[string]string{"old": "content"}, map[string]string{"old": "content"})
		must(t, os.Chmod(s.upper+"/old", 0o600))
		must(t, os.Link(s.upper+"/old", s.upper+"/z"))
		must(t, os.Link(s.upper+"/old", s.upper+"/y"))
		s.applyEach(t, s.keep(t), strings.Fields(order)...)
		s.linked(t, "old", "z", true)
		if mode := modeOf(t, s.lower+"/old"); mode != 0o600 {
			t.Errorf("%s: %04o", order, mode)
		}
	}
	// Not by way of what has changed since, and no content is lost.
	s := newScene(t, map[string]string{"old": "content"}, map[string]string{"old": "content"})
	must(t, os.Chmod(s.upper+"/old", 0o600))
	must(t, os.Link(s.upper+"/old", s.upper+"/z"))
	r := s.keep(t)
	s.applyEach(t, r, "z")
	must(t, os.WriteFile(s.lower+"/old", []byte("another"), 0o644))
	_, err := s.store.Apply(r, nil, Options{Force: true})
	must(t, err)
	s.want(t, "old", "another")
	s.want(t, "z", "content")
}

// An apply that somebody else finishes leaves the names as well.
func TestAFinishedApplyIsRemembered(t *testing.T) {
	for _, at := range []string{"write manifest.json", "drop journal.staging.new"} {
		s, r := three(t, nil)
		s.store.hook = func(point string) error {
			if point == at {
				panic(at)
			}
			return nil
		}
		func() {
			defer func() { _ = recover() }()
			_, _ = s.store.Apply(r, []string{"b"}, Options{})
		}()
		s.store.hook = nil
		recovered(t, s.store)
		fresh, err := s.store.Open(r.ID())
		must(t, err)
		s.applyEach(t, fresh, "d", "a")
		must(t, fresh.Close())
		s.linked(t, "b", "d/c", true)
		s.linked(t, "b", "a", true)
	}
}

// More names than are remembered cost a record no more than those, and are still linked.
func TestManyNamesThatWereAppliedBefore(t *testing.T) {
	inMemory(t)
	s := newScene(t, nil, map[string]string{"a": "x", "d/": ""})
	for _, n := range strings.Split("bcdefghijklmnopq", "") {
		must(t, os.Link(s.upper+"/a", s.upper+"/d/"+n))
	}
	r := s.keep(t)
	s.applyEach(t, r, "d")
	if e := r.Entries(); len(e) != 1 || len(e[0].Linked) != maxLinked {
		t.Errorf("%+v", e)
	}
	s.applyEach(t, r, "a")
	s.linked(t, "a", "d/b", true)
}
