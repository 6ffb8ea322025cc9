package changes

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestStoreDir(t *testing.T) {
	for _, c := range []struct{ xdg, home, want string }{
		{"/x", "/h", "/x/confine/runs"}, {"", "/h", "/h/.local/state/confine/runs"}, {"relative", "/h", "/h/.local/state/confine/runs"}, {"", "", ""},
	} {
		got, err := StoreDir(func(k string) string { return map[string]string{"XDG_STATE_HOME": c.xdg, "HOME": c.home}[k] })
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%+v: %q %v", c, got, err)
		}
	}
}

func TestAStoreThatOthersMayWriteIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "confine", "runs")
	s, err := OpenStore(dir)
	must(t, err)
	must(t, s.Close())
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if st, err := os.Stat(d); err != nil || st.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v", d, st.Mode())
		}
		must(t, os.Chmod(d, 0o770))
		if _, err := OpenStore(d); d == dir && err == nil {
			t.Error("opened, though its group may write it")
		}
		if _, err := OpenStore(dir); err == nil {
			t.Errorf("opened, though the group may write %s", d)
		}
		must(t, os.Chmod(d, 0o700))
	}
	must(t, os.Rename(dir, dir+"2"))
	must(t, os.Symlink(dir+"2", dir))
	if _, err := OpenStore(dir); !errors.Is(err, unix.ELOOP) || !strings.Contains(err.Error(), "it is a symbolic link, and none is followed here\nhint: ") {
		t.Error("opened through a link: ", err)
	}
	if _, err := FindStore(dir); !errors.Is(err, unix.ELOOP) {
		t.Error("found through a link: ", err)
	}
	if isRoot() {
		must(t, os.Remove(dir))
		must(t, os.Rename(dir+"2", dir))
		must(t, os.Chown(dir, 1, 1))
		if _, err := OpenStore(dir); err == nil {
			t.Error("opened, though it is another's")
		}
	}
}

// Who only looks makes nothing, and finds nothing.
func TestAStoreThatIsNotThereIsEmpty(t *testing.T) {
	for _, made := range []string{"", "state", "state/confine", "state/confine/runs"} {
		top := t.TempDir()
		must(t, os.MkdirAll(filepath.Join(top, made), 0o700))
		s, err := FindStore(filepath.Join(top, "state", "confine", "runs"))
		must(t, err)
		if all, err := s.List(); err != nil || len(all) != 0 {
			t.Errorf("%v, %v", all, err)
		}
		recovered(t, s)
		if _, err := s.Latest(nil); !errors.Is(err, ErrNoRun) {
			t.Error(err)
		}
		const id = "20200101T000000-abcdef"
		if _, err := s.Open(id); !errors.Is(err, ErrNoRun) {
			t.Error(err)
		}
		if _, err := s.Discard(id); !errors.Is(err, ErrNoRun) {
			t.Error(err)
		}
		must(t, s.Close())
		if _, err := os.Lstat(filepath.Join(top, "state", "confine", "runs")); err == nil && made != "state/confine/runs" {
			t.Error("made")
		}
	}
	// One that others may write is no store, and isn't taken for an empty one.
	dir := filepath.Join(t.TempDir(), "state", "confine", "runs")
	must(t, os.MkdirAll(dir, 0o700))
	must(t, os.Chmod(dir, 0o777))
	if _, err := FindStore(dir); err == nil || errors.Is(err, ErrNoRun) {
		t.Error(err)
	}
}

func TestNothingInTheStoreIsButPlainFiles(t *testing.T) {
	s := newScene(t, map[string]string{"suid": "1"}, map[string]string{"suid": "22", "l@": "/etc/passwd", "d/f": "f", "hard": "h"})
	must(t, unix.Chmod(s.upper+"/suid", 0o6777))
	must(t, unix.Mkfifo(s.upper+"/pipe", 0o666))
	must(t, os.Link(s.upper+"/hard", s.upper+"/twice"))
	r := s.keep(t)
	files := 0
	must(t, filepath.WalkDir(s.store.path, func(path string, d fs.DirEntry, err error) error {
		must(t, err)
		info, err := d.Info()
		must(t, err)
		switch {
		case d.IsDir() && info.Mode() == fs.ModeDir|0o700:
		case info.Mode() == 0o600:
			files++
		default:
			t.Errorf("%s: %v", path, info.Mode())
		}
		return nil
	}))
	if files != 1+3 {
		t.Errorf("%d files", files)
	}
	if i := slices.IndexFunc(r.Entries(), func(e Entry) bool { return e.Path == "twice" }); i < 0 || r.Entries()[i].Link != "hard" {
		t.Errorf("%+v", r.Entries())
	}
}

