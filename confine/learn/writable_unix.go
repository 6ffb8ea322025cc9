//go:build unix

package learn

import "golang.org/x/sys/unix"

// Writable says whether permissions let the caller write to a file or directory.
func Writable(name string) bool {
	return unix.Faccessat(unix.AT_FDCWD, name, unix.W_OK, unix.AT_EACCESS) == nil
}
