package snapshot

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/confine-run/confine/internal/linux"
)

// The documents of an OCI image layout, as far as snapshots have them.
const (
	layoutFile = `{"imageLayoutVersion":"1.0.0"}`

	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar"

	refName = "org.opencontainers.image.ref.name"

	maxDocument = 4 << 20 // bytes of one
	maxPlaces   = 1024
)

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

type config struct {
	Created      string   `json:"created"`
	Architecture string   `json:"architecture"`
	OS           string   `json:"os"`
	Config       struct{} `json:"config"`
	RootFS       rootFS   `json:"rootfs"`
	Snapshot     about    `json:"run.confine.snapshot"`
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

type about struct {
	Version int `json:"version"`
	Meta
	Left Left `json:"left"`
}

// version of what about says.
const version = 1

// digestOf is the digest of a document in hexadecimal.
func digestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

const algorithm = "sha256:"

// blob is the name of what d is about.
func (d *descriptor) blob() (string, error) {
	name, ok := strings.CutPrefix(d.Digest, algorithm)
	if !ok || !ValidID(name) {
		return "", fmt.Errorf("digest %.100q: it takes sha256:HEX", d.Digest)
	}
	return name, nil
}

// is checks the form of a descriptor.
func (d *descriptor) is(mediaType string) error {
	if d.MediaType != mediaType {
		return fmt.Errorf("the media type %.100q is not known here: it takes %s", d.MediaType, mediaType)
	}
	if d.Size < 0 {
		return fmt.Errorf("%.100q: a size below 0", d.Digest)
	}
	_, err := d.blob()
	return err
}

// canonical reads a document that has to be what this program would write of it: then nobody else can
// understand it otherwise.
func canonical(text []byte, to any) error {
	if err := json.Unmarshal(text, to); err != nil {
		return err
	}
	again, err := json.Marshal(to)
	if err == nil && !bytes.Equal(again, text) {
		err = fmt.Errorf("it isn't in the form in which snapshots are written")
	}
	return err
}

// parseIndex reads an index, the store's or a bundle's.
func parseIndex(text []byte) (*index, error) {
	x := &index{}
	if err := json.Unmarshal(text, x); err != nil {
		return nil, fmt.Errorf("index.json: %w", err)
	}
	if x.SchemaVersion != 2 || x.MediaType != typeIndex && x.MediaType != "" {
		return nil, fmt.Errorf("index.json: it is of version %d and the media type %.100q", x.SchemaVersion, x.MediaType)
	}
	for i := range x.Manifests {
		if err := x.Manifests[i].is(typeManifest); err != nil {
			return nil, fmt.Errorf("index.json: %w", err)
		}
	}
	return x, nil
}

// parseManifest reads a manifest, and gives the names of the layers.
func parseManifest(text []byte) (m *manifest, layers []string, err error) {
	m = &manifest{}
	if err := canonical(text, m); err != nil {
		return nil, nil, fmt.Errorf("manifest: %w", err)
	}
	if m.SchemaVersion != 2 || m.MediaType != typeManifest {
		return nil, nil, fmt.Errorf("manifest: it is of version %d and the media type %.100q", m.SchemaVersion, m.MediaType)
	}
	if err := m.Config.is(typeConfig); err != nil {
		return nil, nil, fmt.Errorf("manifest: config: %w", err)
	}
	if len(m.Layers) == 0 || len(m.Layers) > maxLayers {
		return nil, nil, fmt.Errorf("manifest: %d layers: it takes 1 to %d", len(m.Layers), maxLayers)
	}
	for i := range m.Layers {
		if err := m.Layers[i].is(typeLayer); err != nil {
			return nil, nil, fmt.Errorf("manifest: layer %d: %w", i, err)
		}
		name, _ := m.Layers[i].blob()
		layers = append(layers, name)
	}
	return m, layers, nil
}

// parseConfig reads the configuration that goes with a manifest.
func parseConfig(text []byte, m *manifest) (*config, time.Time, error) {
	c := &config{}
	if err := canonical(text, c); err != nil {
		return nil, time.Time{}, fmt.Errorf("config: %w", err)
	}
	created, err := time.Parse(time.RFC3339Nano, c.Created)
	switch {
	case err != nil:
	case c.Snapshot.Version != version:
		err = fmt.Errorf("a snapshot of version %d, and this program knows %d", c.Snapshot.Version, version)
	case c.OS != "linux" || c.Architecture != runtime.GOARCH:
		err = fmt.Errorf("it is for %.100q, and this host is linux/%s", c.OS+"/"+c.Architecture, runtime.GOARCH)
	case c.RootFS.Type != "layers" || !slices.EqualFunc(c.RootFS.DiffIDs, m.Layers, func(id string, d descriptor) bool { return id == d.Digest }):
		err = fmt.Errorf("its diff_ids are not the layers of the manifest")
	default:
		err = c.Snapshot.Meta.check()
	}
	if err != nil {
		return nil, created, fmt.Errorf("config: %w", err)
	}
	return c, created, nil
}

// check holds what comes from elsewhere against its form.
func (m *Meta) check() error {
	if m.Parent != "" && !ValidID(m.Parent) {
		return fmt.Errorf("parent %.100q: it is no ID", m.Parent)
	}
	if len(m.PolicyDigest) > 256 || strings.ContainsFunc(m.PolicyDigest, func(r rune) bool { return r < ' ' || r > '~' }) {
		return fmt.Errorf("policy digest %.100q: it takes a line of at most 256 bytes", m.PolicyDigest)
	}
	if len(m.Places) > maxPlaces {
		return fmt.Errorf("%d places: it takes %d at most", len(m.Places), maxPlaces)
	}
	for i, p := range m.Places {
		if err := validPlace(p.Path); err != nil {
			return err
		}
		if p.Kind != Overlay && p.Kind != Private {
			return fmt.Errorf("place %.100q: the kind %.100q is not known here", p.Path, p.Kind)
		}
		if i > 0 && m.Places[i-1].Path >= p.Path {
			return fmt.Errorf("place %.100q: not in order", p.Path)
		}
	}
	return nil
}

func validPlace(p string) error {
	if !path.IsAbs(p) || path.Clean(p) != p || p != "/" && !linux.ValidPath(p[1:]) {
		return fmt.Errorf("place %.100q: it takes an absolute path, and no . or .. in it", p)
	}
	return nil
}
