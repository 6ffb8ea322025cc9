package snapshot

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Bytes is what the blobs of all snapshots take. Layers that are unpacked take as much again, at most.
func (s *Store) Bytes() (int64, error) {
	all, err := os.ReadDir(filepath.Join(s.path, "blobs", "sha256"))
	if err != nil {
		return 0, err
	}
	var n int64
	for _, e := range all {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) { // it was removed meanwhile
			continue
		}
		if err != nil {
			return 0, err
		}
		n += info.Size()
	}
	return n, nil
}
