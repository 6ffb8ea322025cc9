package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/internal/linux"
	"github.com/confine-run/confine/internal/must"
)

// member is one entry of an archive: "dir/", "file=text", "link -> target",
// "hard => target", "device#", "fifo%".
type member string

func archive(t testing.TB, members ...member) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, m := range members {
		s, text := string(m), ""
		h := &tar.Header{Name: s, Mode: 0o6755, Uid: 12345, Gid: 12345, Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		if name, to, ok := strings.Cut(s, " -> "); ok {
			h.Name, h.Linkname, h.Typeflag = name, to, tar.TypeSymlink
		} else if name, to, ok := strings.Cut(s, " => "); ok {
			h.Name, h.Linkname, h.Typeflag = name, to, tar.TypeLink
		} else if name, content, ok := strings.Cut(s, "="); ok {
			h.Name, text = name, content
		} else if strings.HasSuffix(s, "#") {
			h.Name, h.Typeflag, h.Devmajor, h.Devminor = s[:len(s)-1], tar.TypeChar, 1, 3
		} else if strings.HasSuffix(s, "%") {
			h.Name, h.Typeflag = s[:len(s)-1], tar.TypeFifo
		} else if strings.HasSuffix(s, "/") {
			h.Typeflag = tar.TypeDir
		}
		h.Size = int64(len(text))
		must.Do(t, w.WriteHeader(h))
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	must.Do(t, w.Close())
	return buf.Bytes()
}

// scene is a directory with a tree to unpack to, and a file beside it that nothing may reach.
func scene(t testing.TB) (dir string, x *extractor) {
	t.Helper()
	dir = t.TempDir()
	for _, d := range []string{"tree", "beside"} {
		must.Do(t, os.Mkdir(filepath.Join(dir, d), 0o755))
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "beside", "secret"), []byte("secret"), 0o600))
	fd, err := unix.Open(filepath.Join(dir, "tree"), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must.Do(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	if x, err = newExtractor(t.Context(), fd); err != nil {
		t.Fatal(err)
	}
	return dir, x
}

// untouched: nothing beside the tree was changed, or has a second name in it.
func untouched(t testing.TB, dir string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "beside", "secret"))
	var st unix.Stat_t
	if err == nil {
		err = unix.Stat(filepath.Join(dir, "beside", "secret"), &st)
	}
	names, _ := os.ReadDir(filepath.Join(dir, "beside"))
	if err != nil || string(text) != "secret" || len(names) != 1 || st.Nlink != 1 || st.Mode&0o777 != 0o600 {
		t.Errorf("what lies beside the tree: %q, %v, %d names, %d links", text, err, len(names), st.Nlink)
	}
}

// contents are the paths of a tree, with the texts of files and the targets of links.
func contents(t testing.TB, root string) string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
		if err != nil || p == root {
			return err
		}
		rel := p[len(root)+1:]
		switch e.Type() {
		case fs.ModeSymlink:
			to, _ := os.Readlink(p)
			rel += "->" + to
		case 0:
			text, _ := os.ReadFile(p)
			rel += "=" + string(text)
		}
		all = append(all, rel)
		return nil
	})
	must.Do(t, err)
	sort.Strings(all)
	return strings.Join(all, " ")
}

