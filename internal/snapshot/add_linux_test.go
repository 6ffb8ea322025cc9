package snapshot

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/image"
	"github.com/confine-run/confine/internal/linux"
	"github.com/confine-run/confine/internal/overlaytest"
)

// layerNames are the names in the top layer of a snapshot, by the standard library, with their headers.
func layerNames(t testing.TB, s *Store, id string) (names []string, headers map[string]*tar.Header) {
	t.Helper()
	in, err := s.Get(id)
	must(t, err)
	f, err := os.Open(filepath.Join(s.path, blobsDir, in.Layers[len(in.Layers)-1]))
	must(t, err)
	defer f.Close()
	headers = map[string]*tar.Header{}
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if err == io.EOF {
			return names, headers
		}
		must(t, err)
		names = append(names, h.Name)
		headers[h.Name] = h
	}
}

func TestWhatALayerHolds(t *testing.T) {
	s := newStore(t)
	dir := t.TempDir()
	build(t, dir, map[string]string{"b/x": "x", "a": "1", "gone!": "", "hides/^": "", "hides/in": "1", "l@": "/etc/passwd", strings.Repeat("n", 200): "long", "\xff": "bytes"})
	must(t, os.Link(dir+"/a", dir+"/c"))
	must(t, os.Chmod(dir+"/a", 0o600|os.ModeSetuid))
	must(t, unix.Mkfifo(dir+"/pipe", 0o600))
	l, err := net.Listen("unix", dir+"/socket")
	must(t, err)
	defer l.Close()
	must(t, unix.Setxattr(dir+"/a", "user.x=%y", []byte("\x00\n1"), 0))
	must(t, unix.Setxattr(dir+"/b", "user.overlay.impure", []byte("y"), 0))
	must(t, unix.Setxattr(dir+"/b", "user.overlay.overlay.opaque", []byte("y"), 0))
	at := time.Unix(-5, 7)
	must(t, os.Chtimes(dir+"/b/x", at, at))
	id := add(t, s, "", Place{"/work/a", openedDir(t, dir)})
	names, headers := layerNames(t, s, id)
	want := []string{"work/a/", "work/a/a", "work/a/b/", "work/a/c", "work/a/.wh.gone", "work/a/hides/", "work/a/hides/.wh..wh..opq", "work/a/l", "work/a/" + strings.Repeat("n", 200), "work/a/\xff", "work/a/b/x", "work/a/hides/in"}
	if !slices.Equal(names, want) {
		t.Errorf("%q\nwant %q", names, want)
	}
	a := headers["work/a/a"]
	if a.Mode != 0o4600 || a.Uid != os.Geteuid() || a.PAXRecords["SCHILY.xattr.user.x%3D%25y"] != "\x00\n1" {
		t.Errorf("%+v", a)
	}
	if c := headers["work/a/c"]; c.Typeflag != tar.TypeLink || c.Linkname != "work/a/a" {
		t.Errorf("%+v", c)
	}
	if x := headers["work/a/b/x"]; !x.ModTime.Equal(at) {
		t.Error(x.ModTime)
	}
	for name := range headers["work/a/b/"].PAXRecords {
		if strings.HasPrefix(name, paxXattr) {
			t.Errorf("an attribute of overlayfs: %s", name)
		}
	}
	in, err := s.Get(id)
	must(t, err)
	if in.Left != (Left{FIFOs: 1, Sockets: 1}) || in.PolicyDigest != "sha256:1234" || !in.Created.Equal(someTime) || len(in.Places) != 1 {
		t.Errorf("%+v", in)
	}
	tree := trees(t, s, id)[0].Path + "/work/a/"
	var st, st2 unix.Stat_t
	must(t, unix.Lstat(tree+"a", &st))
	must(t, unix.Lstat(tree+"c", &st2))
	buf := make([]byte, 10)
	n, err := unix.Getxattr(tree+"a", "user.x=%y", buf)
	if err != nil || string(buf[:n]) != "\x00\n1" || st.Mode&0o7777 != 0o600 || st.Ino != st2.Ino {
		t.Errorf("%q %v, mode %o", buf[:n], err, st.Mode)
	}
	// What overlayfs takes of it.
	if n, err := unix.Getxattr(tree+"hides", "user.overlay.opaque", buf); err != nil || string(buf[:n]) != "y" {
		t.Errorf("it isn't opaque: %q %v", buf[:max(n, 0)], err)
	}
	_, err = unix.Getxattr(tree+"gone", "user.overlay.whiteout", nil)
	if must(t, unix.Lstat(tree+"gone", &st)); err != nil && (st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != 0) {
		t.Errorf("no whiteout: mode %o", st.Mode)
	}
}

