//go:build unix

package wasm

import (
	"io/fs"
	"os"
	"syscall"
)

// private says whether nobody else can have put something into a directory.
func private(dir fs.FileInfo) bool {
	st, ok := dir.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid() && dir.Mode().Perm()&0o022 == 0
}
