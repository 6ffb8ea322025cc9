//go:build unix

package config

import (
	"os"
	"syscall"
)

// openPolicyFile opens without waiting for the writer of a FIFO. A discovered
// file is not opened through a link: whoever wrote the tree chose its target.
func openPolicyFile(path string, follow bool) (*os.File, error) {
	flags := os.O_RDONLY | syscall.O_NONBLOCK | syscall.O_CLOEXEC | syscall.O_NOCTTY
	if !follow {
		flags |= syscall.O_NOFOLLOW
	}
	return os.OpenFile(path, flags, 0)
}
