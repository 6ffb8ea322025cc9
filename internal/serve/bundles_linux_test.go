package serve

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/confine/confinetest"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/sandboxes"
	"github.com/confine-run/confine/internal/snapshot"
)

// hand is a bundle made by hand: what nobody but its maker vouches for.
type hand struct {
	layer      []tar.Header // with the text of regular files in Linkname
	places     string       // JSON
	digest     string       // of the layer, instead of its own
	fill       int64        // bytes of zeros of a file more in the layer
	extra      []tar.Header // in the bundle
	noManifest bool
}

func pack(t *testing.T, fill int64, all ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range all {
		text := ""
		if h.Typeflag == tar.TypeReg {
			text, h.Linkname = h.Linkname, ""
			h.Size = int64(len(text))
		}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		must.Do(t, w.WriteHeader(&h))
		_, _ = w.Write([]byte(text))
	}
	if fill > 0 {
		_ = w.WriteHeader(&tar.Header{Name: "tmp/zeros", Typeflag: tar.TypeReg, Mode: 0o644, Size: fill})
		for zeros := make([]byte, 1<<20); fill > 0; fill -= int64(len(zeros)) {
			_, _ = w.Write(zeros[:min(fill, int64(len(zeros)))])
		}
	}
	_ = w.Close()
	return b.Bytes()
}

func sum(text []byte) string { return fmt.Sprintf("%x", sha256.Sum256(text)) }

// bundle gives it with its ID.
func (h *hand) bundle(t *testing.T) (id string, text []byte) {
	layer := pack(t, h.fill, h.layer...)
	digest := sum(layer)
	if h.digest != "" {
		digest = h.digest
	}
	places := h.places
	if places == "" {
		places = `[{"path":"/tmp","kind":"private"}]`
	}
	config := fmt.Sprintf(`{"created":"2026-01-02T03:04:05Z","architecture":"%s","os":"linux","config":{},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]},"run.confine.snapshot":{"version":1,"places":%s,"left":{}}}`,
		runtime.GOARCH, digest, places)
	part := func(kind, digest string, n int) string {
		return fmt.Sprintf(`{"mediaType":"application/vnd.oci.image.%s","digest":"sha256:%s","size":%d}`, kind, digest, n)
	}
	manifest := `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":` + part("config.v1+json", sum([]byte(config)), len(config)) +
		`,"layers":[` + part("layer.v1.tar", digest, len(layer)) + `]}`
	id = sum([]byte(manifest))
	index := `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[` + part("manifest.v1+json", id, len(manifest)) + `]}`
	file := func(name, text string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeReg, Linkname: text}
	}
	all := []tar.Header{file("oci-layout", `{"imageLayoutVersion":"1.0.0"}`), file("index.json", index),
		{Name: "blobs/", Typeflag: tar.TypeDir, Mode: 0o755}, {Name: "blobs/sha256/", Typeflag: tar.TypeDir, Mode: 0o755}}
	if !h.noManifest {
		all = append(all, file("blobs/sha256/"+id, manifest))
	}
	all = append(all, file("blobs/sha256/"+sum([]byte(config)), config), file("blobs/sha256/"+digest, string(layer)))
	return id, pack(t, 0, append(all, h.extra...)...)
}

// realStore has a server keep snapshots on the disk; what sandboxes do is the mock's.
func realStore(t *testing.T, o sandboxes.Options) (string, func(*Server)) {
	dir := t.TempDir()
	mock := &confinetest.Backend{Handle: play}
	o.Backend, o.Snapshots = func(*config.Policy) backend.Backend { return mock }, dir
	return dir, func(s *Server) { s.Manager = sandboxes.New(o) }
}

// left is what is below a directory, but for the directories and files that each store has.
func left(t *testing.T, dir string) (all []string) {
	t.Helper()
	_ = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			t.Error(err)
			return nil
		}
		if rel, _ := filepath.Rel(dir, path); !e.IsDir() || strings.Contains(e.Name(), "unfinished") || strings.Contains(rel, "trees/") {
			if n := e.Name(); n != "oci-layout" && n != ".lock" && n != "index.json" {
				all = append(all, rel)
			}
		}
		return nil
	})
	return all
}

