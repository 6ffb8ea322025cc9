package changes

import (
	"slices"

	"golang.org/x/sys/unix"
)

// upper is an overlay's upper directory. What the run made unreadable for its
// owner is made readable as it is met, and put back by restore.
type upper struct {
	fd     int
	loose  map[string]uint32 // directories, with the mode that they had
	inTurn []string
	bytes  int // of the paths in loose
}

func newUpper(fd int) *upper { return &upper{fd: fd, loose: map[string]uint32{}} }

// dir opens a directory so that it can be read and searched.
func (u *upper) dir(path string) (int, error) {
	fd, err := openBeneath(u.fd, path, dirFlags)
	if err == nil {
		n, err := statFD(fd)
		if err != nil {
			_ = unix.Close(fd)
			return -1, err
		}
		if n.mode&0o500 == 0o500 {
			return fd, nil
		}
		_ = unix.Close(fd)
	} else if err != unix.EACCES {
		return -1, err
	}
	// As a rule what is above was met before; if not, from the top.
	if err := u.loosen(path); err == nil {
		return openBeneath(u.fd, path, dirFlags)
	}
	for i := range len(path) + 1 {
		if i == len(path) || path[i] == '/' {
			if err := u.loosen(path[:i]); err != nil {
				return -1, err
			}
		}
	}
	return openBeneath(u.fd, path, dirFlags)
}

func (u *upper) loosen(path string) error {
	fd, err := openBeneath(u.fd, path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	n, err := statFD(fd)
	if err != nil || n.mode&0o500 == 0o500 {
		return err
	}
	if err := unix.Chmod(procPath(fd), n.mode|0o700); err != nil {
		return err
	}
	u.loose[path] = n.mode
	u.inTurn = append(u.inTurn, path)
	u.bytes += len(path)
	return nil
}

// mode is what the run left, whatever dir made of it.
func (u *upper) mode(path string, now uint32) uint32 {
	if was, ok := u.loose[path]; ok {
		return was
	}
	return now
}

// file opens a regular file of a directory for reading. For as long as it is open its
// owner may read it, or its attributes couldn't be; shut closes it, and puts that back.
func (u *upper) file(dir int, name string) (fd int, shut func(), err error) {
	if fd, err = openFile(dir, name); err != unix.EACCES {
		return fd, func() { _ = unix.Close(fd) }, err
	}
	by, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, nil, err
	}
	defer unix.Close(by)
	n, err := statFD(by)
	if err != nil {
		return -1, nil, err
	}
	if n.typ != File {
		return -1, nil, unix.ESTALE
	}
	if err := unix.Chmod(procPath(by), n.mode|0o600); err != nil {
		return -1, nil, err
	}
	if fd, err = openFile(dir, name); err != nil {
		_ = unix.Chmod(procPath(by), n.mode)
		return -1, nil, err
	}
	return fd, func() {
		_ = unix.Fchmod(fd, n.mode) // what it was is in the record
		_ = unix.Close(fd)
	}, nil
}

// restore puts the modes back, the deepest first.
func (u *upper) restore() {
	for _, path := range slices.Backward(u.inTurn) {
		fd, err := openBeneath(u.fd, path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		if err != nil {
			continue // what it was is in the record
		}
		_ = unix.Chmod(procPath(fd), u.loose[path])
		_ = unix.Close(fd)
	}
	u.loose, u.inTurn = map[string]uint32{}, nil
}

// opaque tells what the overlay noted at an open upper directory: that nothing of
// the lower one shows through, and that empty files in it may be whiteouts.
func opaque(fd int) (hides, xwhiteouts bool) {
	var value [8]byte
	n, err := unix.Fgetxattr(fd, "user.overlay.opaque", value[:])
	if err == nil {
		hides = n == 1 && value[0] == 'y'
		xwhiteouts = n == 1 && value[0] == 'x'
	}
	// Linux 6.7 marked such directories with an attribute of their own.
	if _, err := unix.Fgetxattr(fd, "user.overlay.whiteouts", nil); err == nil {
		xwhiteouts = true
	}
	return hides, xwhiteouts
}

// xwhiteout: an empty file that stands for a whiteout, in a directory that says so.
func xwhiteout(dir int, name string, n node) (bool, error) {
	if n.typ != File || n.size != 0 {
		return false, nil
	}
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	_, err = unix.Getxattr(procPath(fd), "user.overlay.whiteout", nil)
	return err == nil, nil
}
