package snapshot

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// file is one of a tar that is made by hand.
type file struct {
	*tar.Header
	text string
}

// plain is a header, as Add writes it.
func plain(name string, kind byte, link string) *tar.Header {
	return &tar.Header{Name: name, Typeflag: kind, Linkname: link, Mode: 0o755, Format: tar.FormatPAX}
}

func archive(t testing.TB, files ...file) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range files {
		h := *f.Header
		if h.Typeflag == tar.TypeReg && h.Size == 0 {
			h.Size = int64(len(f.text))
		}
		must(t, w.WriteHeader(&h))
		_, err := io.WriteString(w, f.text)
		must(t, err)
	}
	must(t, w.Close())
	return buf.Bytes()
}

// bundle is one that is made by hand: what is changed in it is the attack.
type bundle struct {
	layers   [][]byte
	config   config
	manifest manifest
	index    index
	layout   string
	// blobs are all, by their names; docs are put there by seal.
	blobs map[string][]byte
	// sealed can change what goes into the tar, last.
	files []file
	tail  []byte
}

func newBundle(t testing.TB, layers ...[]byte) *bundle {
	t.Helper()
	b := &bundle{layers: layers, layout: layoutFile, blobs: map[string][]byte{}}
	b.manifest = manifest{SchemaVersion: 2, MediaType: typeManifest}
	b.config = config{Created: "2026-01-02T03:04:05Z", Architecture: runtime.GOARCH, OS: "linux", RootFS: rootFS{Type: "layers"},
		Snapshot: about{Version: version, Meta: Meta{Places: []PlaceInfo{{"/work", Overlay}}}}}
	for _, l := range layers {
		d := b.put(typeLayer, l)
		b.manifest.Layers = append(b.manifest.Layers, d)
		b.config.RootFS.DiffIDs = append(b.config.RootFS.DiffIDs, d.Digest)
	}
	b.index = index{SchemaVersion: 2, MediaType: typeIndex}
	return b
}

func (b *bundle) put(mediaType string, text []byte) descriptor {
	name := digestOf(text)
	b.blobs[name] = text
	return descriptor{MediaType: mediaType, Digest: algorithm + name, Size: int64(len(text))}
}

func (b *bundle) doc(mediaType string, v any) descriptor {
	text, _ := json.Marshal(v)
	return b.put(mediaType, text)
}

// seal makes the documents of what was changed so far.
func (b *bundle) seal() *bundle {
	if b.manifest.Config.Digest == "" {
		b.manifest.Config = b.doc(typeConfig, b.config)
	}
	if b.index.Manifests == nil {
		b.index.Manifests = []descriptor{b.doc(typeManifest, b.manifest)}
	}
	return b
}

func (b *bundle) tar(t testing.TB) []byte {
	t.Helper()
	b.seal()
	text, err := json.Marshal(b.index)
	must(t, err)
	files := []file{{plain("oci-layout", tar.TypeReg, ""), b.layout}, {plain("index.json", tar.TypeReg, ""), string(text)}, {plain("blobs/sha256/", tar.TypeDir, ""), ""}}
	for name, text := range b.blobs {
		files = append(files, file{plain("blobs/sha256/"+name, tar.TypeReg, ""), string(text)})
	}
	return append(archive(t, append(files, b.files...)...), b.tail...)
}

// layerOf is a tar of a layer: "dir/", "file=text", "link -> target", "hard => target".
func layerOf(t testing.TB, members ...string) []byte {
	t.Helper()
	var files []file
	for _, m := range members {
		if name, to, ok := strings.Cut(m, " -> "); ok {
			files = append(files, file{plain(name, tar.TypeSymlink, to), ""})
		} else if name, to, ok := strings.Cut(m, " => "); ok {
			files = append(files, file{plain(name, tar.TypeLink, to), ""})
		} else if name, text, ok := strings.Cut(m, "="); ok {
			files = append(files, file{plain(name, tar.TypeReg, ""), text})
		} else {
			files = append(files, file{plain(m, tar.TypeDir, ""), ""})
		}
	}
	return archive(t, files...)
}

