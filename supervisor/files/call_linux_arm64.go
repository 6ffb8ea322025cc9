package files

import "golang.org/x/sys/unix"

const sysNewfstatat = unix.SYS_FSTATAT

// older are calls that this architecture never had.
var older map[uint32]call
