package changes

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

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