func TestABundleMadeByHandIsTakenOnlyIfItIsOne(t *testing.T) {
	dir, keep := realStore(t, sandboxes.Options{MaxSnapshotBytes: 8 << 20})
	_, c := newServer(t, keep)
	reg := func(name string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeReg, Linkname: "text"}
	}
	tmp := tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o755}
	zero := strings.Repeat("0", 64)
	for what, h := range map[string]*hand{
		"a digest that isn't the layer's":    {layer: []tar.Header{tmp, reg("tmp/a")}, digest: zero},
		"no manifest":                        {layer: []tar.Header{tmp, reg("tmp/a")}, noManifest: true},
		"a whiteout of ..":                   {layer: []tar.Header{tmp, reg("tmp/.wh...")}},
		"a whiteout of .":                    {layer: []tar.Header{tmp, reg("tmp/.wh..")}},
		"a whiteout of nothing":              {layer: []tar.Header{tmp, reg("tmp/.wh.")}},
		"a name with ..":                     {layer: []tar.Header{tmp, reg("tmp/../../a")}},
		"an absolute name":                   {layer: []tar.Header{tmp, reg("/tmp/a")}},
		"a file below a link":                {layer: []tar.Header{tmp, {Name: "tmp/l", Typeflag: tar.TypeSymlink, Linkname: "/"}, reg("tmp/l/a")}},
		"a hard link out of it":              {layer: []tar.Header{tmp, {Name: "tmp/h", Typeflag: tar.TypeLink, Linkname: "../../../etc/passwd"}}},
		"a device":                           {layer: []tar.Header{tmp, {Name: "tmp/d", Typeflag: tar.TypeBlock, Devmajor: 8}}},
		"a place with ..":                    {layer: []tar.Header{tmp}, places: `[{"path":"/tmp/../etc","kind":"private"}]`},
		"a blob that nobody needs, outside":  {layer: []tar.Header{tmp}, extra: []tar.Header{reg("../../escaped")}},
		"a link in the bundle":               {layer: []tar.Header{tmp}, extra: []tar.Header{{Name: "blobs/sha256/" + zero, Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}}},
		"more bytes than the owner may have": {layer: []tar.Header{tmp}, fill: 9 << 20},
	} {
		id, text := h.bundle(t)
		answer, body := c.send("PUT", "/v1/snapshots/"+id, string(text))
		if answer.StatusCode != 422 && answer.StatusCode != 413 {
			t.Errorf("%s: %s %s", what, answer.Status, body)
		}
		c.refused(404, codeNotFound, "GET", "/v1/snapshots/"+id, nil)
	}
	good := &hand{layer: []tar.Header{tmp, reg("tmp/a"), {Name: "tmp/.wh.gone", Typeflag: tar.TypeReg, Mode: 0o644}}}
	id, text := good.bundle(t)
	c.refused(422, codeBundle, "PUT", "/v1/snapshots/"+zero, string(text))
	c.refused(422, codePolicy, "PUT", "/v1/snapshots/name", string(text))
	for _, junk := range []string{"", "junk", strings.Repeat("\x00", 2048), string(text[:len(text)/2]), "\x1f\x8b\x08" + strings.Repeat("x", 600)} {
		c.refused(422, codeBundle, "PUT", "/v1/snapshots/"+id, junk)
	}
	if all := left(t, dir); len(all) != 0 {
		t.Errorf("left behind: %q", all)
	}
	var d snapshotDoc
	if c.want(201, "PUT", "/v1/snapshots/"+id, string(text), &d); d.ID != id || d.Holds != "files" || len(d.Places) != 1 {
		t.Errorf("%+v", d)
	}
	c.want(200, "PUT", "/v1/snapshots/"+id, string(text), nil)
	_, again := c.send("GET", "/v1/snapshots/"+id, nil)
	c.want(204, "DELETE", "/v1/snapshots/"+id, nil, nil)
	c.want(201, "PUT", "/v1/snapshots/"+id, string(again), nil)
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 || strings.Contains(entries[0].Name(), "uid") {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestQuotasOfUploadsAreSeenBeforeTheBodyIs(t *testing.T) {
	_, keep := realStore(t, sandboxes.Options{MaxSnapshots: 1})
	_, c := newServer(t, keep)
	tmp := tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o755}
	id, text := (&hand{layer: []tar.Header{tmp}}).bundle(t)
	c.want(201, "PUT", "/v1/snapshots/"+id, string(text), nil)
	other, text := (&hand{layer: []tar.Header{tmp}, places: "[]"}).bundle(t)
	c.refused(429, codeQuota, "PUT", "/v1/snapshots/"+other, string(text))
	c.want(204, "DELETE", "/v1/snapshots/"+id, nil, nil)
	if answer, body := c.send("PUT", "/v1/snapshots/"+other, string(text)); answer.StatusCode != 201 && answer.StatusCode != 422 {
		t.Errorf("%s %s", answer.Status, body)
	}
}