// What a tmpfs holds, and the store's file system doesn't, is told when the snapshot is taken, and not when it is needed.
func TestAttributesThatTheStoreDoesNotTake(t *testing.T) {
	s := newStore(t)
	o := overlaytest.New(t, 0, t.TempDir())
	o.Do(t, overlaytest.Act{Op: "write", A: []byte("f"), B: []byte("1")}, overlaytest.Act{Op: "xattr", A: []byte("f"), B: make([]byte, 40<<10)})
	probe := filepath.Join(t.TempDir(), "probe")
	must(t, os.WriteFile(probe, nil, 0o600))
	takes := unix.Setxattr(probe, "user.te=st%", make([]byte, 40<<10), 0) == nil
	id, err := s.Add(t.Context(), Meta{}, []Place{{"/work", o.Uppers(t)[0]}})
	if takes != (err == nil) || !takes && !strings.Contains(err.Error(), `"/work/f": the store's file system doesn't take the attribute "user.te=st%"`) {
		t.Errorf("%v, and the file system takes it: %v", err, takes)
	}
	if err == nil {
		trees(t, s, id)
	}
}

// An opaque directory and a whiteout at the end of the longest path there is.
func TestTheLongestPath(t *testing.T) {
	for _, what := range []string{"/^", "!", ""} {
		s := newStore(t)
		dir := t.TempDir()
		fd := openedDir(t, dir)
		at, prefix := fd, "work/"
		for len(prefix) < linux.MaxPath-255 {
			name := strings.Repeat("d", min(250, linux.MaxPath-len(prefix)-12))
			must(t, unix.Mkdirat(at, name, 0o755))
			next, err := openDir(at, name)
			must(t, err)
			defer unix.Close(next)
			at, prefix = next, prefix+name+"/"
		}
		build(t, fmt.Sprintf("/proc/self/fd/%d", at), map[string]string{strings.Repeat("n", linux.MaxPath-len(prefix)) + what: "1"})
		id := add(t, s, "", Place{"/work", fd})
		trees(t, s, id)
		must(t, s.Remove(id))
		wipe(t, dir)
		must(t, os.Mkdir(dir, 0o700))
	}
}

// The longest name there is can be deleted, too.
func TestTheLongestWhiteout(t *testing.T) {
	s := newStore(t)
	name := strings.Repeat("n", 255)
	id := add(t, s, "", upper(t, "/work", map[string]string{name + "!": ""}))
	if _, err := os.Lstat(trees(t, s, id)[0].Path + "/work/" + name); err != nil {
		t.Error(err)
	}
}