func TestListLatestDiscard(t *testing.T) {
	s := newScene(t, nil)
	if _, err := s.store.Latest(nil); !errors.Is(err, ErrNoRun) {
		t.Error(err)
	}
	id, _, err := s.store.Keep(Keeping{Trees: []Tree{s.tree}, Sets: []*Set{s.read(t)}})
	if id != "" || err != nil {
		t.Error("nothing was kept as something: ", id, err)
	}
	build(t, s.upper, map[string]string{"a": "1", "b": "2"})
	one, two := s.keep(t), s.keep(t)
	if two.ID() < one.ID() { // both in one millisecond
		one, two = two, one
	}
	all, err := s.store.List()
	must(t, err)
	if len(all) != 2 || all[0].ID != two.ID() || all[1].ID != one.ID() || all[0].Summary.Added != 2 || all[0].Command[0] != "make" || all[0].Trees[0] != s.lower {
		t.Errorf("%+v", all)
	}
	if n, err := s.store.Discard(two.ID(), "a"); n != 1 || err != nil {
		t.Error(n, err)
	}
	r, err := s.store.Latest(nil)
	must(t, err)
	defer r.Close()
	if len(r.Entries()) != 1 || r.Entries()[0].Path != "b" {
		t.Errorf("%+v", r.Entries())
	}
	blobs, err := os.ReadDir(filepath.Join(s.store.path, two.ID(), blobsName))
	if err != nil || len(blobs) != 1 {
		t.Errorf("%v %v", blobs, err)
	}
	_, err = s.store.Discard(two.ID())
	must(t, err)
	if _, err := s.store.Open(two.ID()); !errors.Is(err, ErrNoRun) {
		t.Error(err)
	}
	for _, id := range []string{"", "..", "../x", one.ID() + "/", strings.ToUpper(one.ID())[:21] + "G", lockName} {
		if _, err := s.store.Open(id); !errors.Is(err, ErrNoRun) {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// What an interrupted Keep left goes with the next one, unless it is still at work.
func TestAnInterruptedKeep(t *testing.T) {
	s := newScene(t, nil, map[string]string{"a": "1"})
	var during []string
	s.store.hook = func(at string) error {
		if at != "finish keep" {
			return nil
		}
		// Another Keep, while this one isn't finished.
		s.store.hook = nil
		s.keep(t)
		must(t, names(s.store.fd, func(name string) error { during = append(during, name); return nil }))
		return nil
	}
	s.keep(t)
	if len(during) != 2 || !slices.ContainsFunc(during, func(n string) bool { return strings.HasPrefix(n, unfinished) }) {
		t.Errorf("%q", during)
	}
	if all, err := s.store.List(); len(all) != 2 || err != nil {
		t.Errorf("%v %v", all, err)
	}
	left := s.store.path + "/" + unfinished + "20200101T000000-000000"
	build(t, left, map[string]string{"blobs/1": "x"})
	s.keep(t)
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Error("not swept: ", err)
	}
	// One that fails leaves nothing, at any point.
	for n := 1; ; n++ {
		left, met := n, false
		s.store.hook = func(string) error {
			if left--; left == 0 {
				met = true
				return unix.ENOSPC
			}
			return nil
		}
		_, _, err := s.store.Keep(Keeping{Start: farFuture, Trees: []Tree{s.tree}, Sets: []*Set{s.read(t)}})
		if !met {
			must(t, err)
			break
		}
		if !errors.Is(err, unix.ENOSPC) {
			t.Error(n, err)
		}
		if all, err := s.store.List(); len(all) != 3 || err != nil {
			t.Errorf("%d: %v %v", n, all, err)
		}
		must(t, names(s.store.fd, func(name string) error {
			if strings.HasPrefix(name, unfinished) {
				t.Error("left: ", name)
			}
			return nil
		}))
	}
}

// A blob that isn't what was kept is never applied.
func TestASpoiltBlob(t *testing.T) {
	s := newScene(t, nil, map[string]string{"a": "1", "b": "22"})
	r := s.keep(t)
	must(t, os.WriteFile(filepath.Join(s.store.path, r.ID(), blobsName, r.Entries()[1].Blob), []byte("33"), 0o600))
	if _, err := s.store.Apply(r, nil, Options{}); err == nil {
		t.Error("applied")
	}
	s.want(t, "a", "")
	litter(t, s.lower)
}

func TestManyTrees(t *testing.T) {
	s, o := newScene(t, map[string]string{"a": "1"}), newScene(t, map[string]string{"b": "1"})
	build(t, s.upper, map[string]string{"a": "2"})
	build(t, o.upper, map[string]string{"b": "2", "c": "3"})
	r := keep(t, s.store, s.tree, o.tree)
	build(t, o.lower, map[string]string{"c": "mine"})
	if _, err := s.store.Apply(r, nil, Options{}); err == nil {
		t.Error("applied")
	}
	s.want(t, "a", "1")
	o.want(t, "b", "1")
	s.apply(t, r, o.lower+"/b")
	o.want(t, "b", "2")
	s.want(t, "a", "1")
	_, err := s.store.Apply(r, nil, Options{Force: true})
	must(t, err)
	s.want(t, "a", "2")
	o.want(t, "c", "3")
}

// More attributes than the kernel lists: that one file isn't kept, the rest is.
func TestTooManyAttributes(t *testing.T) {
	inMemory(t)
	s := newScene(t, map[string]string{"same": "1"}, map[string]string{"many": "1", "same": "1", "other": "1"})
	for i := range 400 {
		setXattr(t, s.upper+"/many", fmt.Sprintf("user.%0200d", i), "")
		setXattr(t, s.upper+"/same", fmt.Sprintf("user.%0200d", i), "")
	}
	equal(t, s.lines(t), []string{"A many", "A other", "m same (owner or attributes)"})
	r := s.keep(t)
	if _, partly, err := s.store.Keep(Keeping{Start: farFuture, Trees: []Tree{s.tree}, Sets: []*Set{s.read(t)}}); partly != 2 || err != nil {
		t.Errorf("%d, %v", partly, err)
	}
	var refused *RefusedError
	if _, err := s.store.Apply(r, nil, Options{}); !errors.As(err, &refused) || len(refused.Paths) != 2 {
		t.Error(err)
	}
	_, err := s.store.Discard(r.ID(), "many", "same")
	must(t, err)
	s.apply(t, r)
	s.want(t, "other", "1")
}

// A file of the largest size there is, made of a hole and a word.
func TestTheLargestFile(t *testing.T) {
	inMemory(t)
	s := newScene(t, nil, map[string]string{"other": "1"})
	for _, name := range []string{"huge", "end"} {
		f, err := os.Create(s.upper + "/" + name)
		must(t, err)
		size := int64(math.MaxInt64) // the kernel's bound; not every file system's
		for size > 0 && f.Truncate(size) != nil {
			size /= 2
		}
		at := int64(0)
		if name == "end" {
			at = size - 10
		}
		_, err = f.WriteAt([]byte("word"), at)
		must(t, err)
		must(t, f.Close())
	}
	build(t, s.lower, map[string]string{"end": "1"})
	equal(t, s.lines(t), []string{"M end", "A huge", "A other"})
	// A store that can't hold such a size keeps the others.
	disk, err := os.MkdirTemp("/var/tmp", "changes")
	must(t, err)
	defer os.RemoveAll(disk)
	s.store, err = OpenStore(disk + "/confine/runs")
	must(t, err)
	defer s.store.Close()
	r := s.keep(t)
	for _, e := range r.Entries() {
		if (e.Unkept == "") != (e.Blob != "") {
			t.Errorf("%+v", e)
		}
	}
	t.Logf("%d bytes: %q", r.Entries()[1].Size, r.Entries()[1].Unkept)
	s.apply(t, r, "other")
	s.want(t, "other", "1")
}
