package tree

import (
	"bytes"
	"encoding/binary"
)

// Layout of struct linux_dirent64.
const (
	direntReclen = 16
	direntName   = 19
)

// appendPIDs adds the numbers among the names in a buffer of getdents64(2).
func appendPIDs(pids []int32, buf []byte) []int32 {
	for {
		name, rest := nextName(buf)
		if name == nil {
			return pids
		}
		pids = appendPID(pids, name[:len(name)-1])
		buf = rest
	}
}

// nextName is the first name in a buffer of getdents64(2), with the zero that
// ends it, and what follows in the buffer. At the end the name is nil.
func nextName(buf []byte) (name, rest []byte) {
	if len(buf) <= direntName {
		return nil, nil
	}
	size := int(binary.NativeEndian.Uint16(buf[direntReclen:]))
	if size <= direntName || size > len(buf) {
		return nil, nil
	}
	name = buf[direntName:size]
	end := bytes.IndexByte(name, 0)
	if end < 0 {
		return nil, nil
	}
	return name[:end+1], buf[size:]
}

// appendChildren adds the numbers of a /proc/PID/task/TID/children.
func appendChildren(pids []int32, text []byte) []int32 {
	for len(text) > 0 {
		word := text
		if end := bytes.IndexByte(text, ' '); end >= 0 {
			word, text = text[:end], text[end+1:]
		} else {
			text = nil
		}
		pids = appendPID(pids, word)
	}
	return pids
}

func appendPID(pids []int32, word []byte) []int32 {
	if v, ok := parseInt(word); ok && v > 0 && v <= 1<<30 {
		pids = append(pids, int32(v))
	}
	return pids
}
