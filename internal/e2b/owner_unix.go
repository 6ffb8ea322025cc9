//go:build unix

package e2b

import (
	"io/fs"
	"syscall"
)

// ownerOf are the ids of a file's user and group; of what has none, those of nobody.
func ownerOf(info fs.FileInfo) (uid, gid uint32) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Uid, st.Gid
	}
	return nobody, nobody
}
