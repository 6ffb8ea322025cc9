package session

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/filetree"
	"github.com/confine-run/confine/internal/must"
)

// What is put in the place of a file or a directory after it was looked at isn't read through.
func TestWhatBecameALinkIsNotCopied(t *testing.T) {
	dir := t.TempDir()
	for _, err := range []error{
		os.Mkdir(filepath.Join(dir, "real"), 0o755), os.WriteFile(filepath.Join(dir, "real/file"), []byte("x"), 0o644),
		os.Symlink("real", filepath.Join(dir, "link")), os.Symlink("real/file", filepath.Join(dir, "key")), unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600),
	} {
		must.Do(t, err)
	}
	root, err := os.OpenRoot(dir)
	must.Do(t, err)
	defer root.Close()
	top, err := os.Open(dir)
	must.Do(t, err)
	defer top.Close()
	s := source{filetree.Host(root), top}
	f, err := s.Open("real/file")
	must.Do(t, err)
	if text, err := io.ReadAll(f); string(text) != "x" || err != nil {
		t.Error(string(text), err)
	}
	f.Close()
	if entries, err := s.List("real"); len(entries) != 1 || err != nil {
		t.Error(entries, err)
	}
	for _, name := range []string{"key", "link/file", "fifo", "real"} {
		if f, err := s.Open(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, %v", name, f, err)
		}
	}
	for _, name := range []string{"link", "real/file"} {
		if entries, err := s.List(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, %v", name, entries, err)
		}
	}
	if f, err := s.Open("../" + filepath.Base(dir) + "/real/file"); err == nil {
		t.Error("a name that leads out:", f)
	}
}
