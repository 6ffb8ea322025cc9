package linux

import (
	"errors"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// OpenBeneath opens a path below dir, through no link; "" is dir itself.
func OpenBeneath(dir int, path string, flags int) (int, error) {
	if path == "" {
		path = "."
	}
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC | unix.O_NOCTTY), Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	if flags&unix.O_PATH != 0 {
		how.Flags &^= unix.O_NOCTTY
	} else {
		// A link at the end is ELOOP for RESOLVE_NO_SYMLINKS, and would be ENOTDIR
		// for this one.
		how.Flags &^= unix.O_NOFOLLOW
	}
	return Openat2(dir, path, &how)
}

// Again makes a call again for as long as signals interrupt it.
func Again(call func() (int, error)) (n int, err error) {
	for err = unix.EINTR; err == unix.EINTR; {
		n, err = call()
	}
	return n, err
}

// FDPath is a name of what an open descriptor stands for, also where that is O_PATH and a system call takes none.
func FDPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// Xattrs are those attributes of an open object that are wanted. A file system without any has none.
func Xattrs(fd int, want func(name string) bool) (map[string][]byte, error) {
	path := FDPath(fd)
	buf := make([]byte, 1024)
	n, err := unix.Listxattr(path, buf)
	if err == unix.ERANGE {
		buf = make([]byte, 64<<10) // XATTR_LIST_MAX
		n, err = unix.Listxattr(path, buf)
	}
	if errors.Is(err, unix.ENOTSUP) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all map[string][]byte
	for name := range strings.SplitSeq(string(buf[:n]), "\x00") {
		if !want(name) {
			continue
		}
		value := make([]byte, 64<<10) // XATTR_SIZE_MAX
		n, err := unix.Getxattr(path, name, value)
		if err == unix.ENODATA {
			continue
		}
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = map[string][]byte{}
		}
		all[name] = append([]byte{}, value[:n]...)
	}
	return all, nil
}

// Names are all in an open directory, from where it stands.
func Names(fd int) (names []string, err error) {
	var buf [16 << 10]byte
	for e, err := range Dirents(fd, buf[:]) {
		if err != nil {
			return names, err
		}
		names = append(names, string(e.Name))
	}
	return names, nil
}
