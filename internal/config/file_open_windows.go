package config

import (
	"io/fs"
	"os"
)

func openPolicyFile(path string, follow bool) (*os.File, error) {
	if !follow {
		if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrInvalid}
		}
	}
	return os.Open(path)
}
