package attempts

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

func modifyLDT() error {
	var b [16]byte
	return Raw(unix.SYS_MODIFY_LDT, 0, uintptr(unsafe.Pointer(&b)), 16)
}
