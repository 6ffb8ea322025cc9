package snapshot

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Export writes a tar of an image layout with this snapshot alone, and without its names. An error can come
// when most of it was written.
func (s *Store) Export(ctx context.Context, id string, w io.Writer) (err error) {
	parts, err := s.parts(id)
	defer func() {
		for _, p := range parts {
			_ = p.file.Close()
		}
	}()
	if err != nil {
		return err
	}
	text, err := json.Marshal(index{SchemaVersion: 2, MediaType: typeIndex, Manifests: []descriptor{parts[0].descriptor}})
	if err != nil {
		return err
	}
	out := tar.NewWriter(w)
	for _, small := range []struct{ name, text string }{{layoutName, layoutFile}, {indexName, string(text)}, {blobsName + "/", ""}, {blobsDir + "/", ""}} {
		h := &tar.Header{Name: small.name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(small.text))}
		if strings.HasSuffix(h.Name, "/") {
			h.Typeflag, h.Mode = tar.TypeDir, 0o755
		}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.WriteString(out, small.text); err != nil {
			return err
		}
	}
	for _, p := range parts {
		if err := p.export(ctx, out); err != nil {
			return err
		}
	}
	return out.Close()
}

// part is a blob that is open.
type part struct {
	descriptor
	file *os.File
}

// parts are all blobs of a snapshot, the manifest first. Once they are open it can be removed.
func (s *Store) parts(id string) (all []part, err error) {
	if _, err := s.Get(id); err != nil {
		return nil, err
	}
	m, _, err := s.manifest(id)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, d := range slices.Concat([]descriptor{{MediaType: typeManifest, Digest: algorithm + id}, m.Config}, m.Layers) {
		if seen[d.Digest] {
			continue
		}
		seen[d.Digest] = true
		name, err := d.blob()
		if err != nil {
			return all, err
		}
		f, err := openBeneathFile(s.fd(), blobsDir+"/"+name)
		if err != nil {
			return all, fmt.Errorf("%w: %s: %w", ErrDamaged, name, err)
		}
		all = append(all, part{d, f})
		st, err := f.Stat()
		if err != nil {
			return all, err
		}
		all[len(all)-1].Size = st.Size()
	}
	return all, nil
}

func (p *part) export(ctx context.Context, out *tar.Writer) error {
	name, _ := p.blob()
	if err := out.WriteHeader(&tar.Header{Name: blobsDir + "/" + name, Typeflag: tar.TypeReg, Mode: 0o644, Size: p.Size}); err != nil {
		return err
	}
	sum := sha256.New()
	if _, err := io.CopyBuffer(struct{ io.Writer }{out}, io.TeeReader(until{ctx, p.file}, sum), make([]byte, 256<<10)); err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != name {
		return fmt.Errorf("%w: %s: the content has another digest", ErrDamaged, name)
	}
	return nil
}

// until is a stream that ends with ctx.
type until struct {
	ctx  context.Context
	from io.Reader
}

func (u until) Read(b []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, context.Cause(u.ctx)
	}
	return u.from.Read(b)
}

// Import takes what Export wrote, from whomever it comes: it is checked to the last entry of the last layer, which
// is by unpacking it, before anything of it is in the store. The bundle can say nothing about names.
func (s *Store) Import(ctx context.Context, r io.Reader, l Limits) (id string, err error) {
	w, err := s.begin(ctx)
	if err != nil {
		return "", err
	}
	defer s.end(w)
	l = l.orDefault()
	b, err := newBudget(w.fd, l)
	if err != nil {
		return "", err
	}
	im := &importer{ctx: ctx, folder: s.folder, w: w, budget: b, limits: l, blobs: map[string]int64{}}
	if err := im.read(r); err != nil {
		return "", im.refused(err)
	}
	top, m, layers, err := im.check()
	if err != nil {
		return "", im.refused(err)
	}
	id, _ = top.blob()
	if l.ID != "" && id != l.ID {
		return "", fmt.Errorf("%w: %s", ErrOther, id)
	}
	trees, err := im.unpack(layers)
	if err != nil {
		return "", im.refused(err)
	}
	config, _ := m.Config.blob()
	blobs := append(slices.Clone(trees), config, id)
	return id, s.commit(ctx, w, top, blobs, trees, layers)
}

// importer has a bundle in its work directory, each blob under its digest.
type importer struct {
	*folder
	ctx    context.Context
	w      *work
	budget *budget
	limits Limits

	layoutText, indexText []byte
	blobs                 map[string]int64 // with their sizes
}

// refused marks an error of the bundle; others are of this host, or of the caller.
func (im *importer) refused(err error) error {
	if im.ctx.Err() != nil {
		return context.Cause(im.ctx)
	}
	if ofHost(err) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrBundle, err)
}

// maxPadding is how many zeros may follow the end of a tar: programs write blocks of many.
const maxPadding = 1 << 20

func (im *importer) read(from io.Reader) error {
	from = until{im.ctx, from}
	r := tar.NewReader(from)
	for n := 0; ; n++ {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("the tar: %w", err)
		}
		if n > im.limits.Layers+16 {
			return fmt.Errorf("more than %d files: %w", n, ErrTooLarge)
		}
		if err := im.file(h, r); err != nil {
			return fmt.Errorf("%.200q: %w", h.Name, err)
		}
	}
	rest, err := io.ReadAll(io.LimitReader(from, maxPadding+1))
	if err != nil {
		return err
	}
	if len(rest) > maxPadding || len(strings.Trim(string(rest), "\x00")) > 0 {
		return errors.New("something follows the end of the tar")
	}
	return nil
}

