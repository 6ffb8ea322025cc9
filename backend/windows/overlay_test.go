package windows

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/confine-run/confine/backend/internal/hostfiles"
	"github.com/confine-run/confine/internal/must"
)

func write(t *testing.T, text string, words ...string) {
	t.Helper()
	name := filepath.Join(words...)
	must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)))
}

func TestOverlayByCopy(t *testing.T) {
	tree, to := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	for name, text := range map[string]string{"same": "1", "modified": "1", "deleted": "1", "dir/in": "1", "becomes": "1", "gone/in": "1"} {
		write(t, text, tree, filepath.FromSlash(name))
	}
	outside := t.TempDir()
	write(t, "secret", outside, "secret")
	links := os.Symlink(outside, filepath.Join(tree, "link")) == nil
	if info, err := os.Lstat(filepath.Join(tree, "link")); err != nil || info.Mode().Type() != fs.ModeSymlink {
		links = false // Wine says that it makes one
	}
	o, err := copyTree(tree, to, 100, 1<<20)
	must.Do(t, err)
	if o.size != 6 || links && o.skipped != 1 {
		t.Errorf("%d octets were copied, and %d links left out", o.size, o.skipped)
	}
	if _, err := os.Lstat(filepath.Join(to, "link")); err == nil {
		t.Error("a link is in the copy")
	}
	if c := changesOf([]*overlay{o}); c.Error != "" || c.Counts.Added+c.Counts.Modified+c.Counts.Deleted != 0 || c.Trees[0] != tree {
		t.Errorf("nothing has changed, and %+v", c)
	}
	write(t, "2", to, "modified")
	write(t, "new", to, "new", "file")
	for _, name := range []string{"deleted", "gone", "becomes"} {
		must.Do(t, os.RemoveAll(filepath.Join(to, name)))
	}
	must.Do(t, os.Mkdir(filepath.Join(to, "becomes"), 0o755))
	c := changesOf([]*overlay{o})
	at := func(names ...string) (all []string) {
		for _, n := range names {
			all = append(all, filepath.Join(tree, filepath.FromSlash(n)))
		}
		return all
	}
	if !slices.Equal(c.Added, at("new", "new/file")) || !slices.Equal(c.Modified, at("becomes", "modified")) || !slices.Equal(c.Deleted, at("deleted", "gone", "gone/in")) || c.Bytes != 4 || c.Error != "" {
		t.Errorf("%+v", c)
	}
	if text, err := os.ReadFile(filepath.Join(tree, "modified")); err != nil || string(text) != "1" {
		t.Errorf("the tree itself has %q, %v", text, err)
	}
	if changesOf(nil) != nil {
		t.Error("changes of nothing")
	}
}

func TestLargeTreesAreRefusedByName(t *testing.T) {
	tree := t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		write(t, "0123456789", tree, name)
	}
	for _, c := range []struct {
		most  int
		bytes int64
		large bool
	}{{4, 30, false}, {3, 30, true}, {4, 29, true}} {
		_, err := copyTree(tree, filepath.Join(t.TempDir(), "copy"), c.most, c.bytes)
		var large *tooLargeError
		if errors.As(err, &large) != c.large || c.large && large.tree != tree {
			t.Errorf("%d entries and %d octets: %v", c.most, c.bytes, err)
		}
	}
	if bytes, files := hostfiles.Measure([]string{tree, filepath.Join(tree, "none")}); bytes != 30 || files != 4 {
		t.Errorf("%d octets in %d files", bytes, files)
	}
}

func TestNamesInACopiedTree(t *testing.T) {
	all := []*overlay{{tree: `C:\a`, copy: `D:\0`}, {tree: `C:\a\b\`, copy: `D:\1`}}
	for name, want := range map[string]string{`C:\a`: `D:\0`, `c:\A\x\Y`: `D:\0\x\Y`, `C:\a\b`: `D:\1`, `C:\a\b\c.exe`: `D:\1\c.exe`, `C:\ab`: `C:\ab`, `D:\a\b`: `D:\a\b`, `C:\ſ`: `C:\ſ`} {
		if got := moved(name, all); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}
