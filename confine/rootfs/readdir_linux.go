package rootfs

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// ReadDir gives names with their types straight from getdents64, unsorted:
// os.ReadDir takes twice as long, and this is paid at every start.
func (k kernel) ReadDir(name string) ([]Entry, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	entries := make([]Entry, 0, 128)
	var buf [8192]byte
	for {
		n, err := unix.Getdents(fd, buf[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return entries, nil
		}
		for b := buf[:n]; len(b) > direntName; {
			size := int(binary.NativeEndian.Uint16(b[16:]))
			if size <= direntName || size > len(b) {
				return nil, unix.EBADMSG
			}
			e, ok := k.entry(name, b[:size])
			if ok {
				entries = append(entries, e)
			}
			b = b[size:]
		}
	}
}

// direntName is where the name stands in struct linux_dirent64.
const direntName = 19

func (k kernel) entry(dir string, dirent []byte) (Entry, bool) {
	raw := dirent[direntName:]
	if i := bytes.IndexByte(raw, 0); i >= 0 {
		raw = raw[:i]
	}
	e := Entry{Name: string(raw)}
	if e.Name == "." || e.Name == ".." {
		return e, false
	}
	if kind := dirent[18]; kind != unix.DT_UNKNOWN {
		e.Type = fileMode(uint32(kind) << 12).Type() // DT_* are S_IF* shifted
		return e, true
	}
	f, err := k.Lstat(dir + "/" + e.Name)
	e.Type = f.Mode.Type()
	return e, err == nil
}
