//go:build unix

package task

import (
	"os"

	"golang.org/x/sys/unix"
)

// pending is how much lies in a pipe; 1 stands for some.
func pending(f *os.File) (n int) {
	c, err := f.SyscallConn()
	if err != nil {
		return 0
	}
	_ = c.Control(func(fd uintptr) {
		set := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if ready, err := unix.Poll(set, 0); err == nil && ready > 0 && set[0].Revents&unix.POLLIN != 0 {
			n = 1
		}
	})
	return n
}
