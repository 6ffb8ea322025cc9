package cgroup

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// eachDir calls do with the name of each directory in the one at fd, which is read
// from where it stands. The name holds until do returns.
func eachDir(fd int, do func(name []byte)) error {
	var buf [4096]byte
	for {
		n, err := unix.Getdents(fd, buf[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return err
		}
		dirents(buf[:n], do)
	}
}

// struct linux_dirent64.
const (
	direntLength = 16
	direntType   = 18
	direntName   = 19
)

func dirents(buf []byte, do func(name []byte)) {
	for len(buf) > direntName {
		length := int(binary.NativeEndian.Uint16(buf[direntLength:]))
		if length <= direntName || length > len(buf) {
			return
		}
		name := buf[direntName:length]
		if end := bytes.IndexByte(name, 0); end >= 0 {
			name = name[:end]
		}
		if buf[direntType] == unix.DT_DIR && len(name) > 0 && name[0] != '.' {
			do(name)
		}
		buf = buf[length:]
	}
}
