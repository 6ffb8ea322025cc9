package image

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/must"
)

func diffID(layer []byte) string {
	sum := sha256.Sum256(layer)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// newSaved is a directory as docker save wrote it: the second layer is a link.
func newSaved(t *testing.T, config object, images int, layers ...[]byte) string {
	t.Helper()
	dir := t.TempDir()
	text := document(t, config)
	name := strings.TrimPrefix(diffID(text), "sha256:") + ".json"
	write(t, filepath.Join(dir, name), text)
	var names []string
	for i, l := range layers {
		n := string(rune('a'+i)) + "/layer.tar"
		names = append(names, n)
		write(t, filepath.Join(dir, "kept", n), l)
		must.Do(t, os.Mkdir(filepath.Join(dir, filepath.Dir(n)), 0o755))
		must.Do(t, os.Symlink("../kept/"+n, filepath.Join(dir, n)))
	}
	var all []object
	for i := range images {
		all = append(all, object{"Config": name, "RepoTags": []string{"it:" + string(rune('1'+i))}, "Layers": names})
	}
	write(t, filepath.Join(dir, "manifest.json"), document(t, all))
	return dir
}

func write(t testing.TB, name string, content []byte) {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(name), 0o755))
	must.Do(t, os.WriteFile(name, content, 0o644))
}

// tarOf is a directory as a tar.
func tarOf(t testing.TB, dir string) string {
	t.Helper()
	var members []member
	err := filepath.Walk(dir, func(p string, st os.FileInfo, err error) error {
		switch {
		case err != nil || p == dir:
		case st.Mode().IsRegular():
			text, _ := os.ReadFile(p)
			members = append(members, member(p[len(dir)+1:]+"="+string(text)))
		case st.Mode()&os.ModeSymlink != 0:
			to, _ := os.Readlink(p)
			members = append(members, member(p[len(dir)+1:]+" -> "+to))
		}
		return err
	})
	must.Do(t, err)
	return newFile(t, archive(t, members...))
}

func TestWhatDockerSavedIsTheImageInIt(t *testing.T) {
	first, second := archive(t, "f=1", "g=1"), archive(t, ".wh.g", "h=2")
	ids := object{"diff_ids": []string{diffID(first), diffID(second)}}
	run := object{"Env": []string{"PATH=/opt"}, "WorkingDir": "/srv"}
	for name, c := range map[string]struct {
		config object
		images int
		layers [][]byte
		want   error // nil: taken
	}{
		"as it was":        {object{"config": run, "rootfs": ids}, 1, [][]byte{first, second}, nil},
		"another layer":    {object{"config": run, "rootfs": ids}, 1, [][]byte{first, archive(t, "h=3")}, ErrDamaged},
		"layers exchanged": {object{"config": run, "rootfs": ids}, 1, [][]byte{second, first}, ErrDamaged},
		"a layer less":     {object{"config": run, "rootfs": ids}, 1, [][]byte{first}, ErrDamaged},
		"no digests":       {object{"config": run}, 1, [][]byte{first, second}, ErrDamaged},
		"several":          {object{"config": run, "rootfs": ids}, 2, [][]byte{first, second}, errSeveral},
		"another platform": {object{"config": run, "rootfs": ids, "os": "linux", "architecture": another}, 1, [][]byte{first, second}, ErrPlatform},
	} {
		dir := newSaved(t, c.config, c.images, c.layers...)
		for _, src := range []string{dir, tarOf(t, dir)} {
			if !Is(src) {
				t.Errorf("%s: %s is no image", name, src)
			}
			tree, err := unpackNew(t, src)
			if !errors.Is(err, c.want) {
				t.Errorf("%s: %v", name, err)
			}
			if c.want == errSeveral && err != nil && !strings.Contains(err.Error(), `"it:1", "it:2"`) {
				t.Errorf("the names are missing: %v", err)
			}
			if err != nil {
				continue
			}
			if got := contents(t, tree.Root); got != "f=1 h=2" || tree.Path != "/opt" || tree.Dir != "/srv" {
				t.Errorf("%s: %s %+v", name, got, tree.Meta)
			}
			if names, _ := os.ReadDir(filepath.Dir(tree.Root)); len(names) != 2 {
				t.Errorf("%d names are left", len(names))
			}
		}
	}
	// The name of the configuration is a digest, too.
	dir := newSaved(t, object{"rootfs": ids}, 1, first, second)
	names, _ := filepath.Glob(filepath.Join(dir, "????????*[0-9a-f].json"))
	for _, n := range names {
		if filepath.Base(n) != "manifest.json" {
			write(t, n, document(t, object{"config": run, "rootfs": ids}))
		}
	}
	if _, err := unpackNew(t, dir); !errors.Is(err, ErrDamaged) {
		t.Errorf("another configuration: %v", err)
	}
}

