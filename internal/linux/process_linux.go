package linux

import (
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ThreadTime is the CPU time of this thread: what something costs, however busy the host is with others.
func ThreadTime() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// MayWrite asks the kernel whether this process may write a file or directory: by its effective ids, which the
// older faccessat doesn't know. A mount that is read-only is a no, too.
func MayWrite(path string) error {
	err := unix.Faccessat2(unix.AT_FDCWD, path, unix.W_OK, unix.AT_EACCESS)
	if err == unix.ENOSYS || err == unix.EPERM { // before Linux 5.8, or filtered
		err = unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK, 0)
	}
	return err
}

// IsTerminal says whether fd is one.
func IsTerminal(fd int) bool {
	_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	return err == nil
}

// InForeground says whether this process is in the foreground of the terminal fd. On one that isn't its
// controlling terminal (ENOTTY) there is no background.
func InForeground(fd int) bool {
	pgrp, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err != nil || pgrp == unix.Getpgrp()
}

// LineMode says that a terminal gives lines, and echoes: nobody reads keys or a password there.
func LineMode(t *unix.Termios) bool {
	const both = unix.ICANON | unix.ECHO
	return t.Lflag&both == both
}

// PIDOf is the number of a process in our pid namespace, 0 when it is gone.
func PIDOf(pidfd int) int {
	fd, err := unix.Open("/proc/self/fdinfo/"+strconv.Itoa(pidfd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	buf := make([]byte, 512)
	n, err := unix.Read(fd, buf)
	if err != nil {
		return 0
	}
	return parsePID(string(buf[:n]))
}

// parsePID reads the line "Pid:" of a pidfd's fdinfo; -1 there is a process that is gone.
func parsePID(fdinfo string) int {
	for line := range strings.SplitSeq(fdinfo, "\n") {
		if number, ok := strings.CutPrefix(line, "Pid:"); ok {
			pid, err := strconv.Atoi(strings.TrimSpace(number))
			if err != nil || pid < 0 {
				return 0
			}
			return pid
		}
	}
	return 0
}
