package terminal

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

// NewConsole is the console on f, normally os.Stderr. It writes without the os
// package, which raises SIGPIPE when nobody reads descriptor 2 any more.
func NewConsole(f *os.File) *Console {
	fd := int(f.Fd())
	c := newConsole(func(p []byte) { writeAll(fd, p) })
	c.terminal = linux.IsTerminal(fd)
	c.same = func(other int) bool { return samePlace(fd, other) }
	c.columns = func() int {
		ws, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
		if err != nil {
			return 0
		}
		return int(ws.Col)
	}
	c.inFront = func() bool { return linux.InForeground(fd) }
	return c
}

func writeAll(fd int, p []byte) {
	for len(p) > 0 {
		n, err := unix.Write(fd, p)
		switch {
		case err == unix.EAGAIN: // somebody made it non-blocking
			set := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
			if n, _ := unix.Poll(set, int(stuck.Milliseconds())); n == 0 {
				return
			}
		case err != nil && err != unix.EINTR:
			return
		}
		p = p[max(n, 0):]
	}
}

// samePlace: two terminals count as one, whatever their names: /dev/tty is
// another file than the /dev/pts entry that it leads to.
func samePlace(a, b int) bool {
	var x, y unix.Stat_t
	if unix.Fstat(a, &x) != nil || unix.Fstat(b, &y) != nil {
		return false
	}
	return x.Dev == y.Dev && x.Ino == y.Ino || linux.IsTerminal(a) && linux.IsTerminal(b)
}
