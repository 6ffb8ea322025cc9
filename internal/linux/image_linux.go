package linux

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// ForgetImage takes the pages of the executable's code and read-only data out of this
// process's page table. The kernel maps them in by the dozen when one of them is
// touched, and a process that has started touches few; those come back from the
// page cache.
func ForgetImage() {
	aux, err := unix.Auxv()
	if err != nil {
		return
	}
	var at, n uintptr
	for _, a := range aux {
		switch a[0] {
		case atPhdr:
			at = a[1]
		case atPhnum:
			n = a[1]
		}
	}
	if at == 0 {
		return
	}
	headers := unsafe.Slice((*programHeader)(*(*unsafe.Pointer)(unsafe.Pointer(&at))), n)
	base := at
	for i := range headers {
		if headers[i].kind == ptPhdr {
			base = at - headers[i].address // 0, unless the image is position-independent
		}
	}
	if base == at {
		return
	}
	for i := range headers {
		h := &headers[i]
		if h.kind != ptLoad || h.flags&pfWrite != 0 {
			continue
		}
		first := (base + h.address) &^ (uintptr(unix.Getpagesize()) - 1)
		_, _, _ = unix.RawSyscall(unix.SYS_MADVISE, first, base+h.address+h.size-first, unix.MADV_DONTNEED)
	}
}

const (
	atPhdr  = 3 // AT_PHDR
	atPhnum = 5 // AT_PHNUM
	ptLoad  = 1 // PT_LOAD
	ptPhdr  = 6 // PT_PHDR
	pfWrite = 2 // PF_W
)

// programHeader is Elf64_Phdr.
type programHeader struct {
	kind, flags    uint32
	offset         uintptr
	address        uintptr
	_              uintptr
	fileSize, size uintptr
	_              uintptr
}
