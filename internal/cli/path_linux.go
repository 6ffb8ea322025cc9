package cli

import "golang.org/x/sys/unix"

// isPathOnly: the descriptor only names a file (O_PATH).
func isPathOnly(flags int) bool { return flags&unix.O_PATH != 0 }