// What is mounted in a place is none of it.
func TestWhatIsMountedInAPlace(t *testing.T) {
	s := newStore(t)
	o := overlaytest.New(t, 0, t.TempDir())
	o.Do(t, overlaytest.Act{Op: "mkdir", A: []byte("../upper0/mnt")}, overlaytest.Act{Op: "mkdir", A: []byte("../upper0/d")}, overlaytest.Act{Op: "write", A: []byte("../upper0/d/f"), B: []byte("1")},
		overlaytest.Act{Op: "write", A: []byte("../upper0/file"), B: []byte("2")}, overlaytest.Act{Op: "mkdir", A: []byte("../upper0/same")},
		overlaytest.Act{Op: "mount", A: []byte("../upper0/mnt")}, overlaytest.Act{Op: "write", A: []byte("../upper0/mnt/in"), B: []byte("3")},
		overlaytest.Act{Op: "bind", A: []byte("../upper0/same"), B: []byte("../upper0/d")}, overlaytest.Act{Op: "bind", A: []byte("../upper0/file"), B: []byte("../upper0/d/f")})
	names, _ := layerNames(t, s, add(t, s, "", Place{"/work", o.Uppers(t)[0]}))
	if want := []string{"work/", "work/d/", "work/d/f"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}

// The snapshot below goes while one on it is made: then there is none, and it says so.
func TestAParentThatGoes(t *testing.T) {
	s := newStore(t)
	id := add(t, s, "", upper(t, "/work", map[string]string{"f": "1"}))
	other, err := Open(s.path)
	must(t, err)
	defer other.Close()
	s.hook = func(point string) error {
		if point == "document" {
			s.hook = nil
			return other.Remove(id)
		}
		return nil
	}
	if _, err := s.Add(t.Context(), Meta{Parent: id}, []Place{upper(t, "/work", nil)}); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
	if all := ids(t, s); len(all) != 0 {
		t.Error(all)
	}
	nothingLeft(t, s)
}

// What an ordinary user's program can make to be in the way, each with the error that names it.
func TestWhatNoLayerHolds(t *testing.T) {
	for _, c := range []struct {
		name  string
		make  func(t *testing.T, dir string)
		wants string
		is    error
	}{
		{"a name like a whiteout", func(t *testing.T, dir string) { build(t, dir, map[string]string{"d/.wh.x": ""}) }, `"/work/d/.wh.x": a name that begins with .wh. can't be in a layer`, nil},
		{"a redirect", func(t *testing.T, dir string) {
			build(t, dir, map[string]string{"d/": ""})
			must(t, unix.Setxattr(dir+"/d", "user.overlay.redirect", []byte("/etc"), 0))
		}, `"/work/d": the attribute user.overlay.redirect`, nil},
		{"metacopy", func(t *testing.T, dir string) {
			build(t, dir, map[string]string{"f": "1"})
			must(t, unix.Setxattr(dir+"/f", "user.overlay.metacopy", nil, 0))
		}, `"/work/f": the attribute user.overlay.metacopy`, nil},
		{"too deep", func(t *testing.T, dir string) {
			fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
			must(t, err)
			for range 50 {
				must(t, unix.Mkdirat(fd, strings.Repeat("d", 100), 0o755))
				next, err := openDir(fd, strings.Repeat("d", 100))
				must(t, err)
				_ = unix.Close(fd)
				fd = next
			}
			_ = unix.Close(fd)
		}, "no system call takes more than 4095", nil},
		{"too many names", func(t *testing.T, dir string) {
			for i := range 201 {
				must(t, os.WriteFile(fmt.Sprintf("%s/%d", dir, i), nil, 0o600))
			}
		}, "names: ", ErrTooLarge},
		{"too many in all", func(t *testing.T, dir string) {
			for i := range 201 {
				build(t, dir, map[string]string{fmt.Sprintf("%d/%d/", i%15, i): ""})
			}
		}, "names: ", ErrTooLarge},
		{"too many bytes", func(t *testing.T, dir string) { build(t, dir, map[string]string{"f": strings.Repeat("x", 2<<20)}) }, `"/work/f": bytes: `, ErrTooLarge},
		{"a file that no disk takes", func(t *testing.T, dir string) {
			build(t, dir, map[string]string{"f": ""})
			if err := os.Truncate(dir+"/f", maxFile+1); err != nil {
				t.Skip("nor this one: ", err)
			}
		}, `"/work/f": a file of`, ErrTooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			inMemory(t)
			s := newStore(t)
			s.Limits = Limits{Names: 200, Bytes: 1 << 20}
			if c.name == "too deep" { // such paths count for more
				s.Limits.Names = 1 << 20
			}
			dir := t.TempDir()
			c.make(t, dir)
			_, err := s.Add(t.Context(), Meta{}, []Place{{"/work", openedDir(t, dir)}})
			if err == nil || !strings.Contains(err.Error(), c.wants) || c.is != nil && !errors.Is(err, c.is) || c.is == nil && !errors.As(err, new(*UnfitError)) {
				t.Errorf("%v\nwant %s", err, c.wants)
			}
			nothingLeft(t, s)
			if all := ids(t, s); len(all) != 0 {
				t.Error(all)
			}
		})
	}
}