// entryBytes is a header with its records as it is, and data.
func entryBytes(t testing.TB, e *entry, text string) []byte {
	t.Helper()
	head, err := e.header()
	must(t, err)
	return append(append(append(head, text...), make([]byte, padding(int64(len(text))))...), make([]byte, 2*block)...)
}

// The control of the table below: without an attack the bundle is taken.
func TestABundleByHandIsTaken(t *testing.T) {
	s := newStore(t)
	id, err := s.Import(t.Context(), bytes.NewReader(newBundle(t, layerOf(t, "work/", "work/f=1", "work/d/", "work/d/l -> ../../../etc/passwd", "work/h => work/f", "work/.wh.gone="),
		layerOf(t, "work/", "work/.wh..wh..opq=", "work/d=2")).tar(t)), Limits{})
	must(t, err)
	all := trees(t, s, id)
	if text, err := os.ReadFile(all[0].Path + "/work/h"); len(all) != 2 || string(text) != "1" {
		t.Errorf("%v %q %v", all, text, err)
	}
	in, err := s.Get(id)
	must(t, err)
	if len(in.Names) != 0 || len(in.Places) != 1 {
		t.Errorf("%+v", in)
	}
	// Once more is no more.
	var out bytes.Buffer
	must(t, s.Export(t.Context(), id, &out))
	if again, err := s.Import(t.Context(), &out, Limits{}); again != id || err != nil {
		t.Error(again, err)
	}
	nothingLeft(t, s)
}