// Clients that leave in the middle of an upload or a download: no goroutine, no descriptor and no file is left of them.
func TestClientsThatLeaveInTheMiddleOfABundleLeaveNothing(t *testing.T) {
	dir, keep := realStore(t, sandboxes.Options{})
	_, c := newServer(t, keep)
	tmp := tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o755}
	id, text := (&hand{layer: []tar.Header{tmp}, fill: 32 << 20}).bundle(t)
	c.want(201, "PUT", "/v1/snapshots/"+id, string(text), nil)
	other, more := (&hand{layer: []tar.Header{tmp, {Name: "tmp/x", Typeflag: tar.TypeReg, Linkname: "x"}}, fill: 4 << 20}).bundle(t)
	before := left(t, dir)
	attempt := func() {
		c.leave(fmt.Sprintf("PUT /v1/snapshots/%s HTTP/1.1\r\nHost: c\r\nContent-Length: %d\r\n\r\n%s", other, len(more), more[:len(more)/2]))
		c.leave(fmt.Sprintf("PUT /v1/snapshots/%s HTTP/1.1\r\nHost: c\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s", other, len(more), more[:1000]))
		conn, err := c.Transport.(*http.Transport).DialContext(t.Context(), "", "")
		must.Do(t, err)
		fmt.Fprintf(conn, "GET /v1/snapshots/%s HTTP/1.1\r\nHost: c\r\n\r\n", id)
		_, _ = conn.Read(make([]byte, 64<<10))
		_ = conn.Close()
	}
	attempt()
	descriptors := func() int {
		all, err := os.ReadDir("/proc/self/fd")
		must.Do(t, err)
		return len(all)
	}
	rest := func(goroutines, files int) (g, f int, same bool) {
		for range 400 {
			g, f = runtime.NumGoroutine(), descriptors()
			if g <= goroutines && f <= files && len(left(t, dir)) == len(before) {
				return g, f, true
			}
			time.Sleep(25 * time.Millisecond)
		}
		return g, f, false
	}
	time.Sleep(500 * time.Millisecond)
	goroutines, files := runtime.NumGoroutine(), descriptors()
	for range 20 {
		attempt()
	}
	if g, f, same := rest(goroutines, files); !same {
		t.Errorf("%d goroutines and %d descriptors, before %d and %d; files %q, before %q", g, f, goroutines, files, left(t, dir), before)
	}
	c.want(201, "PUT", "/v1/snapshots/"+other, string(more), nil) // it is still there for others
}

// A killed server leaves what the next one sweeps: never a half snapshot.
func TestHalfABundleIsNoSnapshot(t *testing.T) {
	dir, keep := realStore(t, sandboxes.Options{})
	_, c := newServer(t, keep)
	store := sandboxes.SnapshotDir(dir, OwnerOf(os.Geteuid()))
	must.Do(t, os.MkdirAll(filepath.Join(store, ".unfinished-ABC"), 0o700))
	var all struct{ Snapshots []snapshotDoc }
	if c.want(200, "GET", "/v1/snapshots", nil, &all); len(all.Snapshots) != 0 {
		t.Errorf("%+v", all)
	}
	id, text := (&hand{layer: []tar.Header{{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o755}}}).bundle(t)
	c.want(201, "PUT", "/v1/snapshots/"+id, string(text), nil)
	if _, err := os.Lstat(filepath.Join(store, ".unfinished-ABC")); !os.IsNotExist(err) {
		t.Errorf("it was not swept: %v", err)
	}
	if !snapshot.ValidID(id) {
		t.Error(id)
	}
}
