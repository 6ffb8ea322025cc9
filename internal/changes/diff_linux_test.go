package changes

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func diffOf(t *testing.T, r *Run, o DiffOptions, paths ...string) string {
	t.Helper()
	if o.From == "" {
		o.From = r.m.Trees[0].Path
	}
	var out bytes.Buffer
	must(t, Diff(&out, r, paths, o))
	return out.String()
}

func TestDiff(t *testing.T) {
	s := newScene(t, map[string]string{"edit": "one\ntwo\nthree\n", "gone": "g\n", "mode": "m", "bin": "\x00a", "link@": "edit"}, map[string]string{"edit": "one\n2\x1b[31m\x9b\ttab\nthree", "new\n": "n\n", "mode": "m", "bin": "\x00b", "link@": "\x1b]0;x\a", "d/big": strings.Repeat("b", 100)})
	must(t, os.Chmod(s.upper+"/mode", 0o755))
	whiteout(t, s.upper+"/gone")
	r := s.keep(t)
	want := `M bin
A d/
A d/big
M edit
D gone
L link → "\033]0;x\a"
m mode 0644 → 0755
A "new\n"
`
	if got := diffOf(t, r, DiffOptions{}); got != want {
		t.Errorf("%s", got)
	}
	want = `M bin
Binary files a/bin and b/bin differ
A d/
A d/big
d/big: 100 bytes, more than a patch shows
M edit
diff a/edit b/edit
# escaped, so not for patch(1): \xNN is a byte, \uNNNN or \UNNNNNNNN a character, \\ a backslash
--- a/edit
+++ b/edit
@@ -1,3 +1,3 @@
 one
-two
-three
+2\x1b[31m\x9b	tab
+three
\ No newline at end of file
D gone
diff a/gone /dev/null
--- a/gone
+++ /dev/null
@@ -1,1 +0,0 @@
-g
L link → "\033]0;x\a"
m mode 0644 → 0755
A "new\n"
diff /dev/null "b/new\n"
--- /dev/null
+++ "b/new\n"
@@ -0,0 +1,1 @@
+n
`
	if got := diffOf(t, r, DiffOptions{Patch: true, Largest: 50}); got != want {
		t.Errorf("%s", got)
	}
	if got := diffOf(t, r, DiffOptions{}, "d", "gone"); got != "A d/\nA d/big\nD gone\n" {
		t.Errorf("%s", got)
	}
	if got := diffOf(t, r, DiffOptions{Patch: true, Total: 10}); got != "… and 8 more\n" {
		t.Errorf("%s", got)
	}
}

func TestDiffJSON(t *testing.T) {
	s := newScene(t, map[string]string{"a": "1"}, map[string]string{"a": "22", "bad\xff": "x"})
	var doc diffDocument
	must(t, json.Unmarshal([]byte(diffOf(t, s.keep(t), DiffOptions{JSON: true})), &doc))
	if doc.Version != 1 || len(doc.Changes) != 2 || doc.Summary != (Summary{Added: 1, Modified: 1, Bytes: 3}) || doc.Trees[0] != s.lower {
		t.Errorf("%+v", doc)
	}
	if c := doc.Changes[0]; c.Path != "a" || c.Kind != Modified || c.Mode != "0644" || c.OldSize != 1 || c.PathBytes != "" {
		t.Errorf("%+v", c)
	}
	if c := doc.Changes[1]; c.Path != "bad\ufffd" || c.PathBytes != "YmFk/w==" {
		t.Errorf("%+v", c)
	}
}

// A patch is of the real file of this moment, and follows no link to another.
func TestAPatchFollowsNothing(t *testing.T) {
	s := newScene(t, map[string]string{"a": "1\n", "d/b": "1\n"}, map[string]string{"a": "2\n", "d/b": "2\n"})
	r := s.keep(t)
	build(t, s.lower, map[string]string{"a": "meanwhile\n"})
	if got := diffOf(t, r, DiffOptions{Patch: true}, "a"); !strings.Contains(got, "-meanwhile") {
		t.Error(got)
	}
	build(t, s.lower, map[string]string{"secret/b": "secret\n"})
	must(t, os.Remove(s.lower+"/a"))
	must(t, os.Symlink("secret/b", s.lower+"/a"))
	must(t, os.RemoveAll(s.lower+"/d"))
	must(t, os.Symlink("secret", s.lower+"/d"))
	if got := diffOf(t, r, DiffOptions{Patch: true}); strings.Contains(got, "-secret") {
		t.Error(got)
	}
}

