package hostfiles

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/must"
)

func put(f Files, name, text string) error {
	w, err := f.Create(name, 0o600)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, text)
	return errors.Join(err, w.Close())
}

func TestFilesStayInTheirPlaces(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	must.Do(t, err)
	at := func(words ...string) string { return filepath.Join(append([]string{base}, words...)...) }
	for _, dir := range []string{"place", "read", "read/deep", "read/copy", "other"} {
		must.Do(t, os.Mkdir(at(dir), 0o700))
	}
	must.Do(t, os.WriteFile(at("other", "secret"), []byte("s"), 0o600))
	closed := make(chan struct{})
	f := Files{Places: []Place{{Dir: at("place"), Write: true}, {Dir: at("read")}, {Dir: at("read", "deep"), Write: true}, {Dir: at("named"), Write: true, At: at("read", "copy")}}, Closed: closed}
	must.Do(t, put(f, at("place", "a"), "one"))
	must.Do(t, put(f, at("read", "deep", "a"), "one"))
	must.Do(t, put(f, at("named", "a"), "two"))
	if text, err := os.ReadFile(at("read", "copy", "a")); err != nil || string(text) != "two" {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := os.ReadFile(at("place", "a")); err != nil || string(text) != "one" {
		t.Errorf("%q, %v", text, err)
	}
	must.Do(t, f.Mkdir(at("place", "dir"), 0o700))
	if list, err := f.List(at("place")); err != nil || len(list) != 2 {
		t.Errorf("%v, %v", list, err)
	}
	must.Do(t, f.Rename(at("place", "a"), at("place", "dir", "b")))
	links := os.Symlink(at("other", "secret"), at("place", "out")) == nil && os.Symlink(filepath.Join("..", "other", "secret"), at("place", "up")) == nil
	if info, err := os.Lstat(at("place", "out")); err != nil || info.Mode().Type() != fs.ModeSymlink {
		links = false // Wine says that it makes one
	}
	for what, c := range map[string]struct {
		err  error
		want error
		if_  bool
	}{
		"a file of nobody's":        {second(f.Open(at("other", "secret"))), fs.ErrNotExist, true},
		"by dots":                   {second(f.Open(at("place") + "/../other/secret")), fs.ErrNotExist, true},
		"by an absolute link":       {second(f.Open(at("place", "out"))), nil, links},
		"by a relative link":        {second(f.Open(at("place", "up"))), nil, links},
		"writing through a link":    {put(f, at("place", "out"), "x"), nil, links},
		"writing what is read":      {put(f, at("read", "a"), "x"), fs.ErrPermission, true},
		"a relative name":           {second(f.Stat("place")), fs.ErrInvalid, true},
		"the place itself":          {f.Remove(at("place")), fs.ErrPermission, true},
		"a directory":               {second(f.Open(at("place", "dir"))), nil, true},
		"from one place to another": {f.Rename(at("place", "dir", "b"), at("read", "deep", "b")), nil, true},
	} {
		if c.if_ && (c.err == nil || c.want != nil && !errors.Is(c.err, c.want)) {
			t.Errorf("%s: %v", what, c.err)
		}
	}
	if text, err := os.ReadFile(at("other", "secret")); err != nil || string(text) != "s" {
		t.Errorf("%q, %v", text, err)
	}
	close(closed)
	if _, err := f.Stat(at("place")); !errors.Is(err, backend.ErrClosed) {
		t.Error(err)
	}
}

func second[T any](_ T, err error) error { return err }
