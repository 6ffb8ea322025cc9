package linux

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

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
