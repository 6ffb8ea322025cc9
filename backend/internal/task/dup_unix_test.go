//go:build unix

package task

import (
	"os"
	"syscall"
)

func dup(f *os.File) *os.File {
	fd, err := syscall.Dup(int(f.Fd()))
	if err != nil {
		panic(err)
	}
	return os.NewFile(uintptr(fd), f.Name())
}
