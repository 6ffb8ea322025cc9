package disk

import (
	"bytes"
	"encoding/binary"
)

// Layout of struct linux_dirent64.
const (
	direntReclen = 16
	direntType   = 18
	direntName   = 19
)

// entry is one of a directory. Its name ends in a zero byte and is part of the buffer
// that it was found in.
type entry struct {
	name []byte
	kind byte // DT_*; 0: the file system doesn't say
}

// nextEntry takes the first entry off a buffer of getdents64(2). It is nil for
// "." and "..", and rest is nil when there is no whole entry.
func nextEntry(buf []byte) (e entry, rest []byte) {
	if len(buf) <= direntName {
		return e, nil
	}
	size := int(binary.NativeEndian.Uint16(buf[direntReclen:]))
	if size <= direntName || size > len(buf) {
		return e, nil
	}
	name := buf[direntName:size]
	end := bytes.IndexByte(name, 0)
	if end < 0 {
		return e, nil
	}
	rest = buf[size:]
	if n := string(name[:end]); n == "." || n == ".." || n == "" {
		return e, rest
	}
	return entry{name[:end+1], buf[direntType]}, rest
}
