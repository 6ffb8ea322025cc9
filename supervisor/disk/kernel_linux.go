package disk

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// kernel makes the calls of a walk without allocating: golang.org/x/sys copies
// each name.
type kernel struct {
	buf  []byte
	name []byte
	how  unix.OpenHow
	st   unix.Statx_t // of the last statx
}

// beneath: nothing that a name stands for leads out of its directory's mount.
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV

var (
	empty  = &[]byte{0}[0]
	dot    = &[]byte(".\x00")[0]
	dotdot = &[]byte("..\x00")[0]
)

// openat2 opens a directory for reading; without a trace in its atime, where the
// caller may do that.
func (k *kernel) openat2(dir int, name *byte, resolve uint64) (int, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK
	k.how = unix.OpenHow{Flags: flags | unix.O_NOATIME, Resolve: resolve}
	for {
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT2, uintptr(dir), uintptr(unsafe.Pointer(name)),
			uintptr(unsafe.Pointer(&k.how)), unsafe.Sizeof(k.how), 0, 0)
		switch {
		case errno == 0:
			return int(fd), nil
		case errno == unix.EPERM && k.how.Flags&unix.O_NOATIME != 0:
			k.how.Flags = flags
		case errno == unix.EINTR:
		default:
			return -1, errno
		}
	}
}

func (k *kernel) statx(dir int, name *byte, flags int) error {
	const mask = unix.STATX_TYPE | unix.STATX_NLINK | unix.STATX_INO | unix.STATX_BLOCKS | unix.STATX_CTIME | unix.STATX_BTIME
	for {
		_, _, errno := unix.Syscall6(unix.SYS_STATX, uintptr(dir), uintptr(unsafe.Pointer(name)),
			uintptr(flags|unix.AT_NO_AUTOMOUNT|unix.AT_STATX_DONT_SYNC), mask, uintptr(unsafe.Pointer(&k.st)), 0)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return errno
		}
		return nil
	}
}

// id is of what statx was last asked about.
func (k *kernel) id() identity {
	return identity{unix.Mkdev(k.st.Dev_major, k.st.Dev_minor), k.st.Ino}
}

// mounted: something is mounted there, and it is no part of the tree (Linux 5.8;
// an older kernel counts the mounted root, and doesn't descend either).
func (k *kernel) mounted() bool {
	return k.st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

func closeFD(fd int) {
	if fd >= 0 {
		_ = unix.Close(fd)
	}
}
