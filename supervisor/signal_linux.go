package supervisor

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// pidfdSignalProcessGroup is PIDFD_SIGNAL_PROCESS_GROUP, since Linux 6.9.
const pidfdSignalProcessGroup = 1 << 2

// signalGroup sends n to the process group of the process behind pidfd, or, where
// that can't be, to the process alone.
func signalGroup(pidfd int, n unix.Signal) {
	err := unix.PidfdSendSignal(pidfd, n, nil, pidfdSignalProcessGroup)
	if err == unix.EINVAL {
		// An older kernel. As long as the process is there, its number is its own.
		if pid := pidOf(pidfd); pid > 0 {
			if group, err := unix.Getpgid(pid); err == nil && group > 1 && unix.Kill(-group, n) == nil {
				return
			}
		}
	}
	if err != nil {
		_ = unix.PidfdSendSignal(pidfd, n, nil, 0)
	}
}

// pidOf is the number of a process in our pid namespace, 0 when it is gone.
func pidOf(pidfd int) int {
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
