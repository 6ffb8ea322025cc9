package image

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

// Bounds of what an image may say about itself.
const (
	maxDocument = 4 << 20 // bytes of an index, manifest or configuration
	maxLayers   = 256
	maxNested   = 4 // indexes in indexes
)

type descriptor struct {
	MediaType   string
	Digest      string
	Size        *int64 // where that is said
	Platform    *struct{ Architecture, OS string }
	Annotations map[string]string

	file   string // where docker save says that it is; else its digest is its name
	diffID string // the digest of what is in a layer, where that is said
}

type manifest struct {
	Manifests []descriptor // of an index
	Config    descriptor
	Layers    []descriptor

	docker bool // nothing but the configuration says what its layers are
}

type config struct {
	Architecture, OS string
	Config           struct {
		Env        []string
		WorkingDir string
	}
	RootFS struct {
		DiffIDs []string `json:"diff_ids"`
	}
}

// layout is an OCI image layout on disk.
type layout struct{ dir string }

// isLayout says whether dir has the file that marks one.
func isLayout(dir string) bool { return hasFile(dir, "oci-layout") }

func hasFile(dir, name string) bool {
	st, err := os.Lstat(filepath.Join(dir, name))
	return err == nil && st.Mode().IsRegular()
}

// isUnmarked says whether dir is an image layout that lacks the file by which it is told.
func isUnmarked(dir string) bool {
	blobs, err := os.Lstat(filepath.Join(dir, "blobs", "sha256"))
	return err == nil && blobs.IsDir() && hasFile(dir, "index.json") && !isLayout(dir)
}

// isImage says whether dir holds an image of whatever form, and isn't a tree.
func isImage(dir string) bool { return isLayout(dir) || isDocker(dir) || isUnmarked(dir) }

// find gives the manifest for this platform, and its digest.
func (l layout) find() (m manifest, digest string, err error) {
	if !isLayout(l.dir) {
		if isDocker(l.dir) {
			return l.docker()
		}
		return m, "", errUnmarked
	}
	text, err := l.read("index.json")
	if err != nil {
		return m, "", err
	}
	for range maxNested {
		m = manifest{}
		if err := json.Unmarshal(text, &m); err != nil {
			return m, "", fmt.Errorf("%w: index or manifest: %w", ErrDamaged, err)
		}
		if len(m.Manifests) == 0 {
			if digest == "" || len(m.Layers) > maxLayers {
				return m, "", fmt.Errorf("has no manifest, or one of more than %d layers", maxLayers)
			}
			return m, digest, nil
		}
		d, err := choose(m.Manifests)
		if err != nil {
			return m, "", err
		}
		if text, err = l.document(d); err != nil {
			return m, "", err
		}
		digest = d.Digest
	}
	return m, "", errors.New("has indexes in indexes without end")
}

// choose takes the manifest for this platform. One that names none, alone, is for any.
func choose(list []descriptor) (descriptor, error) {
	var fits []descriptor
	var others []string
	for _, d := range list {
		switch p := d.Platform; {
		case p == nil || p.OS == "" || p.OS == "linux" && p.Architecture == runtime.GOARCH:
			fits = append(fits, d)
		case p.OS != "unknown" && len(others) < 8: // those are signatures and the like
			others = append(others, strconv.Quote(p.OS+"/"+p.Architecture))
		}
	}
	if len(fits) == 0 && others != nil {
		return descriptor{}, fmt.Errorf("%w: it is for %s, and this host is linux/%s", ErrPlatform, strings.Join(others, ", "), runtime.GOARCH)
	}
	if fits = distinct(fits); len(fits) == 0 {
		return descriptor{}, fmt.Errorf("has no image for linux/%s", runtime.GOARCH)
	}
	if len(fits) != 1 {
		var names []string
		for _, d := range fits {
			if n := cmp.Or(d.Annotations["org.opencontainers.image.ref.name"], d.Annotations["io.containerd.image.name"]); n != "" {
				names = append(names, strconv.Quote(n))
			}
		}
		return descriptor{}, several(len(fits), names)
	}
	return fits[0], nil
}

// distinct leaves one of several names of one image.
func distinct(list []descriptor) (all []descriptor) {
	for _, d := range list {
		if !slices.ContainsFunc(all, func(o descriptor) bool { return o.Digest == d.Digest }) {
			all = append(all, d)
		}
	}
	return all
}

// several is the error that more than one image is, with those names that they have.
func several(n int, names []string) error {
	text := ""
	if len(names) > 8 {
		names = append(names[:8], "…")
	}
	if names != nil {
		text = ": " + strings.Join(names, ", ")
	}
	return fmt.Errorf("%w: %d for linux/%s%s", errSeveral, n, runtime.GOARCH, text)
}

