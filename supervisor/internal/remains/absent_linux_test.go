package remains

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/plan"
)

// removeAbsent gives what was removed, and what was not.
func removeAbsent(paths, clear []string) (removed, left []string) {
	r := Remains{uid: uint32(os.Geteuid()), gid: uint32(os.Getegid())}
	r.absent(paths, clear)
	for _, t := range r.all {
		if t.left || t.aside != "" {
			left = append(left, t.path)
		} else {
			removed = append(removed, t.path)
		}
	}
	return removed, left
}

func TestRemoveAbsent(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must.Do(t, err)
	outside := filepath.Join(dir, "outside")
	tree := filepath.Join(dir, "tree")
	for _, d := range []string{outside, filepath.Join(tree, ".vscode", "deep", "er"), filepath.Join(tree, "locked")} {
		must.Do(t, os.MkdirAll(d, 0o755))
	}
	write := func(path string) string {
		t.Helper()
		must.Do(t, os.WriteFile(path, []byte("x"), 0o644))
		return path
	}
	kept := write(filepath.Join(outside, "hooks"))
	write(filepath.Join(tree, ".envrc"))
	write(filepath.Join(tree, ".vscode", "deep", "er", "tasks.json"))
	write(filepath.Join(tree, "locked", "file"))
	must.Do(t, os.Chmod(filepath.Join(tree, "locked"), 0))
	// A directory on the way became a link out of the tree.
	must.Do(t, os.Symlink(outside, filepath.Join(tree, ".git")))
	// The protected file itself became a link: the link goes, not what it names.
	must.Do(t, os.Symlink(kept, filepath.Join(tree, ".bashrc")))
	paths := []string{".envrc", ".vscode", "locked", ".git/hooks", ".bashrc", "never-there", "no/such/dir"}
	for i, p := range paths {
		paths[i] = filepath.Join(tree, p)
	}
	removed, left := removeAbsent(paths, nil)
	if len(left) != 0 {
		t.Errorf("could not remove %q", left)
	}
	want := []string{paths[0], paths[1], paths[2], paths[4]}
	if !slices.Equal(removed, want) {
		t.Errorf("removed %q, want %q", removed, want)
	}
	for _, p := range want {
		if _, err := os.Lstat(p); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", p, err)
		}
	}
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("followed a link: %v", err)
	}
}

// A target runs as the caller, and can take permissions away.
func TestRemoveAbsentWhereATargetStoodInTheWay(t *testing.T) {
	tree, err := filepath.EvalSymlinks(t.TempDir())
	must.Do(t, err)
	deep := filepath.Join(tree, ".vscode", strings.Repeat("d/", 300), "task")
	must.Do(t, os.MkdirAll(deep, 0o755))
	must.Do(t, os.WriteFile(filepath.Join(tree, ".envrc"), nil, 0o600))
	for _, d := range []string{filepath.Join(tree, ".vscode", "d"), filepath.Join(tree, ".vscode"), tree} {
		must.Do(t, os.Chmod(d, 0o555))
	}
	t.Cleanup(func() { os.Chmod(tree, 0o755) })
	// Far fewer descriptors than levels.
	var old unix.Rlimit
	must.Do(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	must.Do(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 64, Max: old.Max}))
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &old)
	want := []string{filepath.Join(tree, ".envrc"), filepath.Join(tree, ".vscode")}
	removed, left := removeAbsent(want, nil)
	if !slices.Equal(removed, want) || len(left) != 0 {
		t.Errorf("removed %q, left %q", removed, left)
	}
	rest, err := os.ReadDir(tree)
	if err != nil || len(rest) != 0 {
		t.Errorf("still there: %v %v", rest, err)
	}
	if st, err := os.Stat(tree); err != nil || st.Mode().Perm() != 0o555 {
		t.Errorf("the tree's own mode: %v %v", st.Mode(), err)
	}
}

// What leads to a protected path must not lead elsewhere.
func TestRemoveAbsentTakesAwayWhatLeadsAround(t *testing.T) {
	tree, err := filepath.EvalSymlinks(t.TempDir())
	must.Do(t, err)
	in := func(name string) string { return filepath.Join(tree, name) }
	for _, d := range []string{"x/hooks", ".real"} {
		must.Do(t, os.MkdirAll(in(d), 0o755))
	}
	must.Do(t, os.Symlink("x", in(".config")))
	for _, f := range []string{".git", "x/fish", ".real/hooks"} {
		must.Do(t, os.WriteFile(in(f), []byte("gitdir: x"), 0o600))
	}
	paths := []string{in(".config/fish"), in(".git/config"), in(".real/hooks"), in(".none/x")}
	clear := []string{in(".config"), in(".git"), in(".real"), in(".none")}
	removed, left := removeAbsent(paths, clear)
	if want := []string{in(".config"), in(".git"), in(".real/hooks")}; !slices.Equal(removed, want) || len(left) != 0 {
		t.Errorf("removed %q, left %q; want %q", removed, left, want)
	}
	for _, kept := range []string{"x/hooks", "x/fish", ".real"} {
		if _, err := os.Stat(in(kept)); err != nil {
			t.Errorf("%v: it is no protected path", err)
		}
	}
}