// file takes one file of the bundle.
func (im *importer) file(h *tar.Header, from io.Reader) error {
	if h.Typeflag == tar.TypeDir && (h.Name == blobsName+"/" || h.Name == blobsDir+"/") {
		return nil
	}
	for k := range h.PAXRecords {
		if strings.HasPrefix(k, paxSparse) {
			return errors.New("it has holes")
		}
	}
	if h.Typeflag != tar.TypeReg {
		return fmt.Errorf("it is of the kind %q, which is in no bundle", h.Typeflag)
	}
	name, ok := strings.CutPrefix(h.Name, blobsDir+"/")
	switch {
	case ok && ValidID(name):
		return im.blob(name, from)
	case h.Name == layoutName && im.layoutText == nil:
		return readSmall(&im.layoutText, from)
	case h.Name == indexName && im.indexText == nil:
		return readSmall(&im.indexText, from)
	case h.Name == layoutName || h.Name == indexName:
		return errors.New("it is there twice")
	}
	return errors.New("it is no file of a bundle")
}

// readSmall reads a document of the bundle.
func readSmall(to *[]byte, from io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(from, maxDocument+1))
	if err == nil && len(text) > maxDocument {
		err = fmt.Errorf("more than %d bytes: %w", maxDocument, ErrTooLarge)
	}
	*to = append([]byte{}, text...)
	return err
}

// blob writes one to the disk, and holds it against its name.
func (im *importer) blob(name string, from io.Reader) error {
	if _, ok := im.blobs[name]; ok {
		return errors.New("it is there twice")
	}
	if err := im.at("blob"); err != nil {
		return err
	}
	fd, err := unix.Openat(im.w.fd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	to := &metered{f: f, sum: sha256.New(), budget: im.budget}
	if _, err := io.CopyBuffer(to, struct{ io.Reader }{from}, make([]byte, 256<<10)); err != nil {
		return err
	}
	if hex.EncodeToString(to.sum.Sum(nil)) != name {
		return errors.New("the content has another digest")
	}
	im.blobs[name] = to.size
	return f.Sync()
}

// metered is a file that is paid for, and its digest.
type metered struct {
	f      *os.File
	sum    hash.Hash
	budget *budget
	size   int64
}

func (m *metered) Write(b []byte) (int, error) {
	if err := m.budget.take(int64(len(b))); err != nil {
		return 0, err
	}
	m.sum.Write(b)
	n, err := m.f.Write(b)
	m.size += int64(n)
	return n, err
}

// check holds the documents against each other: nothing is missing, and nothing is there beside.
func (im *importer) check() (top descriptor, m *manifest, layers []string, err error) {
	var layout struct {
		Version string `json:"imageLayoutVersion"`
	}
	if err := json.Unmarshal(im.layoutText, &layout); err != nil || layout.Version != "1.0.0" {
		return top, nil, nil, fmt.Errorf("%s: it is missing, or of the version %.100q", layoutName, layout.Version)
	}
	if im.indexText == nil {
		return top, nil, nil, fmt.Errorf("%s is missing", indexName)
	}
	x, err := parseIndex(im.indexText)
	if err != nil {
		return top, nil, nil, err
	}
	if len(x.Manifests) != 1 {
		return top, nil, nil, fmt.Errorf("index.json: %d manifests: it takes one", len(x.Manifests))
	}
	text, err := im.document(&x.Manifests[0])
	if err != nil {
		return top, nil, nil, err
	}
	if m, layers, err = parseManifest(text); err != nil {
		return top, nil, nil, err
	}
	if len(layers) > im.limits.Layers {
		return top, nil, nil, fmt.Errorf("%d layers: %w", len(layers), ErrTooLarge)
	}
	about, err := im.document(&m.Config)
	if err != nil {
		return top, nil, nil, err
	}
	if _, _, err := parseConfig(about, m); err != nil {
		return top, nil, nil, err
	}
	needed := map[string]bool{}
	for _, d := range slices.Concat([]descriptor{x.Manifests[0], m.Config}, m.Layers) {
		name, _ := d.blob()
		if err := im.sized(&d); err != nil {
			return top, nil, nil, err
		}
		needed[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(im.blobs)) {
		if !needed[name] {
			return top, nil, nil, fmt.Errorf("%s: it is part of nothing", name)
		}
	}
	top = descriptor{MediaType: typeManifest, Digest: x.Manifests[0].Digest, Size: x.Manifests[0].Size}
	return top, m, layers, nil
}

func (im *importer) sized(d *descriptor) error {
	name, _ := d.blob()
	size, ok := im.blobs[name]
	if !ok {
		return fmt.Errorf("%s is missing", name)
	}
	if size != d.Size {
		return fmt.Errorf("%s: it has %d bytes, and is to have %d", name, size, d.Size)
	}
	return nil
}

func (im *importer) document(d *descriptor) ([]byte, error) {
	if err := im.sized(d); err != nil {
		return nil, err
	}
	name, _ := d.blob()
	return readFile(im.w.fd, name)
}

// unpack makes the trees of the layers, each once, and gives their names.
func (im *importer) unpack(layers []string) (all []string, err error) {
	for _, name := range layers {
		if slices.Contains(all, name) {
			continue
		}
		all = append(all, name)
		f, err := openFile(im.w.fd, name)
		if err != nil {
			return nil, err
		}
		err = im.unpackLayer(im.ctx, im.w, name, f, im.budget)
		_ = f.Close()
		if err != nil {
			return nil, fmt.Errorf("layer %s: %w", name, err)
		}
	}
	return all, nil
}