func TestATreeWithAManifestOfItsOwnIsATree(t *testing.T) {
	for _, text := range []string{`{"name": "web"}`, `[{"Config": "none.json", "Layers": ["l"]}]`, `[]`, `[{"Config": "f", "Layers": []}]`, `no`} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "manifest.json"), []byte(text))
		write(t, filepath.Join(dir, "index.json"), []byte("{}"))
		write(t, filepath.Join(dir, "f"), nil)
		if Is(dir) {
			t.Errorf("%s: the directory is taken for an image", text)
		}
		tree, err := unpackNew(t, tarOf(t, dir))
		if err != nil || !strings.Contains(contents(t, tree.Root), "manifest.json="+text) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestALayoutThatIsNotMarkedIsNoTree(t *testing.T) {
	dir := newLayout(t, archive(t, "f=1"))
	must.Do(t, os.Remove(filepath.Join(dir, "oci-layout")))
	for _, src := range []string{dir, tarOf(t, dir)} {
		_, err := unpackNew(t, src)
		if !Is(src) || !errors.Is(err, errUnmarked) || !strings.Contains(Remedy(err), "oci-layout") {
			t.Errorf("%s: %v", src, err)
		}
	}
}

func TestWhatALayoutSaysOfItsLayersHolds(t *testing.T) {
	layer := archive(t, "f=1")
	for name, c := range map[string]struct {
		config object
		size   any
		want   error
	}{
		"right":        {object{"rootfs": object{"diff_ids": []string{diffID(layer)}}}, len(layer), nil},
		"nothing said": {object{}, nil, nil},
		"another size": {object{}, len(layer) + 1, ErrDamaged},
		"another":      {object{"rootfs": object{"diff_ids": []string{diffID([]byte("x"))}}}, len(layer), ErrDamaged},
		"one more":     {object{"rootfs": object{"diff_ids": []string{diffID(layer), diffID(layer)}}}, len(layer), ErrDamaged},
	} {
		dir := t.TempDir()
		l := store(t, dir, layer)
		l["size"] = c.size
		m := store(t, dir, document(t, object{"config": store(t, dir, document(t, c.config)), "layers": []object{l}}))
		index(t, dir, m)
		if _, err := unpackNew(t, dir); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		m["size"] = 7 // of a document
		index(t, dir, m)
		if _, err := unpackNew(t, dir); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s, a manifest of another size: %v", name, err)
		}
	}
}

func TestOneOfSeveralIsNotGuessed(t *testing.T) {
	named := func(dir string, names ...string) string {
		c := store(t, dir, document(t, object{}))
		var all []object
		for _, n := range names {
			m := store(t, dir, document(t, object{"config": c, "layers": []object{}, "of": strings.TrimSuffix(n, " again")}))
			m["annotations"] = object{"org.opencontainers.image.ref.name": n}
			m["platform"] = object{"os": "linux", "architecture": runtime.GOARCH}
			all = append(all, m)
		}
		index(t, dir, all...)
		return dir
	}
	_, err := Unpack(t.Context(), named(t.TempDir(), "one", "two"), filepath.Join(t.TempDir(), "c"))
	if !errors.Is(err, errSeveral) || !strings.Contains(err.Error(), `"one", "two"`) || !strings.Contains(Remedy(err), "skopeo copy") {
		t.Errorf("%v", err)
	}
	if _, err := Unpack(t.Context(), named(t.TempDir(), "one", "one again"), filepath.Join(t.TempDir(), "c")); err != nil {
		t.Errorf("two names of one image: %v", err)
	}
}
