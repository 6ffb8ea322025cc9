package files

import (
	"sync"

	"golang.org/x/sys/unix"
)

// none says that a call has no such argument.
const none = -1

// operand is a path that a call names: in which arguments, and what for.
type operand struct {
	dir, path int // dir none: the caller's directory
	wish      Wish
	link      bool // a link at its end is not followed
}

// call is how a system call names paths.
type call struct {
	name     string
	operands []operand
	flags    int // AT_*: of the first operand
	special  func(*look, *call)
}

func one(name string, o operand) call { return call{name: name, operands: []operand{o}, flags: none} }
func at(name string, flags int, all ...operand) call {
	return call{name: name, operands: all, flags: flags}
}

// Tables are made when something is looked up: every start pays for what a package initialises.

// calls are those of both architectures; those of one are in files of their own.
var calls = sync.OnceValue(func() map[uint32]call {
	return map[uint32]call{
		unix.SYS_OPENAT:   {name: "openat", flags: 2, special: (*look).open, operands: []operand{{dir: 0, path: 1}}},
		unix.SYS_OPENAT2:  {name: "openat2", flags: 2, special: (*look).open2, operands: []operand{{dir: 0, path: 1}}},
		unix.SYS_CHDIR:    one("chdir", operand{dir: none, wish: List}),
		unix.SYS_EXECVE:   one("execve", operand{dir: none, wish: Exec}),
		unix.SYS_EXECVEAT: {name: "execveat", flags: 4, special: (*look).execAt, operands: []operand{{dir: 0, path: 1, wish: Exec}}},

		unix.SYS_UNLINKAT:  at("unlinkat", none, operand{0, 1, Remove, true}),
		unix.SYS_MKDIRAT:   at("mkdirat", none, operand{0, 1, Create, true}),
		unix.SYS_MKNODAT:   at("mknodat", none, operand{0, 1, Create, true}),
		unix.SYS_RENAMEAT:  at("renameat", none, operand{0, 1, Remove, true}, operand{2, 3, Create, true}),
		unix.SYS_RENAMEAT2: at("renameat2", none, operand{0, 1, Remove, true}, operand{2, 3, Create, true}),
		unix.SYS_LINKAT:    at("linkat", none, operand{0, 1, Read, true}, operand{2, 3, Create, true}),
		unix.SYS_SYMLINKAT: at("symlinkat", none, operand{1, 2, Create, true}),

		unix.SYS_TRUNCATE:  one("truncate", operand{dir: none, wish: Write}),
		unix.SYS_FCHMODAT:  at("fchmodat", none, operand{0, 1, Write, false}),
		sysFchmodat2:       at("fchmodat2", 3, operand{0, 1, Write, false}),
		unix.SYS_FCHOWNAT:  at("fchownat", 4, operand{0, 1, Write, false}),
		unix.SYS_UTIMENSAT: at("utimensat", 3, operand{0, 1, Write, false}),

		unix.SYS_SETXATTR:     one("setxattr", operand{dir: none, wish: Write}),
		unix.SYS_LSETXATTR:    one("lsetxattr", operand{dir: none, wish: Write, link: true}),
		unix.SYS_REMOVEXATTR:  one("removexattr", operand{dir: none, wish: Write}),
		unix.SYS_LREMOVEXATTR: one("lremovexattr", operand{dir: none, wish: Write, link: true}),
		sysSetxattrat:         at("setxattrat", 2, operand{0, 1, Write, false}),
		sysRemovexattrat:      at("removexattrat", 2, operand{0, 1, Write, false}),

		unix.SYS_CONNECT: {name: "connect", flags: none, special: (*look).socket, operands: []operand{{wish: Connect}}},
		unix.SYS_BIND:    {name: "bind", flags: none, special: (*look).socket, operands: []operand{{wish: Create, link: true}}},

		sysNewfstatat:       at("newfstatat", 3, operand{0, 1, Look, false}),
		unix.SYS_STATX:      at("statx", 2, operand{0, 1, Look, false}),
		unix.SYS_FACCESSAT:  at("faccessat", none, operand{0, 1, Look, false}),
		unix.SYS_FACCESSAT2: at("faccessat2", 3, operand{0, 1, Look, false}),
		unix.SYS_READLINKAT: at("readlinkat", none, operand{0, 1, Look, true}),
		unix.SYS_GETXATTR:   one("getxattr", operand{dir: none, wish: Look}),
		unix.SYS_LGETXATTR:  one("lgetxattr", operand{dir: none, wish: Look, link: true}),
		unix.SYS_LISTXATTR:  one("listxattr", operand{dir: none, wish: Look}),
		unix.SYS_LLISTXATTR: one("llistxattr", operand{dir: none, wish: Look, link: true}),
		sysGetxattrat:       at("getxattrat", 2, operand{0, 1, Look, false}),
		sysListxattrat:      at("listxattrat", 2, operand{0, 1, Look, false}),
	}
})

// Calls that are newer than the library, with the same number everywhere.
const (
	sysFchmodat2     = 452
	sysSetxattrat    = 463
	sysGetxattrat    = 464
	sysListxattrat   = 465
	sysRemovexattrat = 466
)
