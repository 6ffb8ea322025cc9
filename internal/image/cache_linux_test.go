package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
)

type object map[string]any

// store writes a blob of a layout, and gives its descriptor.
func store(t testing.TB, dir string, content []byte) object {
	t.Helper()
	sum := sha256.Sum256(content)
	name := hex.EncodeToString(sum[:])
	must.Do(t, os.MkdirAll(filepath.Join(dir, "blobs", "sha256"), 0o755))
	must.Do(t, os.WriteFile(filepath.Join(dir, "blobs", "sha256", name), content, 0o644))
	return object{"digest": "sha256:" + name, "size": len(content)}
}

func document(t testing.TB, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	must.Do(t, err)
	return text
}

// newLayout makes an OCI image layout of layers, compressed when gzip is here.
func newLayout(t testing.TB, layers ...[]byte) string {
	t.Helper()
	dir := t.TempDir()
	var blobs []object
	for _, l := range layers {
		if _, err := exec.LookPath("gzip"); err == nil {
			var b bytes.Buffer
			w := gzip.NewWriter(&b)
			_, _ = w.Write(l)
			_ = w.Close()
			l = b.Bytes()
		}
		blobs = append(blobs, store(t, dir, l))
	}
	c := store(t, dir, document(t, object{"config": object{"Env": []string{"A=b", "PATH=/opt/bin:/bin"}, "WorkingDir": "/srv"}}))
	m := store(t, dir, document(t, object{"config": c, "layers": blobs}))
	other := store(t, dir, document(t, object{"config": c, "layers": []object{}}))
	m["platform"] = object{"os": "linux", "architecture": runtime.GOARCH}
	other["platform"] = object{"os": "linux", "architecture": "s390x"}
	nested := store(t, dir, document(t, object{"manifests": []object{other, m}}))
	index(t, dir, nested)
	return dir
}

