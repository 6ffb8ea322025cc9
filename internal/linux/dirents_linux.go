package linux

import (
	"bytes"
	"iter"

	"golang.org/x/sys/unix"
)

// Dirent is an entry of a directory. Its name is part of the buffer that it was read
// into, where a zero byte follows it: a system call can be given &Name[0].
type Dirent struct {
	Name []byte
	Type byte  // DT_*; 0: the file system doesn't say
	Next int64 // where the directory is to be read from for what follows
}

// Dirents are the entries of the directory at fd, from where it stands, but for "." and "..".
// They are read into buf, by the piece: what was read of the last piece and not looked at is
// gone, unless somebody seeks to Next. An error comes last, with no entry.
func Dirents(fd int, buf []byte) iter.Seq2[Dirent, error] {
	return func(yield func(Dirent, error) bool) {
		for {
			n, err := Again(func() (int, error) { return unix.Getdents(fd, buf) })
			if err != nil {
				yield(Dirent{}, err)
			}
			if err != nil || n <= 0 {
				return
			}
			for rest := buf[:n]; len(rest) > 0; {
				var e Dirent
				if e, rest = nextDirent(rest); e.Name == nil {
					yield(e, unix.EBADMSG)
					return
				}
				if string(e.Name) != "." && string(e.Name) != ".." && !yield(e, nil) {
					return
				}
			}
		}
	}
}

// Layout of struct linux_dirent64. Both architectures are little-endian.
const (
	direntOffset = 8
	direntLength = 16
	direntType   = 18
	direntName   = 19
)

// nextDirent takes the first entry off what getdents64(2) wrote. Without a whole one it has no name.
func nextDirent(buf []byte) (e Dirent, rest []byte) {
	if len(buf) <= direntName {
		return e, nil
	}
	size := int(buf[direntLength]) | int(buf[direntLength+1])<<8
	if size <= direntName || size > len(buf) {
		return e, nil
	}
	end := bytes.IndexByte(buf[direntName:size], 0)
	if end <= 0 {
		return e, nil
	}
	for i, b := range buf[direntOffset:direntLength] {
		e.Next |= int64(b) << (8 * i)
	}
	e.Name, e.Type = buf[direntName:direntName+end], buf[direntType]
	return e, buf[size:]
}
