//go:build linux || darwin

package hostfs

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// This asks the kernel.
func This() Host { return kernel{} }

// ThisInspector asks the kernel.
func ThisInspector() Inspector { return kernel{} }

type kernel struct{}

func (kernel) Readlink(name string) (string, error) { return readlink(name) }

func readlink(name string) (string, error) {
	var buf [unix.PathMax]byte
	n, err := unix.Readlink(name, buf[:])
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

func fileMode(m uint32) fs.FileMode {
	mode := fs.FileMode(m & 0o777)
	switch m & unix.S_IFMT {
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
	case unix.S_IFSOCK:
		mode |= fs.ModeSocket
	case unix.S_IFIFO:
		mode |= fs.ModeNamedPipe
	case unix.S_IFCHR:
		mode |= fs.ModeDevice | fs.ModeCharDevice
	case unix.S_IFBLK:
		mode |= fs.ModeDevice
	}
	return mode
}
