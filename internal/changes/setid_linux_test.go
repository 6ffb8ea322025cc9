package changes

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func modeOf(t *testing.T, path string) uint32 {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Lstat(path, &st))
	return st.Mode & 0o7777
}

func TestSetIDBits(t *testing.T) {
	type entry struct {
		old, new uint32 // old 0: not there
		content  bool   // another one
		dir      bool
		link     bool // of the real file there is another name
		want     uint32
		line     string
		result   Result
	}
	const left = " (set-id is not applied)"
	for name, c := range map[string]entry{
		"new file":                  {new: 0o2755, want: 0o755, line: "A x 2755" + left, result: Result{Applied: 1, NoSetID: 1}},
		"added":                     {old: 0o755, new: 0o6755, want: 0o755, line: "m x 0755 → 6755" + left, result: Result{NoSetID: 1, Nothing: 1}},
		"added with another":        {old: 0o755, new: 0o2700, want: 0o700, line: "m x 0755 → 2700" + left, result: Result{Applied: 1, NoSetID: 1}},
		"kept":                      {old: 0o2755, new: 0o2700, want: 0o2700, line: "m x 2755 → 2700", result: Result{Applied: 1}},
		"kept beside other names":   {old: 0o2755, new: 0o2700, link: true, want: 0o2700, line: "m x 2755 → 2700 (one of 2 hard links; the others stay as they are)", result: Result{Applied: 1, Parted: 1}},
		"one of them kept":          {old: 0o2755, new: 0o6755, want: 0o2755, line: "m x 2755 → 6755" + left, result: Result{NoSetID: 1, Nothing: 1}},
		"taken off":                 {old: 0o6755, new: 0o755, want: 0o755, line: "m x 6755 → 0755", result: Result{Applied: 1}},
		"content changed":           {old: 0o2755, new: 0o2755, content: true, want: 0o755, line: "M x 2755" + left, result: Result{Applied: 1, NoSetID: 1}},
		"content changed, sticky":   {old: 0o644, new: 0o1644, content: true, want: 0o1644, line: "M x 0644 → 1644", result: Result{Applied: 1}},
		"new directory":             {new: 0o2755, dir: true, want: 0o2755, line: "A x/ 2755", result: Result{Applied: 1}},
		"directory":                 {old: 0o755, new: 0o2755, dir: true, want: 0o2755, line: "m x/ 0755 → 2755", result: Result{Applied: 1}},
		"directory with set-uid":    {old: 0o755, new: 0o4755, dir: true, want: 0o755, line: "m x/ 0755 → 4755" + left, result: Result{NoSetID: 1, Nothing: 1}},
		"new directory and set-uid": {new: 0o6755, dir: true, want: 0o2755, line: "A x/ 6755" + left, result: Result{Applied: 1, NoSetID: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, nil)
			file := "x"
			if c.dir {
				file = "x/"
			}
			if c.old != 0 {
				build(t, s.lower, map[string]string{file: "same"})
				must(t, unix.Chmod(s.lower+"/x", c.old))
				if c.link {
					must(t, os.Link(s.lower+"/x", s.lower+"/y"))
				}
			}
			content := "same"
			if c.content {
				content = "other"
			}
			build(t, s.upper, map[string]string{file: content})
			must(t, unix.Chmod(s.upper+"/x", c.new))
			if modeOf(t, s.upper+"/x") != c.new {
				t.Skip("this file system doesn't keep the bits")
			}
			r := s.keep(t)
			if got := diffOf(t, r, DiffOptions{}); got != c.line+"\n" {
				t.Errorf("%q, want %q", got, c.line)
			}
			if got, want := strings.Contains(diffOf(t, r, DiffOptions{JSON: true}), `"set_id_left_out":true`), strings.HasSuffix(c.line, left); got != want {
				t.Errorf("in JSON: %v", got)
			}
			done, err := s.store.Apply(r, nil, Options{})
			if err != nil || done != c.result {
				t.Errorf("%+v, want %+v, %v", done, c.result, err)
			}
			if got := modeOf(t, s.lower+"/x"); got != c.want {
				t.Errorf("mode %04o, want %04o", got, c.want)
			}
		})
	}
}

// Attributes alone don't cost a file its bits; another owner does.
func TestSetIDBitsOfAnotherOwner(t *testing.T) {
	for owner, want := range map[int]uint32{0: 0o4755, 12: 0o755} {
		if !isRoot() {
			t.Skip("takes root")
		}
		s := newScene(t, map[string]string{"x": "same"}, map[string]string{"x": "same"})
		setXattr(t, s.upper+"/x", "user.note", "new")
		must(t, os.Chown(s.upper+"/x", owner, 0))
		must(t, unix.Chmod(s.upper+"/x", 0o4755))
		must(t, unix.Chmod(s.lower+"/x", 0o4755))
		done, err := s.store.Apply(s.keep(t), nil, Options{})
		if err != nil || done.Applied != 1 || (done.NoSetID != 0) != (want == 0o755) {
			t.Errorf("%+v, %v", done, err)
		}
		if got := modeOf(t, s.lower+"/x"); got != want {
			t.Errorf("owner %d: mode %04o, want %04o", owner, got, want)
		}
	}
}

// Who takes the bits off between the check and the step has taken them off.
func TestSetIDBitsThatWentMeanwhile(t *testing.T) {
	s := newScene(t, map[string]string{"x": "same"}, map[string]string{"x": "same"})
	must(t, unix.Chmod(s.upper+"/x", 0o2700))
	must(t, unix.Chmod(s.lower+"/x", 0o2755))
	r := s.keep(t)
	s.store.hook = func(point string) error {
		if point == "mode" {
			must(t, unix.Chmod(s.lower+"/x", 0o755))
		}
		return nil
	}
	s.apply(t, r)
	if got := modeOf(t, s.lower+"/x"); got != 0o700 {
		t.Errorf("mode %04o", got)
	}
}
