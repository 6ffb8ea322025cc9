package rootfs

import (
	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
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
	for d, err := range linux.Dirents(fd, buf[:]) {
		if err != nil {
			return nil, err
		}
		e := Entry{Name: string(d.Name)}
		if d.Type != unix.DT_UNKNOWN {
			e.Type = fileMode(uint32(d.Type) << 12).Type() // DT_* are S_IF* shifted
		} else if f, err := k.Lstat(name + "/" + e.Name); err == nil {
			e.Type = f.Mode.Type()
		} else {
			continue
		}
		entries = append(entries, e)
	}
	return entries, nil
}
