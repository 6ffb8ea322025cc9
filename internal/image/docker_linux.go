package image

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
)

// saved is one image of those in a manifest.json, as docker save wrote them before
// version 25 and other programs still do.
type saved struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// isDocker says whether dir is what docker save wrote. A tree may have a file of that
// name: it counts if it tells of images that are there.
func isDocker(dir string) bool {
	if !hasFile(dir, "manifest.json") || isLayout(dir) {
		return false
	}
	l := layout{dir}
	images, err := l.saved()
	if err != nil || len(images) == 0 || images[0].Config == "" || len(images[0].Layers) == 0 {
		return false
	}
	f, err := l.open(images[0].Config)
	if err != nil {
		return false
	}
	return f.Close() == nil
}

func (l layout) saved() (images []saved, err error) {
	text, err := l.read("manifest.json")
	if err != nil {
		return nil, err
	}
	return images, json.Unmarshal(text, &images)
}

// docker is find for such a one. Its configuration, which has the digests of what is in
// the layers, stands for all of it.
func (l layout) docker() (m manifest, digest string, err error) {
	images, err := l.saved()
	if err != nil {
		return m, "", err
	}
	if len(images) != 1 {
		var names []string
		for _, i := range images {
			for _, tag := range i.RepoTags {
				names = append(names, strconv.Quote(tag))
			}
		}
		return m, "", several(len(images), names)
	}
	config, layers := images[0].Config, images[0].Layers
	if len(layers) > maxLayers {
		return m, "", fmt.Errorf("has more than %d layers", maxLayers)
	}
	text, err := l.read(config)
	if err != nil {
		return m, "", err
	}
	sum := sha256.Sum256(text)
	digest = "sha256:" + hex.EncodeToString(sum[:])
	named := "sha256:" + strings.TrimSuffix(path.Base(config), ".json")
	if _, err := hexOf(named); err == nil && named != digest {
		return m, "", fmt.Errorf("%w: %s: the content has another digest", ErrDamaged, named)
	}
	m.docker, m.Config = true, descriptor{Digest: digest, file: config}
	for _, name := range layers {
		if name == "" {
			return m, "", errors.New("has a layer without a name")
		}
		m.Layers = append(m.Layers, descriptor{file: name})
	}
	return m, digest, nil
}
