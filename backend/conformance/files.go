package conformance

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/must"
)

// openFiles opens a sandbox that has files of its own.
func (s suite) openFiles(t *testing.T) (backend.Sandbox, backend.Files) {
	t.Helper()
	box := s.open(t)
	f := box.Files()
	if _, err := f.Stat("/tmp"); errors.Is(err, errors.ErrUnsupported) {
		t.Skip("it sees the caller's own files here")
	}
	return box, f
}

func put(t *testing.T, f backend.Files, name, text string) {
	t.Helper()
	w, err := f.Create(name, 0o600)
	if err == nil {
		_, err = io.WriteString(w, text)
		err = errors.Join(err, w.Close())
	}
	if err != nil {
		t.Error(err)
	}
}

func get(t *testing.T, f backend.Files, name string) string {
	t.Helper()
	r, err := f.Open(name)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

func all(t *testing.T, errs ...error) {
	t.Helper()
	for i, err := range errs {
		if err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
}

func (s suite) files(t *testing.T) {
	box, f := s.openFiles(t)
	put(t, f, "/tmp/in", "a long text to begin with")
	put(t, f, "/tmp/in", "from outside")
	if got := s.says(t, box, nil, "read", "/tmp/in"); got != "from outside" {
		t.Errorf("%q", got)
	}
	s.says(t, box, nil, "write", "/tmp/out", "from inside")
	r, err := f.Open("/tmp/out")
	must.Do(t, err)
	if got, err := io.ReadAll(r); err != nil || string(got) != "from inside" {
		t.Errorf("%q, %v", got, err)
	}
	r.Close()
	all(t, f.Mkdir("/tmp/dir", 0o700))
	list, err := f.List("/tmp")
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	for _, want := range []string{"in", "out", "dir"} {
		if err != nil || !slices.Contains(names, want) {
			t.Errorf("%q without %q, %v", names, want, err)
		}
	}
	if info, err := f.Stat("/tmp/dir/"); err != nil || !info.IsDir() {
		t.Error(info, err)
	}
	for _, err := range []error{f.Remove("/tmp/in"), f.Remove("/tmp/dir")} {
		if err != nil {
			t.Error(err)
		}
	}
	for what, err := range map[string]error{"removed": second(f.Stat("/tmp/in")), "never there": second(f.Open("/tmp/never")), "below nothing": f.Mkdir("/tmp/no/dir", 0o700)} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, err := range map[string]error{"a directory": second(f.Open("/tmp")), "the root": f.Remove("/")} {
		if err == nil {
			t.Errorf("%s was opened, or removed", what)
		}
	}
	Close(t, box)
	if _, err := f.Stat("/tmp"); err == nil {
		t.Error("files of a sandbox that is closed")
	}
}

func second[T any](_ T, err error) error { return err }

func (s suite) links(t *testing.T) {
	box, f := s.openFiles(t)
	put(t, f, "/tmp/file", "content")
	all(t, f.Mkdir("/tmp/dir", 0o700), f.Symlink("../file", "/tmp/dir/link"), f.Symlink("/tmp/dir", "/tmp/there"),
		f.Symlink("../../../../tmp/file", "/tmp/up"), f.Symlink("nowhere", "/tmp/dangling"), f.Symlink("round", "/tmp/round"))
	for _, name := range []string{"/tmp/dir/link", "/tmp/there/link", "/tmp/up", "/../../tmp/file"} {
		if got := get(t, f, name); got != "content" {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := s.says(t, box, nil, "read", "/tmp/there/link"); got != "content" {
		t.Errorf("from inside: %q", got)
	}
	if info, err := f.Stat("/tmp/there"); err != nil || !info.IsDir() {
		t.Error(info, err)
	}
	info, err := f.Lstat("/tmp/there")
	if err != nil || info.Mode().Type() != fs.ModeSymlink || info.Name() != "there" {
		t.Error(info, err)
	}
	if info, err := f.Lstat("/tmp/there/link"); err != nil || info.Mode().Type() != fs.ModeSymlink {
		t.Errorf("a link below a link: %v, %v", info, err)
	}
	if target, err := f.Readlink("/tmp/there/link"); err != nil || target != "../file" {
		t.Errorf("%q, %v", target, err)
	}
	if target, err := f.Readlink("/tmp/dangling"); err != nil || target != "nowhere" {
		t.Errorf("%q, %v", target, err)
	}
	for what, err := range map[string]error{"no link": second(f.Readlink("/tmp/file")), "a round": second(f.Open("/tmp/round")), "an empty target": f.Symlink("", "/tmp/empty"),
		"over a file": f.Symlink("x", "/tmp/file"), "a NUL byte": f.Symlink("a\x00b", "/tmp/nul"), "a name with a NUL byte": f.Symlink("a", "/tmp/n\x00l")} {
		if err == nil {
			t.Error(what)
		}
	}
	if _, err := f.Open("/tmp/dangling"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("dangling: %v", err)
	}
	all(t, f.Remove("/tmp/there"))
	if got := get(t, f, "/tmp/dir/link"); got != "content" {
		t.Errorf("a link was removed, and with it what it led to: %q", got)
	}
}

func (s suite) permissionsAndNames(t *testing.T) {
	box, f := s.openFiles(t)
	put(t, f, "/tmp/file", "content")
	all(t, f.Mkdir("/tmp/dir", 0o700), f.Symlink("/tmp/file", "/tmp/dir/link"), f.Chmod("/tmp/dir/link", 0o640), f.Chmod("/tmp/dir", 0o750))
	for name, want := range map[string]fs.FileMode{"/tmp/file": 0o640, "/tmp/dir": fs.ModeDir | 0o750} {
		if info, err := f.Stat(name); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	for _, perm := range []fs.FileMode{fs.ModeSetuid | 0o755, fs.ModeSetgid | 0o755, fs.ModeSticky | 0o755} {
		if err := f.Chmod("/tmp/file", perm); err == nil {
			t.Errorf("%v was set", perm)
		}
	}
	put(t, f, "/tmp/dir/other", "other")
	all(t, f.Rename("/tmp/file", "/tmp/dir/file"), f.Rename("/tmp/dir", "/tmp/moved"), f.Rename("/tmp/moved/other", "/tmp/moved/file"))
	if got := s.says(t, box, nil, "read", "/tmp/moved/file"); got != "other" {
		t.Errorf("renamed over: %q", got)
	}
	if target, err := f.Readlink("/tmp/moved/link"); err != nil || target != "/tmp/file" {
		t.Errorf("moved with its directory: %q, %v", target, err)
	}
	all(t, f.Rename("/tmp/moved/link", "/tmp/link"))
	if _, err := f.Lstat("/tmp/link"); err != nil {
		t.Errorf("a link that leads nowhere was not renamed: %v", err)
	}
	for what, err := range map[string]error{"what isn't there": f.Rename("/tmp/none", "/tmp/x"), "to where nothing is": f.Rename("/tmp/moved", "/tmp/no/where"),
		"chmod": f.Chmod("/tmp/none", 0o600)} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, err := range map[string]error{"the root": f.Rename("/", "/tmp/root"), "over the root": f.Rename("/tmp/moved", "/"), "into itself": f.Rename("/tmp/moved", "/tmp/moved/in"),
		"a directory over a file": f.Rename("/tmp/moved", "/tmp/link")} {
		if err == nil {
			t.Error(what)
		}
	}
}

// until waits for events, in whatever order, and gives all that came.
func until(t *testing.T, w backend.Watcher, want ...backend.FileEvent) (seen []backend.FileEvent) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		missing := slices.DeleteFunc(slices.Clone(want), func(e backend.FileEvent) bool { return slices.Contains(seen, e) })
		if len(missing) == 0 {
			return seen
		}
		events, err := w.Next(ctx)
		if err != nil {
			t.Fatalf("%v, after %v without %v", err, seen, missing)
		}
		seen = append(seen, events...)
	}
}

func (s suite) watching(t *testing.T) {
	box, f := s.openFiles(t)
	all(t, f.Mkdir("/tmp/top", 0o700), f.Mkdir("/tmp/top/old", 0o700), f.Symlink("/tmp", "/tmp/top/out"))
	flat, err := f.Watch("/tmp/top", false)
	must.Do(t, err)
	defer flat.Close()
	deep, err := f.Watch("/tmp/top", true)
	must.Do(t, err)
	defer deep.Close()
	brief, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if events, err := deep.Next(brief); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nothing has happened: %v, %v", events, err)
	}
	put(t, f, "/tmp/aside", "not below")
	s.says(t, box, nil, "write", "/tmp/top/old/file", "from inside")
	until(t, deep, backend.FileEvent{Op: backend.FileCreated, Name: "old/file"}, backend.FileEvent{Op: backend.FileWritten, Name: "old/file"})
	all(t, f.Mkdir("/tmp/top/new", 0o700))
	put(t, f, "/tmp/top/new/file", "x")
	until(t, deep, backend.FileEvent{Op: backend.FileCreated, Name: "new/file"})
	all(t, f.Rename("/tmp/top/new", "/tmp/top/other"), f.Mkdir("/tmp/top/other/below", 0o700))
	until(t, deep, backend.FileEvent{Op: backend.FileCreated, Name: "other/below"})
	all(t, f.Chmod("/tmp/top/old", 0o755), f.Remove("/tmp/top/out"))
	until(t, deep, backend.FileEvent{Op: backend.FileRemoved, Name: "out"})
	seen := until(t, flat, backend.FileEvent{Op: backend.FileCreated, Name: "new"}, backend.FileEvent{Op: backend.FileRenamed, Name: "new"},
		backend.FileEvent{Op: backend.FileCreated, Name: "other"}, backend.FileEvent{Op: backend.FileChmod, Name: "old"}, backend.FileEvent{Op: backend.FileRemoved, Name: "out"})
	for _, e := range seen {
		if !slices.Contains([]string{"new", "other", "old", "out"}, e.Name) {
			t.Errorf("told from elsewhere: %v", e)
		}
	}
	for what, err := range map[string]error{"a file": second(f.Watch("/tmp/aside", false)), "nothing": second(f.Watch("/tmp/none", true))} {
		if err == nil {
			t.Errorf("%s is watched", what)
		}
	}
	var many []backend.Watcher
	for err == nil && len(many) < 100 {
		var w backend.Watcher
		if w, err = f.Watch("/tmp", false); err == nil {
			many = append(many, w)
		}
	}
	if !errors.Is(err, syscall.EMFILE) || len(many) < 10 {
		t.Errorf("%d watchers, %v", len(many), err)
	}
	for _, w := range many {
		all(t, w.Close())
	}
	all(t, f.Mkdir("/tmp/gone", 0o700))
	gone, err := f.Watch("/tmp/gone", true)
	must.Do(t, err)
	defer gone.Close()
	all(t, f.Remove("/tmp/gone"))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for err = nil; err == nil; {
		_, err = gone.Next(ctx)
	}
	if err != io.EOF {
		t.Errorf("the directory was removed: %v", err)
	}
	Close(t, box)
	for err = nil; err == nil; {
		_, err = deep.Next(ctx)
	}
	if !errors.Is(err, backend.ErrClosed) {
		t.Errorf("the sandbox was closed: %v", err)
	}
}
