package keeper

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Target is a file that is written to.
type Target interface {
	io.WriteSeeker
	Truncate(size int64) error
}

// Copy makes a file of that size what another one is, which isn't written to meanwhile: what was never written there isn't here. The file has to be empty.
// The kernel copies out of a mapping, which is once; nobody else reads it, so that a file that becomes shorter is an error and no signal.
func Copy(to Target, from *os.File, size int64) (err error) {
	if err := to.Truncate(size); err != nil || size == 0 {
		return err
	}
	mapped, err := unix.Mmap(int(from.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	defer func() { err = errors.Join(err, os.NewSyscallError("munmap", unix.Munmap(mapped))) }()
	for at := int64(0); at < size; {
		data, err := unix.Seek(int(from.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) { // nothing but holes
			return nil
		}
		if err != nil {
			return os.NewSyscallError("lseek", err)
		}
		hole, err := unix.Seek(int(from.Fd()), data, unix.SEEK_HOLE)
		if err != nil {
			return os.NewSyscallError("lseek", err)
		}
		hole = min(hole, size)
		if data >= hole {
			return nil
		}
		if _, err := to.Seek(data, io.SeekStart); err != nil {
			return err
		}
		if _, err := to.Write(mapped[data:hole]); err != nil {
			return err
		}
		at = hole
	}
	return nil
}