// inMemory has a test's directories where files may be huge.
func inMemory(t testing.TB) {
	t.Helper()
	if os.Getenv("TMPDIR") == "" && unix.Access("/dev/shm", unix.W_OK|unix.X_OK) == nil {
		if t, ok := t.(*testing.T); ok {
			t.Setenv("TMPDIR", "/dev/shm")
		}
	}
}

// What the sandbox has closed to its owner is read, and is closed afterwards as it was.
func TestClosedThings(t *testing.T) {
	s := newStore(t)
	dir := t.TempDir()
	build(t, dir, map[string]string{"secret/deep/f": "hidden", "run/f": "1"})
	modes := map[string]os.FileMode{"secret/deep/f": 0, "secret/deep": 0o200, "secret": 0, "run": 0o111}
	for _, name := range []string{"secret/deep/f", "secret/deep", "secret", "run"} {
		must(t, os.Chmod(dir+"/"+name, modes[name]))
	}
	fd := openedDir(t, dir)
	must(t, os.Chmod(dir, 0o100))
	id := add(t, s, "", Place{"/work", fd})
	check := func(root string) {
		t.Helper()
		defer func() { must(t, os.Chmod(root, 0o700)) }()
		if st, err := os.Stat(root); err != nil || st.Mode().Perm() != 0o100 {
			t.Errorf("%v %v", st, err)
		}
		for _, name := range []string{"run", "secret", "secret/deep", "secret/deep/f"} {
			st, err := os.Lstat(root + "/" + name)
			must(t, err)
			if st.Mode().Perm() != modes[name] {
				t.Errorf("%s: %v, want %v", name, st.Mode(), modes[name])
			}
			must(t, os.Chmod(root+"/"+name, 0o700))
		}
		if text, err := os.ReadFile(root + "/secret/deep/f"); string(text) != "hidden" {
			t.Error(err)
		}
	}
	check(dir)
	all, err := s.Trees(t.Context(), id)
	must(t, err)
	check(all[0].Path + "/work")
	CloseTrees(all)
	must(t, s.Remove(id))
	nothingLeft(t, s)
}

