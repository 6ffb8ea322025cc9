//go:build unix

package outputs

import (
	"fmt"
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

const nonblock = unix.O_NONBLOCK

// inherit takes over the descriptor. Everything that the caller handed over has
// no close-on-exec flag, or it would not be here; everything that the runtime has
// opened for itself, and that the number could hit by chance, has it.
func (s *Sink) inherit() error {
	flags, err := unix.FcntlInt(uintptr(s.fd), unix.F_GETFD, 0)
	if err == nil && flags&unix.FD_CLOEXEC != 0 && s.fd > 2 {
		err = unix.EBADF
	}
	mode := 0
	if err == nil {
		mode, err = unix.FcntlInt(uintptr(s.fd), unix.F_GETFL, 0)
	}
	if err != nil {
		return s.refuse("fcntl", fmt.Sprintf("open the descriptor, as in: confine %s %s -- COMMAND %d>file", s.option, s.spec, s.fd), err)
	}
	if m := mode & unix.O_ACCMODE; m != unix.O_WRONLY && m != unix.O_RDWR || mode&pathOnly != 0 {
		return s.refuse("is not open for writing", "", unix.EBADF)
	}
	if s.fd > 2 {
		unix.CloseOnExec(s.fd)
	}
	return nil
}

func owner(info fs.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }

// links are the names of a file.
func links(info fs.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Nlink) }

// WriteAll writes all of b. It goes around os.File, which ends the process when
// the reader of descriptor 1 or 2 is gone; here that is an error like any other.
func WriteAll(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := unix.Write(fd, b)
		switch err {
		case nil:
			b = b[n:]
		case unix.EINTR:
		case unix.EAGAIN:
			// Somebody made the other end non-blocking: wait until it takes more.
			if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, -1); err != nil && err != unix.EINTR {
				return err
			}
		default:
			return err
		}
	}
	return nil
}
