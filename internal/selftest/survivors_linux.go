package selftest

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// holders are the processes among whose words there is a token.
func holders(token string) (pids []int) {
	names, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, n := range names {
		pid, err := strconv.Atoi(n.Name())
		if err == nil && holds(pid, token) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func holds(pid int, token string) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	return err == nil && bytes.Contains(b, []byte("\x00"+token+"\x00")) && pid != os.Getpid()
}

// end kills them: what was looked at is what is hit.
func end(token string) {
	for _, pid := range holders(token) {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		if holds(pid, token) {
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		}
		_ = unix.Close(fd)
	}
}
