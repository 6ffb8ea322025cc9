package changes

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestSelection(t *testing.T) {
	s := newScene(t, map[string]string{"a": "1", "d/x": "1", "d/y": "1"}, map[string]string{"a": "2", "d/x": "2", "n/m/o": "o", "n/m/p": "p", "n/q": "q"})
	whiteout(t, s.upper+"/d/y")
	r := s.keep(t)
	if _, err := s.store.Apply(r, []string{"a", "nothing"}, Options{}); !errors.Is(err, ErrNoMatch) || !strings.Contains(err.Error(), "no change at nothing\nhint: ") {
		t.Error(err)
	}
	s.want(t, "a", "1")
	res, err := s.store.Apply(r, []string{filepath.Join(s.lower, "n/m/o")}, Options{})
	if err != nil || res.Applied != 3 {
		t.Error(res, err)
	}
	s.want(t, "n/m/o", "o")
	s.want(t, "n/m/p", "")
	s.want(t, "n/q", "")
	s.apply(t, r, "d")
	s.want(t, "d/x", "2")
	s.want(t, "d/y", "")
	s.want(t, "a", "1")
	n, err := s.store.Discard(r.ID(), "n/m")
	if err != nil || n != 1 {
		t.Error(n, err)
	}
	s.apply(t, r)
	s.want(t, "n/m/p", "")
	s.want(t, "n/q", "q")
	s.want(t, "a", "2")
	if _, err := s.store.Open(r.ID()); !errors.Is(err, ErrNoRun) {
		t.Error("the run is still there: ", err)
	}
	if _, err := s.store.Apply(r, nil, Options{}); !errors.Is(err, ErrNoRun) {
		t.Error(err)
	}
	litter(t, s.lower)
}