// index makes a layout of a directory of blobs.
func index(t testing.TB, dir string, manifests ...object) {
	t.Helper()
	write(t, filepath.Join(dir, "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`))
	write(t, filepath.Join(dir, "index.json"), document(t, object{"manifests": manifests}))
}

// unpackNew unpacks to a cache of its own.
func unpackNew(t testing.TB, src string) (Tree, error) {
	t.Helper()
	return Unpack(t.Context(), src, filepath.Join(t.TempDir(), "c"))
}

func TestLayoutIsUnpackedOnce(t *testing.T) {
	src, cache := newLayout(t, archive(t, "f=1", "d/x=1"), archive(t, "d/.wh.x", "g=2")), filepath.Join(t.TempDir(), "a", "b")
	if _, err := Find(src, cache); !errors.Is(err, ErrNotUnpacked) {
		t.Errorf("find: %v", err)
	}
	tree, err := Unpack(t.Context(), src, cache)
	must.Do(t, err)
	if got := contents(t, tree.Root); got != "d f=1 g=2" {
		t.Error(got)
	}
	if tree.Path != "/opt/bin:/bin" || tree.Dir != "/srv" {
		t.Errorf("%+v", tree.Meta)
	}
	must.Do(t, os.WriteFile(filepath.Join(tree.Root, "mark"), nil, 0o600))
	again, err := Unpack(t.Context(), src, cache)
	found, err2 := Find(src, cache)
	if err != nil || err2 != nil || again != tree || found != tree || !strings.Contains(contents(t, tree.Root), "mark") {
		t.Errorf("%+v %v, %+v %v", again, err, found, err2)
	}
	for _, d := range []string{cache, filepath.Dir(tree.Root)} {
		if st, err := os.Stat(d); err != nil || st.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", d, st.Mode(), err)
		}
	}
}

func TestArchives(t *testing.T) {
	tree, err := unpackNew(t, newFile(t, archive(t, "f=1", "oci-layout/")))
	if err != nil || contents(t, tree.Root) != "f=1 oci-layout" || tree.Meta != (Meta{}) {
		t.Errorf("%+v, %v", tree, err)
	}
	// A tar of a layout is the image that it holds.
	tree, err = unpackNew(t, tarOf(t, newLayout(t, archive(t, "f=1"))))
	if err != nil || contents(t, tree.Root) != "f=1" || tree.Dir != "/srv" {
		t.Errorf("%+v, %v", tree, err)
	}
	if names, _ := os.ReadDir(filepath.Dir(tree.Root)); len(names) != 2 {
		t.Errorf("%d names are left", len(names))
	}
}

func TestWhatIsNotAsItsDigestSaysIsRefused(t *testing.T) {
	good := newLayout(t, archive(t, "f=1"))
	if _, err := unpackNew(t, good); err != nil {
		t.Fatal(err) // the control
	}
	blobs, err := filepath.Glob(filepath.Join(good, "blobs", "sha256", "*"))
	must.Do(t, err)
	refused := 0
	for _, b := range blobs {
		text, err := os.ReadFile(b)
		must.Do(t, err)
		changed := append(bytes.Clone(text), '\n') // harmless to a reader of JSON, and after the end of an archive
		must.Do(t, os.WriteFile(b, changed, 0o644))
		cache := filepath.Join(t.TempDir(), "c")
		if _, err := Unpack(t.Context(), good, cache); err != nil {
			refused++
			if names, _ := os.ReadDir(cache); len(names) != 0 {
				t.Errorf("%d names are left", len(names))
			}
		}
		must.Do(t, os.WriteFile(b, text, 0o644))
	}
	if want := len(blobs) - 1; refused != want { // one is for another platform, and nobody reads it
		t.Errorf("%d of %d are refused", refused, want)
	}
}

func TestInterruptedIsSweptAndConcurrentIsShared(t *testing.T) {
	src, cache := newLayout(t, archive(t, "d/f=1", "e=2")), filepath.Join(t.TempDir(), "c")
	must.Do(t, os.MkdirAll(filepath.Join(cache, unfinished+"x", "tree", "d"), 0o700))
	must.Do(t, os.Symlink("/", filepath.Join(cache, unfinished+"x", "tree", "l")))
	must.Do(t, os.Chmod(cache, 0o700))
	var all sync.WaitGroup
	trees := make([]Tree, 8)
	for i := range trees {
		all.Go(func() {
			var err error
			if trees[i], err = Unpack(t.Context(), src, cache); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, tr := range trees {
		if tr != trees[0] {
			t.Errorf("%+v, %+v", tr, trees[0])
		}
	}
	if names, _ := os.ReadDir(cache); len(names) != 1 {
		t.Errorf("%d names in the cache", len(names))
	}
}

// endless is a stream that ends ctx once it is read, and goes on.
type endless struct{ stop func() }

func (e endless) Read(b []byte) (int, error) {
	e.stop()
	return len(b), nil
}

func TestItStopsWhenItIsToldTo(t *testing.T) {
	why := errors.New("told to")
	src, cache := newLayout(t, archive(t, "d/f=1")), filepath.Join(t.TempDir(), "c")
	ctx, stop := context.WithCancelCause(t.Context())
	stop(why)
	if _, err := Unpack(ctx, src, cache); err != why {
		t.Errorf("%v", err)
	}
	names, _ := os.ReadDir(cache)
	if len(names) != 0 {
		t.Errorf("%d names are left", len(names))
	}
	if _, err := Unpack(t.Context(), src, cache); err != nil {
		t.Fatal(err) // the control
	}
	// In the middle of a layer, of a sparse file that is read from nowhere, and of what is
	// decompressed.
	for name, do := range map[string]func(context.Context, func()) error{
		"stream": func(ctx context.Context, stop func()) error {
			_, err := io.Copy(io.Discard, until{ctx, endless{stop}})
			return err
		},
		"file": func(ctx context.Context, stop func()) error {
			dir := t.TempDir()
			fd, err := openDir(unix.AT_FDCWD, dir)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			x, err := newExtractor(ctx, fd)
			if err != nil {
				return err
			}
			x.written = 1 << 40
			h := &tar.Header{Name: "f", Typeflag: tar.TypeReg}
			return x.make(h, endless{func() {
				if x.written < 1<<40-1<<20 {
					stop()
				}
			}}, fd, "f")
		},
		"program": func(ctx context.Context, stop func()) error {
			head := strings.NewReader("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03")
			t.Setenv("PATH", gzipThat(t, "kill -STOP $$"))
			in, err := plain(ctx, io.MultiReader(head, hanging{ctx, stop}))
			if err != nil {
				return err
			}
			defer in.Close()
			if _, err = io.Copy(io.Discard, in); err != nil {
				return context.Cause(ctx) // as Unpack says it
			}
			return err
		},
	} {
		ctx, stop := context.WithCancelCause(t.Context())
		if err := do(ctx, func() { stop(why) }); !errors.Is(err, why) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// hanging is a stream that gives nothing until ctx has ended, which it ends.
type hanging struct {
	ctx  context.Context
	stop func()
}

func (h hanging) Read([]byte) (int, error) {
	h.stop()
	<-h.ctx.Done()
	return 0, io.EOF
}

func TestNoPartOfALayoutIsAFileOfTheUsers(t *testing.T) {
	for _, part := range []string{"index.json", "blobs"} {
		dir := newLayout(t, archive(t, "f=1"))
		away := filepath.Join(t.TempDir(), "away")
		must.Do(t, os.Rename(filepath.Join(dir, part), away))
		must.Do(t, os.Symlink(away, filepath.Join(dir, part)))
		if _, err := unpackNew(t, dir); !errors.Is(err, unix.EXDEV) {
			t.Errorf("%s outside: %v", part, err)
		}
		// A link that stays inside leads there.
		must.Do(t, os.Rename(away, filepath.Join(dir, "within")))
		must.Do(t, errors.Join(os.Remove(filepath.Join(dir, part)), os.Symlink("within", filepath.Join(dir, part))))
		if _, err := unpackNew(t, dir); err != nil {
			t.Errorf("%s inside: %v", part, err)
		}
	}
}

func TestACacheThatOthersWriteIsRefused(t *testing.T) {
	dir := newLayout(t, archive(t, "f=1"))
	cache := filepath.Join(t.TempDir(), "c")
	if _, err := Unpack(t.Context(), dir, cache); err != nil {
		t.Fatal(err)
	}
	if _, err := Find(dir, cache); err != nil {
		t.Fatal(err) // the control
	}
	must.Do(t, os.Chmod(cache, 0o777))
	if _, err := Find(dir, cache); err == nil {
		t.Error("what anybody may have put there was found")
	}
	if _, err := Unpack(t.Context(), dir, cache); err == nil {
		t.Error("what anybody may have put there was taken")
	}
}
