package image

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Bounds of what an image may say about itself.
const (
	maxDocument = 4 << 20 // bytes of an index, manifest or configuration
	maxLayers   = 256
	maxNested   = 4 // indexes in indexes
)

// ErrNotImage: it is no image of a form that is known.
var ErrNotImage = errors.New("is no OCI image layout and no tar")

type descriptor struct {
	MediaType string
	Digest    string
	Size      int64
	Platform  *struct{ Architecture, OS string }
}

type manifest struct {
	Manifests []descriptor // of an index
	Config    descriptor
	Layers    []descriptor
}

type config struct {
	Config struct {
		Env        []string
		WorkingDir string
	}
}

// layout is an OCI image layout on disk.
type layout struct{ dir string }

// isLayout says whether dir has the file that marks one.
func isLayout(dir string) bool {
	st, err := os.Lstat(filepath.Join(dir, "oci-layout"))
	return err == nil && st.Mode().IsRegular()
}

// find gives the manifest for this platform, and its digest.
func (l layout) find() (m manifest, digest string, err error) {
	f, err := l.open("index.json")
	if err != nil {
		return m, "", err
	}
	text, err := readAll(f)
	if err != nil {
		return m, "", err
	}
	for range maxNested {
		m = manifest{}
		if err := json.Unmarshal(text, &m); err != nil {
			return m, "", fmt.Errorf("index or manifest: %w", err)
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
	for _, d := range list {
		if p := d.Platform; p == nil || p.OS == "" || p.OS == "linux" && p.Architecture == runtime.GOARCH {
			fits = append(fits, d)
		}
	}
	if len(fits) != 1 {
		return descriptor{}, fmt.Errorf("has %d images for linux/%s, and it takes one", len(fits), runtime.GOARCH)
	}
	return fits[0], nil
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
	fd, err := unix.Openat2(int(dir.Fd()), name, &unix.OpenHow{
		Flags: unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, &os.PathError{Op: "openat2", Path: filepath.Join(l.dir, name), Err: err}
	}
	return regular(os.NewFile(uintptr(fd), filepath.Join(l.dir, name)))
}

// document reads a small blob, and verifies it.
func (l layout) document(d descriptor) ([]byte, error) {
	f, err := l.blob(d)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxDocument+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxDocument {
		return nil, fmt.Errorf("%s: more than %d bytes", d.Digest, maxDocument)
	}
	if sum := sha256.Sum256(text); "sha256:"+hex.EncodeToString(sum[:]) != d.Digest {
		return nil, fmt.Errorf("%s: the content has another digest", d.Digest)
	}
	return text, nil
}

// meta is what of an image's configuration counts for a run.
func (l layout) meta(m manifest) (meta Meta, err error) {
	text, err := l.document(m.Config)
	if err != nil {
		return meta, err
	}
	var c config
	if err := json.Unmarshal(text, &c); err != nil {
		return meta, fmt.Errorf("configuration: %w", err)
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