func TestConflicts(t *testing.T) {
	for name, c := range map[string]struct {
		path, reason string
		hard         bool
		do           func(t *testing.T, dir string)
	}{
		"content":   {"edit", "has other content", false, func(t *testing.T, d string) { build(t, d, map[string]string{"edit": "mine"}) }},
		"mode":      {"edit", "has another mode", false, func(t *testing.T, d string) { must(t, os.Chmod(d+"/edit", 0o600)) }},
		"gone":      {"edit", "is gone", false, func(t *testing.T, d string) { must(t, os.Remove(d+"/edit")) }},
		"there now": {"new", "there is a file now", false, func(t *testing.T, d string) { build(t, d, map[string]string{"new": "mine"}) }},
		"type": {"edit", "is a dir now, and was a file", false, func(t *testing.T, d string) {
			must(t, os.Remove(d+"/edit"))
			build(t, d, map[string]string{"edit/": ""})
		}},
		"link": {"link", "has other content", false, func(t *testing.T, d string) {
			must(t, os.Remove(d+"/link"))
			build(t, d, map[string]string{"link@": "z"})
		}},
		"below removed": {"tree/mine", "is in a directory that would go, and not in the run's record", false, func(t *testing.T, d string) { build(t, d, map[string]string{"tree/mine": "m"}) }},
		"parent gone":   {"dir/x", "its directory is gone", true, func(t *testing.T, d string) { must(t, os.RemoveAll(d+"/dir")) }},
		"link in path": {"dir/x", "there is a symbolic link in its path now", true, func(t *testing.T, d string) {
			must(t, os.Rename(d+"/dir", d+"/elsewhere"))
			must(t, os.Symlink("elsewhere", d+"/dir"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, map[string]string{"edit": "old", "tree/a": "a", "tree/b/c": "c", "link@": "x", "dir/x": "1"}, map[string]string{"edit": "new", "new": "n", "link@": "y", "dir/x": "2", "first": "1"})
			whiteout(t, s.upper+"/tree")
			r := s.keep(t)
			c.do(t, s.lower)
			before := snapshotPath(t, s.lower)
			var conflict *ConflictError
			_, err := s.store.Apply(r, nil, Options{})
			if !errors.As(err, &conflict) || len(conflict.Paths) != 1 || conflict.Paths[0] != (Conflict{s.lower + "/" + c.path, c.reason, c.hard}) {
				t.Errorf("%v", err)
			}
			if d := difference(before, snapshotPath(t, s.lower)); d != "" {
				t.Errorf("touched:\n%s", d)
			}
			_, err = s.store.Apply(r, nil, Options{Force: true})
			if c.hard {
				if !errors.As(err, &conflict) {
					t.Errorf("forced: %v", err)
				}
				return
			}
			must(t, err)
			s.want(t, "edit", "new")
			s.want(t, "new", "n")
			s.want(t, "tree/mine", "")
			litter(t, s.lower)
		})
	}
}

func TestWhatTheTreeHasAlreadyIsNoConflict(t *testing.T) {
	s := newScene(t, map[string]string{"edit": "old", "gone": "g", "mode": "m"}, map[string]string{"edit": "new", "mode": "m", "d/n": "n"})
	must(t, os.Chmod(s.upper+"/mode", 0o600))
	whiteout(t, s.upper+"/gone")
	r := s.keep(t)
	build(t, s.lower, map[string]string{"edit": "new", "d/n": "n"})
	must(t, os.Remove(s.lower+"/gone"))
	must(t, os.Chmod(s.lower+"/mode", 0o600))
	res, err := s.store.Apply(r, nil, Options{})
	if err != nil || res != (Result{Applied: 5}) {
		t.Error(res, err)
	}
}

func TestABaseThatWasChangedDuringTheRun(t *testing.T) {
	s := newScene(t, map[string]string{"a": "1"}, map[string]string{"a": "2"})
	id, _, err := s.store.Keep(Keeping{Start: time.Unix(0, 0), Trees: []Tree{s.tree}, Sets: []*Set{s.read(t)}})
	must(t, err)
	r, err := s.store.Open(id)
	must(t, err)
	defer r.Close()
	var conflict *ConflictError
	if _, err := s.store.Apply(r, nil, Options{}); !errors.As(err, &conflict) {
		t.Error(err)
	}
	s.want(t, "a", "1")
}

// protecting protects what has a name.
func protecting(name string) func(trees, dirs, names []string) func(string, Type) bool {
	return func([]string, []string, []string) func(string, Type) bool {
		return func(path string, _ Type) bool { return strings.HasSuffix(path, name) }
	}
}

func TestRefused(t *testing.T) {
	s := newScene(t, nil, map[string]string{"ok": "1", ".git/hooks/pre-commit": "evil", "bin": "x"})
	must(t, unix.Mkfifo(s.upper+"/pipe", 0o644))
	must(t, unix.Chmod(s.upper+"/bin", 0o6755))
	r := s.keep(t)
	hooks := protecting("/.git/hooks")
	var refused *RefusedError
	if _, err := s.store.Apply(r, nil, Options{Force: true, AllowProtected: true}); !errors.As(err, &refused) || len(refused.Paths) != 1 {
		t.Error(err)
	}
	_, err := s.store.Discard(r.ID(), "pipe")
	must(t, err)
	if _, err := s.store.Apply(r, nil, Options{Force: true, Protected: hooks}); !errors.As(err, &refused) || len(refused.Paths) != 2 {
		t.Error(err)
	}
	s.want(t, "ok", "")
	_, err = s.store.Apply(r, nil, Options{Protected: hooks, AllowProtected: true})
	must(t, err)
	s.want(t, ".git/hooks/pre-commit", "evil")
	var st unix.Stat_t
	must(t, unix.Stat(s.lower+"/bin", &st))
	if st.Mode&0o7777 != 0o755 {
		t.Errorf("mode %04o", st.Mode&0o7777)
	}
}

func TestMetadata(t *testing.T) {
	s := newScene(t, map[string]string{"edit": "old", "d/x": "x"}, map[string]string{"edit": "new", "n/f": "f", "l@": "nowhere"})
	setXattr(t, s.upper+"/edit", "user.note", "kept")
	setXattr(t, s.upper+"/edit", "user.overlay.origin", "never")
	must(t, os.Chmod(s.upper+"/n", 0o750))
	then := time.Unix(1e9, 123456789)
	for _, p := range []string{"edit", "n/f", "n"} {
		must(t, os.Chtimes(s.upper+"/"+p, then, then))
	}
	if isRoot() {
		must(t, os.Lchown(s.upper+"/n/f", 12, 34))
		must(t, os.Lchown(s.upper+"/l", 12, 34))
	}
	s.apply(t, s.keep(t))
	for _, p := range []string{"edit", "n/f", "n"} {
		if st, err := os.Stat(s.lower + "/" + p); err != nil || !st.ModTime().Equal(then) {
			t.Errorf("%s: %v %v", p, st.ModTime(), err)
		}
	}
	fd := openDir(t, s.lower)
	f, err := openFile(fd, "edit")
	must(t, err)
	defer unix.Close(f)
	all := make([]byte, 1000)
	n, err := unix.Flistxattr(f, all)
	if err != nil || string(all[:n]) != "user.note\x00" {
		t.Errorf("%q %v", all[:n], err)
	}
	if isRoot() {
		for _, p := range []string{"n/f", "l"} {
			dir, name := split(p)
			at := openDir(t, filepath.Join(s.lower, dir))
			if n, err := statAt(at, name); err != nil || n.uid != 12 || n.gid != 34 {
				t.Errorf("%s: %d:%d %v", p, n.uid, n.gid, err)
			}
		}
	}
}

// chmod of a file with other names, outside the tree perhaps, makes it one of its own.
func TestModeOfAHardLink(t *testing.T) {
	s := newScene(t, map[string]string{"a": "1"})
	outside := filepath.Join(filepath.Dir(s.lower), "outside")
	must(t, os.Link(s.lower+"/a", outside))
	build(t, s.upper, map[string]string{"a": "1"})
	must(t, os.Chmod(s.upper+"/a", 0o666))
	s.apply(t, s.keep(t))
	for path, want := range map[string]os.FileMode{outside: 0o644, s.lower + "/a": 0o666} {
		if st, err := os.Stat(path); err != nil || st.Mode() != want {
			t.Errorf("%s: %v %v", path, st.Mode(), err)
		}
	}
}

// What isn't the tree any more is said before anything about what is in it.
func TestALinkAtTheTreesPath(t *testing.T) {
	for name, o := range map[string]Options{"": {}, "forced": {Force: true}, "protected too": {AllowProtected: true}} {
		s := newScene(t, map[string]string{"a": "1"}, map[string]string{"a": "2"})
		r := s.keep(t)
		must(t, os.Rename(s.lower, s.lower+"2"))
		must(t, os.Symlink(s.lower+"2", s.lower))
		o.Protected = func(_, _, _ []string) func(string, Type) bool { return func(string, Type) bool { return true } }
		if _, err := s.store.Apply(r, nil, o); !errors.Is(err, unix.ELOOP) || !strings.Contains(err.Error(), "is now a symbolic link, or in one, and none is followed") {
			t.Errorf("%s: %v", name, err)
		}
		s.want(t, "../lower2/a", "1")
		// In the tree itself the protection counts.
		must(t, os.Remove(s.lower))
		must(t, os.Rename(s.lower+"2", s.lower))
		var refused *RefusedError
		if _, err := s.store.Apply(r, nil, o); errors.As(err, &refused) == o.AllowProtected {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnotherDirectoryAtTheTreesPath(t *testing.T) {
	s := newScene(t, map[string]string{"a": "1"}, map[string]string{"a": "2"})
	r := s.keep(t)
	must(t, os.Rename(s.lower, s.lower+".old"))
	must(t, os.Mkdir(s.lower, 0o755))
	build(t, s.lower, map[string]string{"a": "1"})
	if _, err := s.store.Apply(r, nil, Options{}); err == nil {
		t.Error("applied to another directory")
	}
	must(t, os.RemoveAll(s.lower))
	must(t, os.Rename(s.lower+".old", s.lower))
	s.apply(t, r)
	s.want(t, "a", "2")
}

// What is written while apply works isn't lost: the hook is the writer.
func TestAChangeWhileApplying(t *testing.T) {
	for point, write := range map[string]func(t *testing.T, dir string){
		"swap":   func(t *testing.T, dir string) { must(t, os.WriteFile(dir+"/edit", []byte("mine!"), 0o644)) },
		"remove": func(t *testing.T, dir string) { must(t, os.WriteFile(dir+"/tree/mine", []byte("mine!"), 0o644)) },
		"put":    func(t *testing.T, dir string) { must(t, os.WriteFile(dir+"/new", []byte("mine!"), 0o644)) },
	} {
		t.Run(point, func(t *testing.T) {
			s := newScene(t, map[string]string{"edit": "old", "tree/a": "a"}, map[string]string{"edit": "new", "new": "new"})
			whiteout(t, s.upper+"/tree")
			r := s.keep(t)
			wrote := map[string]string(nil)
			s.store.hook = func(at string) error {
				if at == point && wrote == nil {
					write(t, s.lower)
					wrote = map[string]string{"edit": "old", "tree/a": "a", "new": ""}
				}
				return nil
			}
			var conflict *ConflictError
			if _, err := s.store.Apply(r, nil, Options{}); !errors.As(err, &conflict) {
				t.Errorf("%v", err)
			}
			switch point {
			case "swap":
				wrote["edit"] = "mine!"
			case "remove":
				wrote["tree/mine"] = "mine!"
			case "put":
				wrote["new"] = "mine!"
			}
			for path, content := range wrote {
				s.want(t, path, content)
			}
			litter(t, s.lower)
		})
	}
}

func TestWhatTheRunsPolicyProtectsIsRefused(t *testing.T) {
	for name, protect := range map[string]string{"by its end": "deploy.sh", "a file": "/"} {
		s := newScene(t, nil, map[string]string{"ok": "1", "sub/deploy.sh": "evil"})
		if protect == "/" {
			protect = s.lower + "/sub/deploy.sh"
		}
		set, err := Read(s.tree, Limits{})
		must(t, err)
		id, _, err := s.store.Keep(Keeping{Start: time.Now(), Protect: []string{"x", protect}, Trees: []Tree{s.tree}, Sets: []*Set{set}})
		must(t, err)
		r, err := s.store.Open(id)
		must(t, err)
		defer r.Close()
		var refused *RefusedError
		if _, err := s.store.Apply(r, nil, Options{Force: true}); !errors.As(err, &refused) || len(refused.Paths) != 1 {
			t.Errorf("%s: %v", name, err)
		}
		s.want(t, "ok", "")
		s.apply(t, r, "ok")
		s.want(t, "ok", "1")
		_, err = s.store.Apply(r, nil, Options{AllowProtected: true})
		must(t, err)
		s.want(t, "sub/deploy.sh", "evil")
	}
}

// What only its owner closed is opened for as long as it takes; another's is not, and
// the error says which directory it is.
func TestADirectoryThatIsClosed(t *testing.T) {
	if isRoot() {
		t.Skip("root may write everywhere")
	}
	s := newScene(t, map[string]string{"mine/in": "old"}, map[string]string{"mine/in": "new", "mine/more": "more"})
	must(t, os.Chmod(s.lower+"/mine", 0o555))
	must(t, os.Chmod(s.upper+"/mine", 0o555))
	t.Cleanup(func() { _, _ = os.Chmod(s.lower+"/mine", 0o755), os.Chmod(s.upper+"/mine", 0o755) })
	modes := map[string]bool{}
	s.store.hook = func(string) error {
		st, err := os.Stat(s.lower + "/mine")
		must(t, err)
		modes[st.Mode().Perm().String()] = true
		return nil
	}
	s.apply(t, s.keep(t))
	s.want(t, "mine/in", "new")
	if st, err := os.Stat(s.lower + "/mine"); err != nil || st.Mode().Perm() != 0o555 || len(modes) != 2 || !modes["-rwxr-xr-x"] {
		t.Errorf("%v %v: %v", st.Mode(), err, modes)
	}
	// Nobody but root can make another's directory, so a step stands for one.
	a := &applying{trees: newTrees([]string{"/t"})}
	if err := a.notWritable(0, "theirs/in", unix.EACCES); !errors.Is(err, unix.EACCES) || !strings.Contains(err.Error(), "hint: this user may not write to /t/theirs: ") {
		t.Errorf("%v", err)
	}
}
