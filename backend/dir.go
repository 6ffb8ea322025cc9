package backend

import (
	"errors"
	"io/fs"
	"strconv"
	"syscall"
)

// DirError is a directory in which a process was to start and can't, since there is none inside the sandbox.
type DirError struct {
	Dir string // as it was asked for
	Err error
}

func (e *DirError) Error() string {
	if errors.Is(e.Err, fs.ErrNotExist) {
		return "there is no directory " + strconv.Quote(e.Dir) + " inside the sandbox"
	}
	return strconv.Quote(e.Dir) + " is no directory inside the sandbox"
}

// Unwrap gives what the file system said.
func (e *DirError) Unwrap() error { return e.Err }

// DirIn is a *[DirError] unless a process may find the directory. What can't be looked at, it may.
func DirIn(files Files, dir string) error {
	info, err := files.Stat(dir)
	if err == nil && !info.IsDir() {
		err = syscall.ENOTDIR
	}
	for _, none := range []error{fs.ErrNotExist, fs.ErrInvalid, syscall.ENOTDIR, syscall.ELOOP, syscall.ENAMETOOLONG, syscall.EINVAL} {
		if errors.Is(err, none) {
			return &DirError{dir, err}
		}
	}
	return nil
}
