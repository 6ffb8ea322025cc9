package engine

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

const nonblock = 0

var signalsOfLimits = []os.Signal{}

// reserve commits: memory that is not touched takes no page, and counts for the system's limit.
func reserve(size uint64) ([]byte, error) {
	if size == 0 {
		return nil, nil
	}
	at, err := windows.VirtualAlloc(0, uintptr(size), windows.MEM_RESERVE|windows.MEM_COMMIT, windows.PAGE_READWRITE)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(at)), size), nil //nolint:govet // not Go's memory
}

func setAppend(*os.File, bool) error { return errors.ErrUnsupported }

func writeAt(f *os.File, b []byte, at int64) (int, error) { return f.WriteAt(b, at) }