func TestHostileBundles(t *testing.T) {
	ok := func(t *testing.T) *bundle { return newBundle(t, layerOf(t, "work/", "work/f=1")) }
	layer := func(members ...string) func(t *testing.T) []byte {
		return func(t *testing.T) []byte { return newBundle(t, layerOf(t, members...)).tar(t) }
	}
	raw := func(e entry, text string) func(t *testing.T) []byte {
		return func(t *testing.T) []byte { return newBundle(t, entryBytes(t, &e, text)).tar(t) }
	}
	header := func(h *tar.Header) func(t *testing.T) []byte {
		return func(t *testing.T) []byte { return newBundle(t, archive(t, file{h, ""})).tar(t) }
	}
	changed := func(change func(b *bundle)) func(t *testing.T) []byte {
		return func(t *testing.T) []byte { b := ok(t); change(b); return b.tar(t) }
	}
	beside := func(h *tar.Header, text string) func(t *testing.T) []byte {
		return changed(func(b *bundle) { b.files = append(b.files, file{h, text}) })
	}
	sealed := func(change func(b *bundle)) func(t *testing.T) []byte {
		return changed(func(b *bundle) { b.seal(); change(b) })
	}
	sparse := func(records ...string) func(t *testing.T) []byte {
		return func(t *testing.T) []byte {
			var text []byte
			for i := 0; i < len(records); i += 2 {
				text = appendRecord(text, records[i], records[i+1])
			}
			x := &ustar{typ: tar.TypeXHeader, name: "x", size: int64(len(text))}
			l := append(append(x.bytes(), text...), make([]byte, padding(int64(len(text))))...)
			l = append(l, (&ustar{typ: tar.TypeReg, name: "work", size: 4}).bytes()...)
			l = append(append(l, "word"...), make([]byte, block-4+2*block)...)
			return newBundle(t, l).tar(t)
		}
	}
	for _, c := range []struct {
		name  string
		make  func(t *testing.T) []byte
		wants string
		is    error
	}{
		{"nothing", func(*testing.T) []byte { return nil }, "oci-layout: it is missing", nil},
		{"no tar", func(*testing.T) []byte { return bytes.Repeat([]byte("garbage "), 1000) }, "the tar: ", nil},
		{"compressed", func(*testing.T) []byte { return append([]byte{0x1f, 0x8b, 8}, make([]byte, 4096)...) }, "the tar: ", nil},
		{"cut", func(t *testing.T) []byte { b := ok(t).tar(t); return b[:len(b)-3000] }, "", io.ErrUnexpectedEOF},
		{"trailing garbage", changed(func(b *bundle) { b.tail = []byte("x") }), "something follows the end of the tar", nil},
		{"a second tar", func(t *testing.T) []byte { b := ok(t).tar(t); return append(b, b...) }, "something follows the end of the tar", nil},
		{"padding without end", changed(func(b *bundle) { b.tail = make([]byte, maxPadding+1) }), "something follows the end of the tar", nil},
		{"another layout", changed(func(b *bundle) { b.layout = `{"imageLayoutVersion":"2.0.0"}` }), "oci-layout", nil},
		{"a file up", beside(plain("../escape", tar.TypeReg, ""), "x"), `"../escape": it is no file of a bundle`, nil},
		{"an absolute file", beside(plain("/etc/escape", tar.TypeReg, ""), "x"), "it is no file of a bundle", nil},
		{"a blob up", beside(plain("blobs/sha256/../../escape", tar.TypeReg, ""), "x"), "it is no file of a bundle", nil},
		{"a blob with another name", beside(plain("blobs/sha256/"+strings.Repeat("A", 64), tar.TypeReg, ""), "x"), "it is no file of a bundle", nil},
		{"a link for a blob", beside(plain("blobs/sha256/"+strings.Repeat("a", 64), tar.TypeSymlink, "/etc/passwd"), ""), "which is in no bundle", nil},
		{"a hard link for a blob", beside(plain("blobs/sha256/"+strings.Repeat("a", 64), tar.TypeLink, "/etc/passwd"), ""), "which is in no bundle", nil},
		{"a device for a blob", beside(plain("blobs/sha256/"+strings.Repeat("a", 64), tar.TypeChar, ""), ""), "which is in no bundle", nil},
		{"a second index", beside(plain("index.json", tar.TypeReg, ""), "{}"), "it is there twice", nil},
		{"a huge index", beside(plain("index.json", tar.TypeReg, ""), strings.Repeat(" ", maxDocument+1)), "it is there twice", nil},
		{"a wrong digest", sealed(func(b *bundle) { b.blobs[strings.Repeat("a", 64)] = []byte("x") }), "the content has another digest", nil},
		{"a blob twice", sealed(func(b *bundle) {
			for name, text := range b.blobs {
				b.files = append(b.files, file{plain("blobs/sha256/"+name, tar.TypeReg, ""), string(text)})
			}
		}), "it is there twice", nil},
		{"a blob of nothing", sealed(func(b *bundle) { b.put("", []byte("more")) }), "it is part of nothing", nil},
		{"many blobs", changed(func(b *bundle) {
			for i := range 200 {
				b.put("", fmt.Append(nil, i))
			}
		}), "more than", ErrTooLarge},
		{"a missing manifest", sealed(func(b *bundle) { delete(b.blobs, b.index.Manifests[0].Digest[7:]) }), "is missing", nil},
		{"a missing config", sealed(func(b *bundle) { delete(b.blobs, b.manifest.Config.Digest[7:]) }), "is missing", nil},
		{"a missing layer", sealed(func(b *bundle) { delete(b.blobs, b.manifest.Layers[0].Digest[7:]) }), "is missing", nil},
		{"a wrong size", changed(func(b *bundle) { b.manifest.Layers[0].Size++ }), "and is to have", nil},
		{"no manifest", changed(func(b *bundle) { b.index.Manifests = []descriptor{} }), "0 manifests", nil},
		{"several manifests", sealed(func(b *bundle) { b.index.Manifests = append(b.index.Manifests, b.index.Manifests[0]) }), "2 manifests", nil},
		{"an index of another version", changed(func(b *bundle) { b.index.SchemaVersion = 1 }), "index.json: it is of version 1", nil},
		{"an index in an index", sealed(func(b *bundle) { b.index.Manifests[0].MediaType = typeIndex }), "is not known here", nil},
		{"a digest with a path", sealed(func(b *bundle) { b.index.Manifests[0].Digest = "sha256:../../../etc/passwd" }), "it takes sha256:HEX", nil},
		{"another algorithm", sealed(func(b *bundle) { b.index.Manifests[0].Digest = "sha512:" + strings.Repeat("a", 128) }), "it takes sha256:HEX", nil},
		{"a docker manifest", changed(func(b *bundle) {
			b.manifest.MediaType = "application/vnd.docker.distribution.manifest.v2+json"
		}), "manifest: it is of version 2 and the media type", nil},
		{"a compressed layer", changed(func(b *bundle) { b.manifest.Layers[0].MediaType = typeLayer + "+gzip" }), "is not known here", nil},
		{"a foreign layer", changed(func(b *bundle) {
			b.manifest.Layers[0].MediaType = "application/vnd.oci.image.layer.nondistributable.v1.tar"
		}), "is not known here", nil},
		{"another config", changed(func(b *bundle) {
			b.manifest.Config = b.doc("application/vnd.oci.empty.v1+json", struct{}{})
		}), "is not known here", nil},
		{"no layers", changed(func(b *bundle) { b.manifest.Layers = nil }), "0 layers", nil},
		{"many layers", changed(func(b *bundle) {
			for range maxLayers {
				b.manifest.Layers = append(b.manifest.Layers, b.manifest.Layers[0])
			}
		}), "129 layers", nil},
		{"a manifest with more in it", sealed(func(b *bundle) {
			text, _ := json.Marshal(b.manifest)
			b.blobs = map[string][]byte{}
			b.index.Manifests = []descriptor{b.put(typeManifest, append(text[:len(text)-1], `,"layers":[]}`...))}
		}), "manifest: ", nil},
		{"a manifest that is none", changed(func(b *bundle) { b.index.Manifests = []descriptor{b.put(typeManifest, []byte("[]"))} }), "manifest: ", nil},
		{"a huge manifest", changed(func(b *bundle) {
			b.index.Manifests = []descriptor{b.put(typeManifest, bytes.Repeat([]byte(" "), maxDocument+1))}
		}), "", unix.EFBIG},
		{"other diff_ids", changed(func(b *bundle) { b.config.RootFS.DiffIDs[0] = algorithm + strings.Repeat("a", 64) }), "diff_ids", nil},
		{"another processor", changed(func(b *bundle) { b.config.Architecture = "vax" }), `"linux/vax"`, nil},
		{"another version", changed(func(b *bundle) { b.config.Snapshot.Version = 2 }), "a snapshot of version 2", nil},
		{"a parent with a path", changed(func(b *bundle) { b.config.Snapshot.Parent = "../../x" }), "it is no ID", nil},
		{"a place up", changed(func(b *bundle) { b.config.Snapshot.Places[0].Path = "/../etc" }), "place", nil},
		{"a place of another kind", changed(func(b *bundle) { b.config.Snapshot.Places[0].Kind = "bind" }), "kind", nil},
		{"a place twice", changed(func(b *bundle) {
			b.config.Snapshot.Places = append(b.config.Snapshot.Places, b.config.Snapshot.Places[0])
		}), "not in order", nil},
		{"a policy digest with escapes", changed(func(b *bundle) { b.config.Snapshot.PolicyDigest = "\x1b[2J" }), "policy digest", nil},

		{"a name up", layer("../escape=x"), "leads elsewhere", nil},
		{"a name up in the middle", layer("work/../../escape=x"), "leads elsewhere", nil},
		{"an absolute name", layer("/escape=x"), "leads elsewhere", nil},
		{"a dot", layer("./work=x"), "leads elsewhere", nil},
		{"the root", layer("./"), "leads elsewhere", nil},
		{"a name of nothing", layer("work//x=x"), "leads elsewhere", nil},
		{"a long name", layer(strings.Repeat("n", 256) + "=x"), "leads elsewhere", nil},
		{"a long path", layer(strings.Repeat("d/", 2040) + strings.Repeat("f", 30) + "=x"), "leads elsewhere", nil},
		{"a name with NUL", sparse("path", "work/a\x00b"), "", tar.ErrHeader},
		{"through a link", layer("work/", "work/l -> ../../..", "work/l/escape=x"), "no directory of the layer", nil},
		{"through a link, a directory", layer("work/", "work/l -> /tmp", "work/l/escape/"), "no directory of the layer", nil},
		{"through a file", layer("work/", "work/f=1", "work/f/escape=x"), "no directory of the layer", nil},
		{"onto a link", layer("work/", "work/l -> /etc/passwd", "work/l=x"), "it is there twice", nil},
		{"a directory onto a link", layer("work/", "work/l -> /tmp", "work/l/"), "it is there twice", nil},
		{"a directory twice", layer("work/", "work/"), "it is there twice", nil},
		{"a hard link up", layer("work/", "work/h => ../../etc/passwd"), "leads elsewhere", nil},
		{"an absolute hard link", layer("work/", "work/h => /etc/passwd"), "leads elsewhere", nil},
		{"a hard link through a link", layer("work/", "work/l -> /etc", "work/h => work/l/passwd"), "hard link", unix.ELOOP},
		{"a hard link to a link", layer("work/", "work/l -> /etc/passwd", "work/h => work/l"), "which is no file", nil},
		{"a hard link to a directory", layer("work/", "work/h => work"), "which is no file", nil},
		{"a hard link to a whiteout", layer("work/", "work/.wh.x=", "work/h => work/x"), "which is no file", nil},
		{"a hard link to nothing", layer("work/", "work/h => work/x"), "", unix.ENOENT},
		{"a link to nothing", header(plain("work", tar.TypeSymlink, "")), "target", nil},
		{"a whiteout up", layer("work/", "work/.wh...="), "leads elsewhere", nil},
		{"a whiteout of nothing", layer("work/", "work/.wh.="), "leads elsewhere", nil},
		{"a whiteout of a dot", layer("work/", "work/.wh..="), "leads elsewhere", nil},
		{"a whiteout of a whiteout", layer("work/", "work/.wh..wh.x="), "a whiteout of a whiteout", nil},
		{"a whiteout with content", layer("work/", "work/.wh.x=content"), "more than a name", nil},
		{"a whiteout that is a directory", layer("work/", "work/.wh.x/"), "more than a name", nil},
		{"something in a whiteout", layer("work/", "work/.wh.x/y=1"), "something in a whiteout", nil},
		{"a whiteout onto a file", layer("work/", "work/x=1", "work/.wh.x="), "it is there twice", nil},
		{"opaque too late", layer("work/", "work/.wh.x=", "work/.wh..wh..opq="), "opaque", nil},
		{"a device", header(&tar.Header{Name: "work", Typeflag: tar.TypeBlock, Devmajor: 8}), "which is in no snapshot", nil},
		{"a character device", header(&tar.Header{Name: "work", Typeflag: tar.TypeChar}), "which is in no snapshot", nil},
		{"a FIFO", header(plain("work", tar.TypeFifo, "")), "which is in no snapshot", nil},
		{"a global header", header(&tar.Header{Typeflag: tar.TypeXGlobalHeader, Name: "work", PAXRecords: map[string]string{"path": "x"}}), "which is in no snapshot", nil},
		{"an attribute of overlayfs", raw(entry{name: "work", kind: tar.TypeDir, mode: 0o755, xattrs: map[string][]byte{"user.overlay.redirect": []byte("/etc")}}, ""), "the attribute", nil},
		{"an attribute of the system", raw(entry{name: "work", kind: tar.TypeReg, xattrs: map[string][]byte{"security.capability": []byte("x")}}, ""), "the attribute", nil},
		{"a trusted attribute", raw(entry{name: "work", kind: tar.TypeReg, xattrs: map[string][]byte{"trusted.overlay.opaque": []byte("y")}}, ""), "the attribute", nil},
		{"attributes without end", raw(entry{name: "work", kind: tar.TypeReg, xattrs: map[string][]byte{"user.x": make([]byte, maxXattrs)}}, ""), "bytes of attributes", nil},
		{"an access control list that is none", raw(entry{name: "work", kind: tar.TypeReg, xattrs: map[string][]byte{"system.posix_acl_access": []byte("x")}}, ""), "setxattr", nil},
		{"no owner", raw(entry{name: "work", kind: tar.TypeReg, uid: 1<<32 - 1}, ""), "an owner that can't be", nil},
		{"a file too large", raw(entry{name: "work", kind: tar.TypeReg, size: maxFile + 1}, ""), "", ErrTooLarge},
		{"a file cut", raw(entry{name: "work", kind: tar.TypeReg, size: 1 << 20, data: []extent{{0, 1 << 20}}}, "x"), "", ErrDamaged},
		{"data after the end", func(t *testing.T) []byte {
			return newBundle(t, append(layerOf(t, "work/"), "x"...)).tar(t)
		}, "something follows its end", nil},
		{"pieces in disorder", sparse(paxSparseMap, "2,2,0,2", paxSparseSize, "9", paxSparseCount, "2"), "", nil},
		{"pieces that overlap", sparse(paxSparseMap, "0,3,2,1", paxSparseSize, "9", paxSparseCount, "2"), "", nil},
		{"pieces behind the end", sparse(paxSparseMap, "8,4", paxSparseSize, "9", paxSparseCount, "1"), "", nil},
		{"pieces of more than there is", sparse(paxSparseMap, "0,4096", paxSparseSize, "9999", paxSparseCount, "1"), "", nil},
		{"pieces of less than there is", sparse(paxSparseMap, "0,1", paxSparseSize, "9", paxSparseCount, "1"), "", nil},
		{"a number too large", sparse(paxSparseMap, "9223372036854775807,9223372036854775807", paxSparseSize, "9", paxSparseCount, "1"), "", nil},
		{"a list cut", sparse(paxSparseMap, "0,4,8", paxSparseSize, "9", paxSparseCount, "2"), "", nil},
		{"holes of GNU 1.0", sparse(paxSparse+"major", "1", paxSparse+"minor", "0", paxSparse+"realsize", "9"), "", nil},
		{"another name for a file with holes", sparse(paxSparseMap, "0,4", paxSparseSize, "9", paxSparseCount, "1", paxSparse+"name", "../escape"), "leads elsewhere", nil},
		{"a hole too large", sparse(paxSparseMap, "0,4", paxSparseSize, "8796093022209", paxSparseCount, "1"), "", ErrTooLarge},
	} {
		attack := func(t *testing.T, noMknod bool) {
			top := t.TempDir()
			s, err := Open(filepath.Join(top, "snapshots"))
			must(t, err)
			defer s.Close()
			s.noMknod = noMknod
			_, err = s.Import(t.Context(), bytes.NewReader(c.make(t)), Limits{})
			if !errors.Is(err, ErrBundle) || !strings.Contains(err.Error(), c.wants) || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%v\nwant %s", err, c.wants)
			} else if len(err.Error()) > 1500 || strings.ContainsAny(err.Error(), "\x1b\x00") {
				t.Errorf("an error that nobody wants to read: %q", err)
			}
			nothingLeft(t, s)
			names, _ := os.ReadDir(top)
			blobs, _ := os.ReadDir(s.path + "/" + blobsDir)
			trees, _ := os.ReadDir(s.path + "/" + treesDir)
			if len(names) != 1 || len(blobs)+len(trees) != 0 {
				t.Errorf("left: %v %v %v", names, blobs, trees)
			}
		}
		t.Run(c.name, func(t *testing.T) { attack(t, false) })
		t.Run(c.name+", whiteouts by attribute", func(t *testing.T) { attack(t, true) })
	}
}

