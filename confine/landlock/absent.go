package landlock

import (
	"errors"
	"io/fs"
	"syscall"
)

// absent: nothing is there, as opposed to something that can't be reached.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}