// hexOf checks the form of a digest, which becomes a name.
func hexOf(digest string) (string, error) {
	name, ok := strings.CutPrefix(digest, "sha256:")
	if raw, err := hex.DecodeString(name); !ok || err != nil || len(raw) != sha256.Size || strings.ToLower(name) != name {
		return "", fmt.Errorf("digest %q: it takes sha256:HEX", digest)
	}
	return name, nil
}

func (l layout) blob(d descriptor) (*os.File, error) {
	if d.file != "" {
		return l.open(d.file)
	}
	name, err := hexOf(d.Digest)
	if err != nil {
		return nil, err
	}
	return l.open("blobs/sha256/" + name)
}

// open opens a file of the layout. Links in it may lead about in it: what the maker of
// an image says is a part of it must not be a file of the user's.
func (l layout) open(name string) (*os.File, error) {
	dir, err := os.OpenFile(l.dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	fd, err := linux.Openat2(int(dir.Fd()), name, &unix.OpenHow{
		Flags: unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		if err = (&os.PathError{Op: "openat2", Path: filepath.Join(l.dir, name), Err: err}); errors.Is(err, unix.ENOENT) {
			err = fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		return nil, err
	}
	return regular(os.NewFile(uintptr(fd), filepath.Join(l.dir, name)))
}

// read reads a small file of the layout.
func (l layout) read(name string) ([]byte, error) {
	f, err := l.open(name)
	if err != nil {
		return nil, err
	}
	return readAll(f)
}

// document reads a small blob, and verifies it.
func (l layout) document(d descriptor) ([]byte, error) {
	f, err := l.blob(d)
	if err != nil {
		return nil, err
	}
	text, err := readAll(f)
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	sum.Write(text)
	if err := matches(sum, d.Digest); err != nil {
		return nil, err
	}
	return text, d.sized(int64(len(text)))
}

// sized holds the size of a blob against what is said of it.
func (d descriptor) sized(n int64) error {
	if d.Size != nil && *d.Size != n {
		return fmt.Errorf("%w: %s: it has %d bytes, and is to have %d", ErrDamaged, d.Digest, n, *d.Size)
	}
	return nil
}

// meta is what of an image's configuration counts for a run. It tells the layers of m by
// what is in them.
func (l layout) meta(m manifest) (meta Meta, err error) {
	text, err := l.document(m.Config)
	if err != nil {
		return meta, err
	}
	var c config
	if err := json.Unmarshal(text, &c); err != nil {
		return meta, fmt.Errorf("configuration: %w", err)
	}
	// Programs of another processor start by an emulator at best, and no policy lets
	// calls of a foreign architecture through.
	if c.OS != "" && c.OS != "linux" || c.Architecture != "" && c.Architecture != runtime.GOARCH {
		return meta, fmt.Errorf("%w: it is for %q, and this host is linux/%s", ErrPlatform, c.OS+"/"+c.Architecture, runtime.GOARCH)
	}
	if ids := c.RootFS.DiffIDs; len(ids) == len(m.Layers) {
		for i, id := range ids {
			m.Layers[i].diffID = id
		}
	} else if ids != nil || m.docker {
		return meta, fmt.Errorf("%w: it has %d layers, and its configuration tells of %d", ErrDamaged, len(m.Layers), len(ids))
	}
	for _, e := range c.Config.Env {
		if v, ok := strings.CutPrefix(e, "PATH="); ok && strings.IndexByte(v, 0) < 0 {
			meta.Path = v
		}
	}
	if strings.IndexByte(c.Config.WorkingDir, 0) < 0 {
		meta.Dir = c.Config.WorkingDir
	}
	return meta, nil
}

// openRegular opens a file, and nothing that could hold us.
func openRegular(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	return regular(f)
}

// regular is f, if it is a regular file.
func regular(f *os.File) (*os.File, error) {
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = &os.PathError{Op: "open", Path: f.Name(), Err: errors.New("is not a regular file")}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func readRegular(name string) ([]byte, error) {
	f, err := openRegular(name)
	if err != nil {
		return nil, err
	}
	return readAll(f)
}

// readAll reads a small file, and closes it.
func readAll(f *os.File) ([]byte, error) {
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxDocument+1))
	if err == nil && len(text) > maxDocument {
		err = fmt.Errorf("%s: more than %d bytes", f.Name(), maxDocument)
	}
	return text, err
}