// Bombs, each of which the same bundle is without a limit.
func TestLimitsOfABundle(t *testing.T) {
	many := []string{"work/"}
	for i := range 100 {
		many = append(many, fmt.Sprintf("work/%d=", i))
	}
	bundles := map[string]struct {
		text   []byte
		limits Limits
	}{
		"names":         {newBundle(t, layerOf(t, many...)).tar(t), Limits{Names: 100}},
		"names on ways": {newBundle(t, layerOf(t, "work/"+strings.Repeat("d/", 200)+"f=1")).tar(t), Limits{Names: 150}},
		"bytes":         {newBundle(t, layerOf(t, "work="+strings.Repeat("x", 1<<20))).tar(t), Limits{Bytes: 1 << 20}},
		"layers":        {newBundle(t, layerOf(t, "a/"), layerOf(t, "b/"), layerOf(t, "c/")).tar(t), Limits{Layers: 2}},
	}
	for name, c := range bundles {
		s := newStore(t)
		if _, err := s.Import(t.Context(), bytes.NewReader(c.text), c.limits); !errors.Is(err, ErrTooLarge) || !errors.Is(err, ErrBundle) {
			t.Errorf("%s: %v", name, err)
		}
		nothingLeft(t, s)
		if _, err := s.Import(t.Context(), bytes.NewReader(c.text), Limits{}); err != nil {
			t.Errorf("%s, without a limit: %v", name, err)
		}
	}
}

