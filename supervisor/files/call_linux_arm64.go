package files

import "golang.org/x/sys/unix"

const sysNewfstatat = unix.SYS_FSTATAT

// older are calls that this architecture never had.
func older() map[uint32]call { return nil }