func TestLayers(t *testing.T) {
	for _, c := range []struct {
		name   string
		layers [][]member
		want   string
	}{
		{"files", [][]member{{"a/", "a/f=1", "./b=2", "/c=3", "d/e/f=4", "l -> a"}}, "a a/f=1 b=2 c=3 d d/e d/e/f=4 l->a"},
		{"a later layer wins", [][]member{{"f=1", "d/x=1", "l -> f", "g=1"}, {"f=2", "d=2", "l/", "g -> f"}}, "d=2 f=2 g->f l"},
		{"a directory stays", [][]member{{"d/x=1"}, {"d/", "d/y=2"}}, "d d/x=1 d/y=2"},
		{"whiteout", [][]member{{"f=1", "d/x=1", "d/y=1"}, {".wh.f", "d/.wh.x"}}, "d d/y=1"},
		{"whiteout of a directory", [][]member{{"d/x/y=1", "e=1"}, {".wh.d"}}, "e=1"},
		{"whiteout of nothing", [][]member{{".wh.f"}}, ""},
		{"whiteout before and after", [][]member{{"f=1", "g=1"}, {".wh.f", "f=2", "g=2", ".wh.g"}}, "f=2 g=2"},
		{"opaque", [][]member{{"d/x=1", "d/s/y=1", "e=1"}, {"d/s/z=2", "d/.wh..wh..opq", "d/w=2"}}, "d d/s d/s/z=2 d/w=2 e=1"},
		{"through a link", [][]member{{"usr/lib/", "lib -> usr/lib"}, {"lib/x=1"}}, "lib->usr/lib usr usr/lib usr/lib/x=1"},
		{"through an absolute link", [][]member{{"usr/lib/", "lib -> /usr/lib"}, {"lib/x=1"}}, "lib->/usr/lib usr usr/lib usr/lib/x=1"},
		{"hard links", [][]member{{"f=1", "g => f", "h => /f", "h => h"}}, "f=1 g=1 h=1"},
		{"no devices", [][]member{{"null#", "pipe%", "f=1"}}, "f=1"},
		{"nothing is followed to be replaced", [][]member{{"l -> f", "f=1", "l=2"}}, "f=1 l=2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, x := scene(t)
			for _, l := range c.layers {
				must.Do(t, x.layer(bytes.NewReader(archive(t, l...))))
			}
			if got := contents(t, filepath.Join(dir, "tree")); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
			untouched(t, dir)
		})
	}
}

// Each would reach the file beside the tree, if its name were taken as it is: the
// control does that with the same names.
func TestNothingLeadsOut(t *testing.T) {
	for _, c := range []struct {
		name    string
		members []member
		refused bool
	}{
		{"up", []member{"../beside/secret=x"}, true},
		{"up in the middle", []member{"a/../../beside/secret=x"}, true},
		{"a hard link up", []member{"h => ../beside/secret"}, true},
		{"a hard link up, written to", []member{"h => ../beside/secret", "h=x"}, true},
		{"a link up, written through", []member{"l -> ../beside", "l/secret=x"}, true}, // it leads to what isn't there
		{"a link up, and a directory", []member{"beside/", "l -> ../beside", "l/secret=x"}, false},
		{"a link of links", []member{"a -> ..", "b -> a/beside", "beside/", "b/secret=x"}, false},
		{"a link to the file", []member{"l -> ../beside/secret", "l=x"}, false},
		{"a hard link through a link", []member{"l -> ../beside", "h => l/secret"}, true},
		{"a hard link to a link", []member{"l -> ../beside/secret", "h => l", "h=x"}, false},
		{"a directory on a link", []member{"l -> ../beside", "l/"}, false},
		{"a whiteout through a link", []member{"l -> ../beside", "l/.wh.secret"}, true},
		{"a whiteout through a link, of the tree's own", []member{"beside/secret=1", "l -> ../beside", "l/.wh.secret"}, false},
		{"a whiteout of up", []member{".wh..."}, true},
		{"an opaque link", []member{"l -> ../beside", "l/.wh..wh..opq"}, true},
		{"a whiteout of the link", []member{"l -> ../beside", ".wh.l"}, false},
		{"magic", []member{"l -> /proc/self/cwd", "l/secret=x"}, true},
		{"a dot-dot whiteout", []member{"a/.wh..", "a/.wh.."}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, x := scene(t)
			err := x.layer(bytes.NewReader(archive(t, c.members...)))
			if (err != nil) != c.refused {
				t.Errorf("error %v", err)
			}
			untouched(t, dir)
		})
	}
	dir, _ := scene(t) // the control
	must.Do(t, os.WriteFile(filepath.Join(dir, "tree", "../beside/secret"), []byte("x"), 0o600))
	if text, _ := os.ReadFile(filepath.Join(dir, "beside", "secret")); string(text) != "x" {
		t.Error("the names of this test lead nowhere")
	}
}

