package attempts

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/i386"
)

// foreignCalls are getpid, as programs for another machine make it.
var foreignCalls = []namedCall{
	{"int80", func() error {
		if r := i386.Call(i386.Getpid); r < 0 {
			return fmt.Errorf("int 0x80: %w", unix.Errno(-r))
		}
		return nil
	}},
	{"x32", func() error { return Raw(unix.SYS_GETPID|1<<30, 0, 0, 0) }},
}

func modifyLDT() error {
	var b [16]byte
	return Raw(unix.SYS_MODIFY_LDT, 0, uintptr(unsafe.Pointer(&b)), 16)
}
