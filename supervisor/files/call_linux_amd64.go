package files

import (
	"sync"

	"golang.org/x/sys/unix"
)

const sysNewfstatat = unix.SYS_NEWFSTATAT

// older are calls that other architectures never had.
var older = sync.OnceValue(func() map[uint32]call {
	return map[uint32]call{
		unix.SYS_OPEN:  {name: "open", flags: 1, special: (*look).open, operands: []operand{{dir: none, path: 0}}},
		unix.SYS_CREAT: {name: "creat", flags: none, special: (*look).open, operands: []operand{{dir: none, path: 0}}},

		unix.SYS_UNLINK:  one("unlink", operand{dir: none, wish: Remove, link: true}),
		unix.SYS_RMDIR:   one("rmdir", operand{dir: none, wish: Remove, link: true}),
		unix.SYS_MKDIR:   one("mkdir", operand{dir: none, wish: Create, link: true}),
		unix.SYS_MKNOD:   one("mknod", operand{dir: none, wish: Create, link: true}),
		unix.SYS_RENAME:  at("rename", none, operand{none, 0, Remove, true}, operand{none, 1, Create, true}),
		unix.SYS_LINK:    at("link", none, operand{none, 0, Read, true}, operand{none, 1, Create, true}),
		unix.SYS_SYMLINK: at("symlink", none, operand{none, 1, Create, true}),

		unix.SYS_CHMOD:     one("chmod", operand{dir: none, wish: Write}),
		unix.SYS_CHOWN:     one("chown", operand{dir: none, wish: Write}),
		unix.SYS_LCHOWN:    one("lchown", operand{dir: none, wish: Write, link: true}),
		unix.SYS_UTIME:     one("utime", operand{dir: none, wish: Write}),
		unix.SYS_UTIMES:    one("utimes", operand{dir: none, wish: Write}),
		unix.SYS_FUTIMESAT: at("futimesat", none, operand{0, 1, Write, false}),

		unix.SYS_STAT:     one("stat", operand{dir: none, wish: Look}),
		unix.SYS_LSTAT:    one("lstat", operand{dir: none, wish: Look, link: true}),
		unix.SYS_ACCESS:   one("access", operand{dir: none, wish: Look}),
		unix.SYS_READLINK: one("readlink", operand{dir: none, wish: Look, link: true}),
	}
})
