package supervisor

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// pidfdSignalProcessGroup is PIDFD_SIGNAL_PROCESS_GROUP, since Linux 6.9.
const pidfdSignalProcessGroup = 1 << 2

// signalGroup sends n to the process behind pidfd and to the process group that
// it was started in, as a terminal would. A target that has left that group for
// another gets the signal all the same.
func signalGroup(pidfd int, n unix.Signal) {
	pid := pidOf(pidfd) // as long as the process is there, its number is its own
	group := 0
	if pid > 0 {
		group, _ = unix.Getpgid(pid)
	}
	err := unix.PidfdSendSignal(pidfd, n, nil, pidfdSignalProcessGroup)
	if err == unix.EINVAL && group == pid && pid > 1 { // before Linux 6.9
		err = unix.Kill(-group, n)
	}
	if err != nil || group != pid || n == unix.SIGKILL {
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