// 100 GiB of nothing take no time and no room; a full twin is the same layer.
func TestHoles(t *testing.T) {
	inMemory(t)
	s := newStore(t)
	dir := t.TempDir()
	write := func(name string, size int64, at ...int64) {
		f, err := os.Create(dir + "/" + name)
		must(t, err)
		must(t, f.Truncate(size))
		for _, o := range at {
			_, err = f.WriteAt([]byte("word"), o)
			must(t, err)
		}
		must(t, f.Close())
	}
	write("empty", 100<<30)
	write("end", 100<<30, 100<<30-4)
	write("middle", 100<<30+1, 0, 1<<30, 50<<30)
	write("small", 30000)
	began := time.Now()
	id := add(t, s, "", Place{"/work", openedDir(t, dir)})
	in, err := s.Get(id)
	must(t, err)
	if took := time.Since(began); took > 5*time.Second || in.Size > 1<<20 {
		t.Errorf("it took %v and %d bytes", took, in.Size)
	}
	tree := trees(t, s, id)[0].Path + "/work/"
	for name, at := range map[string]int64{"empty": -1, "end": 100<<30 - 4, "middle": 50 << 30} {
		f, err := os.Open(tree + name)
		must(t, err)
		var st unix.Stat_t
		must(t, unix.Fstat(int(f.Fd()), &st))
		word := make([]byte, 4)
		if at >= 0 {
			_, err = f.ReadAt(word, at)
		}
		if err != nil || at >= 0 && string(word) != "word" || st.Blocks > 2048 || st.Size < 100<<30 {
			t.Errorf("%s: %q %v, %d bytes in %d blocks", name, word, err, st.Size, st.Blocks)
		}
		_ = f.Close()
	}
	// The standard library reads what is there in the same way.
	_, headers := layerNames(t, s, id)
	if h := headers["work/middle"]; h.Size != 100<<30+1 {
		t.Error(h.Size)
	}
}

func TestTheSameContentIsTheSameLayer(t *testing.T) {
	s := newStore(t)
	r := rand.New(rand.NewPCG(1, 2))
	files := map[string]string{"d/e": "1", "f": "2", "l@": "f"}
	content := make([]byte, 3<<20)
	for range 40 {
		copy(content[r.IntN(len(content)-100000):], strings.Repeat("x", r.IntN(90000)))
	}
	var layers []string
	for i := range 3 {
		dir := t.TempDir()
		if i == 0 {
			build(t, dir, files)
			must(t, os.WriteFile(dir+"/big", content, 0o644))
		} else {
			f, err := os.Create(dir + "/big")
			must(t, err)
			must(t, f.Truncate(int64(len(content))))
			for at := 0; at < len(content); at += 4096 {
				if b := content[at : at+4096]; !bytes.Equal(b, make([]byte, len(b))) || i == 2 && at%3 == 0 {
					_, err = f.WriteAt(b, int64(at))
					must(t, err)
				}
			}
			must(t, f.Close())
			build(t, dir, files)
		}
		for _, name := range []string{"d/e", "d", "f", "big", "l", "."} {
			ts := []unix.Timespec{{Sec: 5}, {Sec: 5}}
			must(t, unix.UtimesNanoAt(unix.AT_FDCWD, dir+"/"+name, ts, unix.AT_SYMLINK_NOFOLLOW))
			if name != "l" {
				mode := os.FileMode(0o644)
				if name == "d" || name == "." {
					mode = 0o755
				}
				must(t, os.Chmod(dir+"/"+name, mode))
			}
		}
		id := add(t, s, "", Place{"/work", openedDir(t, dir)})
		in, err := s.Get(id)
		must(t, err)
		layers = append(layers, in.Layers[0])
		got, err := os.ReadFile(trees(t, s, id)[0].Path + "/work/big")
		if err != nil || !bytes.Equal(got, content) {
			t.Errorf("%d: the content is another: %v", i, err)
		}
	}
	if layers[0] != layers[1] || layers[0] != layers[2] {
		t.Error(layers)
	}
}

// Any number of pieces becomes as many as fit, with the same content.
func TestPieces(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/f")
	must(t, err)
	defer f.Close()
	const n, apart = 3 * maxFragments, 64 << 10
	must(t, f.Truncate(n*apart))
	for i := range int64(n) {
		_, err := f.WriteAt([]byte{1}, i*apart+i%apart)
		must(t, err)
	}
	all, err := extents(t.Context(), int(f.Fd()), n*apart)
	must(t, err)
	if len(all) > maxFragments || len(all) < 1 {
		t.Errorf("%d pieces", len(all))
	}
	end := int64(0)
	for _, e := range all {
		if e.at < end || e.size <= 0 {
			t.Fatal(e)
		}
		end = e.at + e.size
	}
	e := &entry{name: "f", kind: tar.TypeReg, size: n * apart, data: all}
	head, err := e.header()
	must(t, err)
	back, err := readEntry(bytes.NewReader(head))
	must(t, err)
	if !slices.Equal(back.data, all) {
		t.Error("other pieces are read")
	}
}