// What the target leaves is removed however deep, wide and closed it is, and by way of no
// name that it could have taken.
func TestRemoveAbsentRemovesAnyTree(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	must.Do(t, err)
	hooks := filepath.Join(top, "hooks")
	for i := range 60 {
		must.Do(t, os.MkdirAll(filepath.Join(hooks, "d"+strconv.Itoa(i), "e", "f"), 0o700))
	}
	must.Do(t, os.WriteFile(filepath.Join(hooks, "d7", "e", "pre-commit"), []byte("x"), 0o755))
	must.Do(t, os.WriteFile(filepath.Join(hooks, "pre-commit"), []byte("x"), 0o755))
	must.Do(t, os.Symlink("nowhere", filepath.Join(hooks, "d8", "link")))
	// Deeper than any path is long.
	at, err := unix.Open(hooks, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must.Do(t, err)
	for range 3000 {
		must.Do(t, unix.Mkdirat(at, "deep", 0o700))
		below, err := unix.Openat(at, "deep", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		must.Do(t, err)
		must.Do(t, unix.Close(at))
		at = below
	}
	must.Do(t, unix.Close(at))
	for _, d := range []string{"d1/e", "d1", "d2/e/f", "d2", ""} {
		must.Do(t, os.Chmod(filepath.Join(hooks, d), 0))
	}
	must.Do(t, os.Chmod(top, 0o500))
	defer func() { _ = os.Chmod(top, 0o700) }()
	removed, left := removeAbsent([]string{hooks}, nil)
	if len(removed) != 1 || len(left) != 0 {
		t.Errorf("removed %q, left %q", removed, left)
	}
	names, err := os.ReadDir(top)
	must.Do(t, err)
	if len(names) != 0 {
		t.Errorf("there is still %v", names)
	}
}

// The target may close the tree itself, and what is on the way; that is no way to keep something.
// It is as closed as before then.
func TestRemoveAbsentOpensWhatWasClosed(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	must.Do(t, err)
	tree := filepath.Join(top, "tree")
	dirs := []string{tree, filepath.Join(tree, ".git"), filepath.Join(tree, ".config", "fish")}
	for _, d := range dirs {
		must.Do(t, os.MkdirAll(d, 0o755))
	}
	paths := []string{filepath.Join(tree, ".envrc"), filepath.Join(tree, ".git", "hooks"), filepath.Join(tree, ".config", "fish", "config.fish")}
	for _, p := range paths {
		must.Do(t, os.WriteFile(p, nil, 0o644))
	}
	modes := []os.FileMode{0, 0o111, 0o400}
	for i := range dirs {
		must.Do(t, os.Chmod(dirs[len(dirs)-1-i], modes[i]))
	}
	t.Cleanup(func() { _ = os.Chmod(tree, 0o700) })
	removed, left := removeAbsent(append([]string{filepath.Join(tree, ".mvn", "jvm.config")}, paths...), nil)
	if len(left) != 0 || !slices.Equal(removed, paths) {
		t.Errorf("removed %q, left %q", removed, left)
	}
	for i := range dirs { // the uppermost first, opened for the next
		d := dirs[i]
		fi, err := os.Lstat(d)
		if err != nil || fi.Mode().Perm() != modes[len(dirs)-1-i] {
			t.Errorf("%s: %v, want mode %o", d, fi.Mode(), modes[len(dirs)-1-i])
		}
		must.Do(t, os.Chmod(d, 0o700))
	}
}

// What stands where something protected stood is told from it by its number and its birth: numbers are used again.
func TestWhatTookTheProtectedPlaceIsRenamed(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must.Do(t, err)
	var list []plan.Covered
	for _, name := range []string{"same", "changed", "gone", "replaced", "reborn", "way", "link"} {
		at := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(at, []byte("x"), 0o644))
		f, err := hostfs.This().Lstat(at)
		must.Do(t, err)
		c := plan.Covered{Path: at, Dev: f.Dev, Ino: f.Ino, Born: f.Born}
		switch name {
		case "changed":
			err = os.WriteFile(at, []byte("y"), 0o600)
		case "gone":
			err = os.Remove(at)
		case "replaced":
			c.Ino++
		case "reborn":
			c.Born = 1
		case "way", "link":
			c = plan.Covered{Path: at}
			err = os.Remove(at)
			if err == nil && name == "way" {
				err = os.Mkdir(at, 0o755)
			} else if err == nil {
				err = os.Symlink("way", at)
			}
		}
		must.Do(t, err)
		list = append(list, c)
	}
	r := Remains{uid: uint32(os.Getuid()), gid: uint32(os.Getgid())}
	r.covered(list)
	var renamed []string
	for _, x := range r.all {
		if x.left || !x.other || x.aside != filepath.Base(x.path)+".aside" {
			t.Errorf("%+v", x)
		}
		renamed = append(renamed, filepath.Base(x.path))
	}
	if want := []string{"replaced", "reborn", "link"}; !slices.Equal(renamed, want) {
		t.Errorf("renamed %q, want %q", renamed, want)
	}
}
