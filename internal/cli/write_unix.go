//go:build unix

package cli

import (
	"golang.org/x/sys/unix"
)

// writeAll writes all of b. It goes around os.File, which ends the process when
// the reader of descriptor 1 or 2 is gone; here that is an error like any other.
func writeAll(fd int, b []byte) error {
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
