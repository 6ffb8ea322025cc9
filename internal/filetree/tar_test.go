package filetree

import (
	"archive/tar"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/must"
)

func rootOf(t testing.TB) (string, Files) {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	must.Do(t, err)
	t.Cleanup(func() { root.Close() })
	return dir, Host(root)
}

func packed(t testing.TB, headers ...*tar.Header) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		h.Size = int64(len(h.Uname))
		must.Do(t, w.WriteHeader(h))
		if _, err := w.Write([]byte(h.Uname)); err != nil {
			t.Fatal(err)
		}
	}
	return &b
}

func TestATreeIsTheSameAfterATar(t *testing.T) {
	from, files := rootOf(t)
	for _, err := range []error{
		os.MkdirAll(filepath.Join(from, "a/b"), 0o755), os.WriteFile(filepath.Join(from, "a/b/run"), []byte("#!"), 0o755), os.WriteFile(filepath.Join(from, "secret"), nil, 0o600),
		os.Symlink("b/run", filepath.Join(from, "a/link")), os.Symlink("../secret", filepath.Join(from, "a/up")), os.Symlink("nowhere", filepath.Join(from, "dangling")),
		os.Mkdir(filepath.Join(from, "closed"), 0o755), os.WriteFile(filepath.Join(from, "closed/in"), nil, 0o644), os.Chmod(filepath.Join(from, "closed"), 0o555),
	} {
		must.Do(t, err)
	}
	var b bytes.Buffer
	if began, err := Pack(files, ".", &b); err != nil || !began {
		t.Fatal(began, err)
	}
	to, copied := rootOf(t)
	if left, err := Unpack(copied, "deep/copy", &b, true); err != nil || len(left) != 0 {
		t.Fatal(left, err)
	}
	for name, want := range map[string]fs.FileMode{"a": fs.ModeDir | 0o755, "a/b/run": 0o755, "secret": 0o600, "closed": fs.ModeDir | 0o555, "closed/in": 0o644} {
		if info, err := os.Lstat(filepath.Join(to, "deep/copy", name)); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	for name, want := range map[string]string{"a/link": "b/run", "a/up": "../secret", "dangling": "nowhere"} {
		if target, err := os.Readlink(filepath.Join(to, "deep/copy", name)); err != nil || target != want {
			t.Errorf("%s: %q, %v", name, target, err)
		}
	}
	_ = os.Chmod(filepath.Join(from, "closed"), 0o755)
	_ = os.Chmod(filepath.Join(to, "deep/copy/closed"), 0o755)
}

func TestNoLinkOfATarIsFollowedByIt(t *testing.T) {
	dir, files := rootOf(t)
	outside := filepath.Join(t.TempDir(), "outside")
	b := packed(t,
		&tar.Header{Typeflag: tar.TypeSymlink, Name: "d", Linkname: "elsewhere"},
		&tar.Header{Typeflag: tar.TypeReg, Name: "d/file", Mode: 0o644, Uname: "x"},
		&tar.Header{Typeflag: tar.TypeSymlink, Name: "out", Linkname: outside},
		&tar.Header{Typeflag: tar.TypeReg, Name: "out", Mode: 0o644, Uname: "x"},
		&tar.Header{Typeflag: tar.TypeDir, Name: "elsewhere/", Mode: 0o755},
		&tar.Header{Typeflag: tar.TypeSymlink, Name: "twice", Linkname: "a"},
		&tar.Header{Typeflag: tar.TypeSymlink, Name: "twice", Linkname: "b"},
	)
	if _, err := Unpack(files, ".", b, false); err == nil {
		t.Error("a link became a directory that was in its place")
	}
	for _, name := range []string{"elsewhere/file"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s was made through a link", name)
		}
	}
	if _, err := os.Lstat(outside); err == nil {
		t.Error("something was made outside")
	}
}