func TestModesAndOwners(t *testing.T) {
	dir, x := scene(t)
	must.Do(t, x.layer(bytes.NewReader(archive(t, "f=1", "d/"))))
	for _, n := range []string{"f", "d"} {
		var st unix.Stat_t
		must.Do(t, unix.Lstat(filepath.Join(dir, "tree", n), &st))
		if st.Mode&0o7777 != 0o755 || int(st.Uid) != os.Geteuid() {
			t.Errorf("%s: mode %o, owner %d", n, st.Mode, st.Uid)
		}
	}
}

func TestBounds(t *testing.T) {
	big := archive(t, "a=1", "b=2", member("c="+strings.Repeat("x", 5000)))
	for name, c := range map[string]struct {
		lower func(*extractor)
		want  error
	}{
		"entries": {func(x *extractor) { x.entries = 2 }, errTooMany},
		"bytes":   {func(x *extractor) { x.bytes = 4000 }, errTooLarge},
		"written": {func(x *extractor) { x.written = 4000 }, errTooLarge},
		"names":   {func(x *extractor) { x.space = 2 * block }, errNoSpace},
		"space":   {func(x *extractor) { x.space = 3*block + 2*block + block }, errNoSpace}, // c takes two blocks
	} {
		_, x := scene(t)
		c.lower(x)
		if err := x.layer(bytes.NewReader(big)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		_, x = scene(t)
		if err := x.layer(bytes.NewReader(big)); err != nil {
			t.Errorf("%s, the control: %v", name, err)
		}
	}
	// A directory that no entry is about counts as one that is, and so does a path that only a link makes.
	for name, c := range map[string]struct {
		members []member
		names   int
	}{
		"of a file":     {[]member{member(strings.Repeat("d/", 100) + "f=1")}, 100},
		"of two":        {[]member{member(strings.Repeat("d/", 50) + "f=1"), member(strings.Repeat("e/", 50) + "f=1")}, 100},
		"of a whiteout": {[]member{member(strings.Repeat("d/", 100) + ".wh.f")}, 100},
		"of a link":     {[]member{"d -> .", member(strings.Repeat("d/", 30) + "f=1"), member(strings.Repeat("d/", 30) + "g=1")}, 30},
	} {
		_, x := scene(t)
		x.entries = c.names
		if err := x.layer(bytes.NewReader(archive(t, c.members...))); !errors.Is(err, errTooMany) {
			t.Errorf("directories on the way %s: %v", name, err)
		}
		_, x = scene(t)
		x.entries = 2*c.names + 5
		if err := x.layer(bytes.NewReader(archive(t, c.members...))); err != nil {
			t.Errorf("directories on the way %s, the control: %v", name, err)
		}
	}
	// What follows the end of an archive counts too.
	_, x := scene(t)
	x.bytes = 1 << 20
	if err := x.layer(io.MultiReader(bytes.NewReader(big), strings.NewReader(strings.Repeat("x", 2<<20)))); !errors.Is(err, errTooLarge) {
		t.Errorf("after the end: %v", err)
	}
	// Deeper than a path reaches, by links.
	deep := []member{}
	at := ""
	for i := range 40 {
		deep = append(deep, member(at+strings.Repeat("dddddddddd/", 12)))
		link := "l" + string(rune('A'+i))
		deep = append(deep, member(link+" -> "+at+strings.Repeat("dddddddddd/", 12)))
		at = link + "/"
	}
	dir, x := scene(t)
	if err := x.layer(bytes.NewReader(archive(t, deep...))); err == nil {
		t.Error("a directory that no path reaches was made")
	}
	top, err := unix.Open(dir, unix.O_PATH, 0)
	must.Do(t, err)
	defer unix.Close(top)
	if err := linux.RemoveAll(top, "tree", 0); err != nil {
		t.Errorf("what was made can't be removed: %v", err)
	}
}

// gnuTar is what GNU tar writes.
func gnuTar(t *testing.T, args ...string) []byte {
	t.Helper()
	text, err := exec.Command("tar", args...).Output()
	if errors.Is(err, exec.ErrNotFound) {
		must.Do(t, host.MustRun("program:tar"))
		t.Skip("tar is not installed")
	} else if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestHolesStayHoles in each form that archives have them, and where they are written out.
func TestHolesStayHoles(t *testing.T) {
	const size = 4 << 20
	files := map[string][]byte{
		"data, a hole, data": append(append(bytes.Repeat([]byte("x"), 5000), make([]byte, size)...), "end"...),
		"a hole alone":       make([]byte, size),
		"a hole at the end":  append([]byte("begin"), make([]byte, size)...),
		"a hole first":       append(make([]byte, size+1), "end"...),
		"no hole":            bytes.Repeat([]byte("x\x00"), 6000),
		"nothing":            nil,
		"zeros":              make([]byte, 17),
	}
	for _, format := range []string{"dense", "oldgnu", "gnu", "0.0", "0.1", "1.0"} {
		src := t.TempDir()
		for name, text := range files {
			write(t, filepath.Join(src, name), nil)
			f, err := os.OpenFile(filepath.Join(src, name), os.O_WRONLY, 0)
			must.Do(t, err)
			for at := 0; at < len(text); at += block {
				if b := text[at:min(at+block, len(text))]; !bytes.Equal(b, zeros[:len(b)]) {
					if _, err := f.WriteAt(b, int64(at)); err != nil {
						t.Fatal(err)
					}
				}
			}
			must.Do(t, errors.Join(f.Truncate(int64(len(text))), f.Close()))
		}
		args := []string{"-C", src, "-cf", "-", "."}
		switch format {
		case "dense":
		case "oldgnu", "gnu":
			args = append([]string{"--sparse", "--format=" + format}, args...)
		default:
			args = append([]string{"--sparse", "--format=posix", "--sparse-version=" + format}, args...)
		}
		text := gnuTar(t, args...)
		if format != "dense" && len(text) > 1<<20 {
			t.Fatalf("%s: an archive of %d bytes: tar has written holes out", format, len(text))
		}
		dir, x := scene(t)
		x.space = 1 << 20 // more than what is written takes, and less than what is read
		if err := x.layer(bytes.NewReader(text)); err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		for name, want := range files {
			path := filepath.Join(dir, "tree", name)
			var st unix.Stat_t
			got, err := os.ReadFile(path)
			if err == nil {
				err = unix.Stat(path, &st)
			}
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %s: %d bytes, want %d, %v", format, name, len(got), len(want), err)
			}
			if st.Blocks*512 > 64<<10 {
				t.Errorf("%s: %s takes %d bytes of the disk", format, name, st.Blocks*512)
			}
		}
	}
}

// TestSparseFileIsRefusedByItsLength before anything is read or written.
func TestSparseFileIsRefusedByItsLength(t *testing.T) {
	src := filepath.Join(t.TempDir(), "f")
	write(t, src, nil)
	must.Do(t, os.Truncate(src, maxBytes+1))
	text := gnuTar(t, "--sparse", "-C", filepath.Dir(src), "-cf", "-", "f")
	dir, x := scene(t)
	if err := x.layer(bytes.NewReader(text)); !errors.Is(err, errTooLarge) {
		t.Errorf("%v", err)
	}
	if got := contents(t, filepath.Join(dir, "tree")); got != "" {
		t.Errorf("%q was made", got)
	}
}

func FuzzLayer(f *testing.F) {
	f.Add(archive(f, "a/", "a/f=1", "l -> ../beside", "l/secret=x", "h => l/secret", ".wh.a", "a/.wh..wh..opq"))
	f.Add(archive(f, "../x=1"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		dir, x := scene(t)
		x.entries, x.bytes, x.written = 100, 1<<20, 1<<20
		_ = x.layer(bytes.NewReader(b))
		untouched(t, dir)
		if names, _ := os.ReadDir(dir); len(names) != 2 {
			t.Errorf("%d names beside the tree", len(names))
		}
	})
}