// A bundle that never ends costs what the limit is, and no more; one that comes slowly ends with its context.
func TestABundleWithoutEnd(t *testing.T) {
	s := newStore(t)
	var head bytes.Buffer
	must(t, tar.NewWriter(&head).WriteHeader(&tar.Header{Name: blobsDir + "/" + digestOf(nil), Typeflag: tar.TypeReg, Size: 1 << 50, Format: tar.FormatPAX}))
	endless := io.MultiReader(&head, zeroReader{})
	if _, err := s.Import(t.Context(), endless, Limits{Bytes: 8 << 20}); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	nothingLeft(t, s)
	stopped := errors.New("stopped")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, stopped)
	defer cancel()
	if _, err := s.Import(ctx, io.MultiReader(bytes.NewReader(newBundle(t, layerOf(t, "a/")).tar(t)[:512]), slowReader{}), Limits{}); !errors.Is(err, stopped) {
		t.Error(err)
	}
	nothingLeft(t, s)
}

type zeroReader struct{}

func (zeroReader) Read(b []byte) (int, error) { clear(b); return len(b), nil }

type slowReader struct{}

func (slowReader) Read(b []byte) (int, error) { time.Sleep(time.Millisecond); b[0] = 0; return 1, nil }

// A blob that was changed on the disk is neither unpacked nor handed on.
func TestADamagedStore(t *testing.T) {
	s := newStore(t)
	id := add(t, s, "", upper(t, "/work", map[string]string{"f": "as it was"}))
	fine := add(t, s, "", upper(t, "/work", map[string]string{"g": "1"}))
	in, err := s.Get(id)
	must(t, err)
	blob := filepath.Join(s.path, blobsDir, in.Layers[0])
	text, err := os.ReadFile(blob)
	must(t, err)
	must(t, os.WriteFile(blob, bytes.Replace(text, []byte("as it was"), []byte("otherwise"), 1), 0o600))
	if _, err := s.Trees(t.Context(), id); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
	if err := s.Export(t.Context(), id, io.Discard); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
	must(t, os.WriteFile(filepath.Join(s.path, blobsDir, id), []byte("{}"), 0o600))
	if _, err := s.Get(id); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
	// The others are as they were, and it can be removed.
	trees(t, s, fine)
	if all, err := s.List(); err != nil || len(all) != 2 || all[0].Err == nil && all[1].Err == nil {
		t.Errorf("%+v %v", all, err)
	}
	add(t, s, fine, upper(t, "/work", map[string]string{"h": "1"}))
	must(t, s.Remove(id))
	nothingLeft(t, s)
}
