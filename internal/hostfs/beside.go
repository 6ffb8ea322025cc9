package hostfs

import (
	"os"
	"path/filepath"
)

// Beside is the program of a name in the directory of the one that runs: never one by PATH, which may lead into a tree of work.
func Beside(name string) (string, error) {
	own, err := os.Executable()
	if err == nil {
		own, err = filepath.EvalSymlinks(filepath.Join(filepath.Dir(own), name))
	}
	return own, err
}