func TestDiffNamesWhatCanBeNamedFromHere(t *testing.T) {
	s := newScene(t, map[string]string{"gone": "g", "sub/file": "f"}, map[string]string{"gone": "2", "sub/file": "2", "-p": "option", "sub/two": "2"})
	r := s.keep(t)
	for _, c := range []struct{ name, from, want string }{
		{"the tree", s.lower, "A ./-p\nM gone\nM sub/file\nA sub/two\n"},
		{"above", filepath.Dir(s.lower), strings.ReplaceAll("A T/-p\nM T/gone\nM T/sub/file\nA T/sub/two\n", "T", filepath.Base(s.lower))},
		{"in it", s.lower + "/sub", "A ../-p\nM ../gone\nM file\nA two\n"},
		{"the root", "/", strings.ReplaceAll("A T/-p\nM T/gone\nM T/sub/file\nA T/sub/two\n", "T", s.lower[1:])},
		{"elsewhere", s.lower + "2", strings.ReplaceAll("A T/-p\nM T/gone\nM T/sub/file\nA T/sub/two\n", "T", s.lower)},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := diffOf(t, r, DiffOptions{From: c.from})
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			for line := range strings.Lines(got) {
				name := strings.TrimSuffix(line[2:], "\n")
				if !filepath.IsAbs(name) {
					name = filepath.Join(c.from, name)
				}
				if one := diffOf(t, r, DiffOptions{From: c.from}, name); one != line {
					t.Errorf("%q names %q", line, one)
				}
			}
		})
	}
	var out bytes.Buffer
	must(t, Diff(&out, r, nil, DiffOptions{}))
	if !strings.HasPrefix(out.String(), "A "+s.lower+"/-p\n") {
		t.Errorf("without a directory: %s", out.String())
	}
}

// What apply would do is in the line of the path.
func TestDiffShowsAllThatApplyDoes(t *testing.T) {
	s := newScene(t, map[string]string{"attr": "1", "edit": "1", "far": "1", "less": "1", "same": "1", "todir": "x"}, map[string]string{"attr": "1", "edit": "2", "far": "22", "less": "2", "same": "2", "new": "n", "open/": "", "plain/": "", "todir/": "", "wide": "w", "exec": "x", "group": "g", "suid": "s", "x (hard link of y)": "q", "secret": "s"})
	must(t, os.Remove(s.upper+"/far"))
	must(t, os.Link(s.upper+"/edit", s.upper+"/far"))
	for path, mode := range map[string]uint32{"open": 0o1777, "todir": 0o777, "wide": 0o666, "exec": 0o755, "group": 0o664, "suid": 0o4755, "secret": 0o444} {
		must(t, unix.Chmod(s.upper+"/"+path, mode))
	}
	for _, path := range []string{s.upper + "/attr", s.upper + "/edit", s.upper + "/new", s.upper + "/open", s.upper + "/same", s.lower + "/same", s.lower + "/less"} {
		setXattr(t, path, "user.note", "1")
	}
	r := s.keep(t)
	owner := func(text string) string { return text }
	if isRoot() {
		must(t, os.Lchown(s.upper+"/new", 12, 34))
		must(t, os.Lchown(s.upper+"/attr", 12, 34))
		must(t, os.Lchown(s.lower+"/same", 12, 34))
		r = s.keep(t)
	} else {
		owner = func(string) string { return "" }
	}
	equal(t, strings.Split(strings.TrimSpace(diffOf(t, r, DiffOptions{})), "\n"), []string{
		"m attr (attributes)" + owner(" (owner 12:34, was 0:0)"),
		"M edit (attributes)",
		"A exec",
		"M far (hard link of edit) (attributes)",
		"A group",
		"M less (attributes)",
		"A new (attributes)" + owner(" (owner 12:34)"),
		"A open/ 1777 (attributes)",
		"A plain/",
		"M same" + owner(" (owner 0:0, was 12:34)"),
		"A secret 0444",
		"A suid 4755 (set-id is not applied)",
		"M todir/ (file → dir) 0777",
		"A wide 0666",
		`A "x (hard link of y)"`,
	})
	var doc diffDocument
	must(t, json.Unmarshal([]byte(diffOf(t, r, DiffOptions{JSON: true}, "attr", "same", "less")), &doc))
	if c := doc.Changes[0]; !slices.Equal(c.Attributes, []string{"user.note"}) || !c.AttributesChanged || isRoot() && (c.UID != 12 || c.GID != 34 || *c.OldUID != 0) {
		t.Errorf("%+v", c)
	}
	if c := doc.Changes[1]; c.Attributes != nil || !c.AttributesChanged {
		t.Errorf("%+v", c)
	}
	if c := doc.Changes[2]; c.Attributes == nil || c.AttributesChanged || isRoot() && *c.OldGID != 34 {
		t.Errorf("%+v", c)
	}
}
