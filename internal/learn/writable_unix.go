//go:build unix

package learn

import "golang.org/x/sys/unix"

// Readable says whether permissions let the caller read a file or list a directory.
func Readable(name string) bool {
	return unix.Faccessat(unix.AT_FDCWD, name, unix.R_OK, unix.AT_EACCESS) == nil
}

// Writable says whether permissions let the caller write to a file or directory.
func Writable(name string) bool {
	return unix.Faccessat(unix.AT_FDCWD, name, unix.W_OK, unix.AT_EACCESS) == nil
}
