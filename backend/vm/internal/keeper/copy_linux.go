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
func Copy(to Target, from *os.File, size int64) error {
	if err := to.Truncate(size); err != nil {
		return err
	}
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
		if _, err := from.Seek(data, io.SeekStart); err != nil {
			return err
		}
		if _, err := to.Seek(data, io.SeekStart); err != nil {
			return err
		}
		if n, err := io.CopyN(to, from, hole-data); err != nil {
			return err
		} else if n == 0 {
			return io.ErrNoProgress
		}
		at = hole
	}
	return nil
}