// A place in another is written once, where it is; what is mounted over something isn't.
func TestPlacesInPlaces(t *testing.T) {
	s := newStore(t)
	id := add(t, s, "", upper(t, "/work/in", map[string]string{"f": "inner"}), upper(t, "/work", map[string]string{"in/hidden": "1", "g": "outer", "inner/x": "x"}))
	names, _ := layerNames(t, s, id)
	if want := []string{"work/", "work/g", "work/inner/", "work/inner/x", "work/in/", "work/in/f"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	trees(t, s, id)
	place := upper(t, "/work", nil)
	for _, places := range [][]Place{{place, place}, {{"work", place.Dir}}, {{"/a/../b", place.Dir}}, {{"/a/", place.Dir}}, {{"", place.Dir}}} {
		if _, err := s.Add(t.Context(), Meta{}, places); err == nil {
			t.Errorf("%+v: added", places)
		}
	}
	// The root is a place, too.
	must(t, s.Remove(id))
	id = add(t, s, "", upper(t, "/", map[string]string{"etc/f": "1", "gone!": ""}))
	names, _ = layerNames(t, s, id)
	if want := []string{"etc/", ".wh.gone", "etc/f"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	trees(t, s, id)
}

// The end of a context ends it, and leaves nothing.
func TestAnAddIsStopped(t *testing.T) {
	s := newStore(t)
	stopped := errors.New("stopped")
	place := upper(t, "/work", map[string]string{"f": strings.Repeat("x", 100000), "d/e": "1"})
	ctx, cancel := context.WithCancelCause(t.Context())
	s.hook = func(point string) error {
		if point == "layer" {
			cancel(stopped)
		}
		return nil
	}
	if _, err := s.Add(ctx, Meta{}, []Place{place}); !errors.Is(err, stopped) {
		t.Error(err)
	}
	s.hook = nil
	nothingLeft(t, s)
}

// Another reader of images makes the same of it.
func TestAnImageReaderTakesABundle(t *testing.T) {
	s := newStore(t)
	id := add(t, s, "", upper(t, "/work", map[string]string{"keep": "1", "gone": "2", "d/x": "3", "hides/below": "4"}))
	dir := t.TempDir()
	build(t, dir, map[string]string{"gone!": "", "new": "5", "hides/^": "", "hides/in": "6"})
	f, err := os.Create(dir + "/sparse")
	must(t, err)
	must(t, f.Truncate(1<<20))
	_, err = f.WriteAt([]byte("word"), 1<<19)
	must(t, err)
	must(t, f.Close())
	id = add(t, s, id, Place{"/work", openedDir(t, dir)})
	bundle := t.TempDir() + "/bundle.tar"
	out, err := os.Create(bundle)
	must(t, err)
	must(t, s.Export(t.Context(), id, out))
	must(t, out.Close())
	for _, src := range []string{bundle, s.path} {
		if src == s.path {
			parent, err := s.Get(id)
			must(t, err)
			must(t, s.Remove(parent.Parent)) // it takes one image
		}
		tree, err := image.Unpack(t.Context(), src, t.TempDir()+"/cache")
		must(t, err)
		got := map[string]string{}
		must(t, filepath.WalkDir(tree.Root+"/work", func(p string, d os.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				text, _ := os.ReadFile(p)
				got[p[len(tree.Root)+6:]] = strings.Trim(string(text), "\x00")
			}
			return err
		}))
		if want := map[string]string{"keep": "1", "d/x": "3", "new": "5", "hides/in": "6", "sparse": "word"}; !maps.Equal(got, want) {
			t.Errorf("%s: %q", src, got)
		}
	}
}
