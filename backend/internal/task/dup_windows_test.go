package task

import (
	"os"
	"syscall"
)

func dup(f *os.File) *os.File {
	var h syscall.Handle
	self, _ := syscall.GetCurrentProcess()
	if err := syscall.DuplicateHandle(self, syscall.Handle(f.Fd()), self, &h, 0, false, syscall.DUPLICATE_SAME_ACCESS); err != nil {
		panic(err)
	}
	return os.NewFile(uintptr(h), f.Name())
}
