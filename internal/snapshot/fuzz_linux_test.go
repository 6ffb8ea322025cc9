package snapshot

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

func FuzzIndex(f *testing.F) {
	f.Add([]byte(`{"schemaVersion":2,"mediaType":"` + typeIndex + `","manifests":[]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		x, err := parseIndex(text)
		if err != nil {
			return
		}
		for _, d := range x.Manifests {
			if name, err := d.blob(); err != nil || !ValidID(name) {
				t.Errorf("%q %v", name, err)
			}
		}
	})
}

func FuzzDocuments(f *testing.F) {
	b := newBundle(f, layerOf(f, "work/")).seal()
	m, _ := json.Marshal(b.manifest)
	c, _ := json.Marshal(b.config)
	f.Add(m, c)
	f.Fuzz(func(t *testing.T, m, c []byte) {
		doc, layers, err := parseManifest(m)
		if err != nil {
			return
		}
		for _, name := range layers {
			if !ValidID(name) {
				t.Errorf("layer %q", name)
			}
		}
		about, _, err := parseConfig(c, doc)
		if err != nil {
			return
		}
		for _, p := range about.Snapshot.Places {
			if !filepath.IsAbs(p.Path) || filepath.Clean(p.Path) != p.Path {
				t.Errorf("place %q", p.Path)
			}
		}
	})
}

// Whatever a layer says, nothing is made but below its tree, and all of it can be removed again; what is taken is what the
// standard library sees in it.
func FuzzLayer(f *testing.F) {
	f.Add(layerOf(f, "work/", "work/f=1", "work/d/", "work/d/l -> ../../../etc/passwd", "work/h => work/f", "work/.wh.gone="))
	f.Add(layerOf(f, "work/", "work/.wh..wh..opq=", "work/d=2", "a/b/c/"))
	f.Add(entryBytes(f, &entry{name: "work", kind: tar.TypeReg, size: 9 << 20, data: []extent{{0, 4}, {1 << 20, 4}}, xattrs: map[string][]byte{"user.x": []byte("y")}, mtime: -5}, "wordword"))
	f.Fuzz(func(t *testing.T, text []byte) {
		top := t.TempDir()
		must(t, os.Mkdir(top+"/tree", 0o700))
		defer wipe(t, top+"/tree")
		must(t, os.WriteFile(top+"/beside", []byte("beside"), 0o600))
		root, err := unix.Open(top+"/tree", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		must(t, err)
		defer unix.Close(root)
		u := &unpacker{ctx: t.Context(), root: root, budget: &budget{names: 1000, bytes: 16 << 20, space: 16 << 20}}
		err = u.unpack(bytes.NewReader(text))
		beside, err2 := os.ReadFile(top + "/beside")
		names, err3 := os.ReadDir(top)
		if string(beside) != "beside" || len(names) != 2 {
			t.Errorf("what lies beside the tree: %q %v %v", beside, names, errors.Join(err2, err3))
		}
		if err != nil {
			return
		}
		for r := tar.NewReader(bytes.NewReader(text)); ; {
			h, err := r.Next()
			if err == io.EOF {
				return
			}
			if err != nil {
				t.Fatalf("it was taken, and isn't understood by others: %v", err)
			}
			dir, name := filepath.Split(filepath.Clean(h.Name))
			if len(name) > len(whiteout) && name[:len(whiteout)] == whiteout {
				continue
			}
			var st unix.Stat_t
			err = unix.Fstatat(root, filepath.Join(dir, name), &st, unix.AT_SYMLINK_NOFOLLOW)
			if err == unix.EACCES {
				continue // in a closed directory
			}
			must(t, err)
			if h.Typeflag == tar.TypeReg && st.Size != h.Size {
				t.Errorf("%q: %d bytes, and others see %d", h.Name, st.Size, h.Size)
			}
		}
	})
}

// What is written is read as it was.
func FuzzHeader(f *testing.F) {
	f.Add("a/b", "", int64(5), uint32(0o644), "user.x=", []byte("v"), int64(1<<20), int64(9))
	f.Add("\xff", "", int64(-1), uint32(0), "user.%", []byte("\x00\n"), int64(0), int64(0))
	f.Fuzz(func(t *testing.T, name, link string, mtime int64, mode uint32, xattr string, value []byte, size, at int64) {
		e := &entry{name: name, kind: tar.TypeReg, mode: mode & 0o7777, mtime: mtime, uid: mode >> 3, gid: mode << 2 & (1<<31 - 1)}
		if !linux.ValidPath(name) || size < 0 || size > maxFile {
			return
		}
		if link != "" {
			if len(link) > linux.MaxPath || bytes.IndexByte([]byte(link), 0) >= 0 {
				return
			}
			e.kind, e.link = tar.TypeSymlink, link
		} else {
			if e.size = size; at > 0 && at < size {
				e.data = []extent{{at, size - at}}
			}
			if linux.OwnXattr(xattr) && len(value) < 1000 {
				e.xattrs = map[string][]byte{xattr: value}
			}
		}
		head, err := e.header()
		must(t, err)
		r := bytes.NewReader(head)
		back, err := readEntry(r)
		must(t, err)
		again, err := back.header()
		must(t, err)
		if r.Len() != 0 || !bytes.Equal(head, again) {
			t.Errorf("%+v\n%+v", e, back)
		}
	})
}