func TestLinksThatLeadOutAreLeft(t *testing.T) {
	for target, want := range map[string]bool{
		"x": true, "../x": true, "../../x": false, "/x": false, "": false, "..": true, "./../x/": true, "x/../y": false, "x//y": true, "../..": false, ".": true,
	} {
		if got := inside("a/link", target); got != want {
			t.Errorf("a/link → %q: %v", target, got)
		}
	}
	dir, files := rootOf(t)
	b := packed(t, &tar.Header{Typeflag: tar.TypeSymlink, Name: "a/out", Linkname: "/etc/passwd"}, &tar.Header{Typeflag: tar.TypeSymlink, Name: "a/in", Linkname: "../x"})
	left, err := Unpack(files, ".", b, true)
	if err != nil || !slices.Equal(left, []string{"a/out"}) {
		t.Error(left, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "a/in")); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "a/out")); err == nil {
		t.Error("a link that leads out")
	}
}

func TestHostileTars(t *testing.T) {
	for what, h := range map[string]*tar.Header{
		"above": {Typeflag: tar.TypeReg, Name: "../x"}, "absolute": {Typeflag: tar.TypeReg, Name: "/x"}, "a hard link": {Typeflag: tar.TypeLink, Name: "x", Linkname: "y"},
		"a FIFO": {Typeflag: tar.TypeFifo, Name: "x"}, "a device": {Typeflag: tar.TypeChar, Name: "x"}, "a link above": {Typeflag: tar.TypeSymlink, Name: "a/../../x", Linkname: "y"},
	} {
		_, files := rootOf(t)
		if _, err := Unpack(files, ".", packed(t, h), true); !errors.As(err, new(*Error)) {
			t.Errorf("%s: %v", what, err)
		}
	}
	dir, sparse := rootOf(t)
	var bomb bytes.Buffer
	w := tar.NewWriter(&bomb)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "bomb", Size: 512, Format: tar.FormatPAX,
		PAXRecords: map[string]string{"AAA.sparse.major": "1", "AAA.sparse.minor": "0", "AAA.sparse.name": "bomb", "AAA.sparse.realsize": "1000000000"}}); err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write(append([]byte("0\n"), make([]byte, 510)...))
	hole := bytes.ReplaceAll(bomb.Bytes(), []byte("AAA.sparse"), []byte("GNU.sparse"))
	if h, err := tar.NewReader(bytes.NewReader(hole)).Next(); err != nil || h.Size != 1000000000 {
		t.Fatalf("the bomb is none: %+v, %v", h, err)
	}
	if _, err := Unpack(sparse, ".", bytes.NewReader(hole), true); !errors.As(err, new(*Error)) {
		t.Errorf("sparse: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "bomb")); err == nil {
		t.Error("a file of holes was made")
	}
	_, files := rootOf(t)
	cut := packed(t, &tar.Header{Typeflag: tar.TypeReg, Name: "x", Uname: strings.Repeat("x", 30)}).Bytes()
	for _, text := range [][]byte{cut[:520], cut[:100], bytes.Repeat([]byte("no tar "), 1000)} {
		if _, err := Unpack(files, ".", bytes.NewReader(text), true); !errors.As(err, new(*Error)) {
			t.Errorf("%d bytes: %v", len(text), err)
		}
	}
}

// Whatever a tar says, nothing of it is outside of the directory.
func FuzzUnpack(f *testing.F) {
	f.Add(packed(f, &tar.Header{Typeflag: tar.TypeSymlink, Name: "a", Linkname: ".."}, &tar.Header{Typeflag: tar.TypeReg, Name: "a/x", Uname: "x"}).Bytes())
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		below := filepath.Join(dir, "below")
		must.Do(t, os.Mkdir(below, 0o755))
		root, err := os.OpenRoot(below)
		must.Do(t, err)
		defer root.Close()
		_, _ = Unpack(Host(root), ".", bytes.NewReader(text), true)
		if entries, _ := os.ReadDir(dir); len(entries) != 1 {
			t.Error(entries)
		}
		_ = filepath.WalkDir(below, func(name string, e fs.DirEntry, err error) error {
			if err == nil && e.Type()&fs.ModeSymlink != 0 {
				target, _ := os.Readlink(name)
				if rel, _ := filepath.Rel(below, name); !inside(filepath.ToSlash(rel), target) {
					t.Errorf("%s → %q", rel, target)
				}
			}
			return nil
		})
	})
}
