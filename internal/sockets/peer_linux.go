package sockets

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// peerUID is the user that connected; -1: the kernel doesn't say, or it is somebody in another PID namespace than this process,
// as everybody in a sandbox is: what reaches the socket from there isn't let in by the uid that it shares with the caller.
func peerUID(c *net.UnixConn) int {
	uid := -1
	raw, err := c.SyscallConn()
	if err != nil {
		return uid
	}
	_ = raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err != nil || cred.Pid <= 0 {
			return
		}
		// Numbers are used again, when who connected has ended and somebody else has the connection (Linux 6.5; before that nobody can tell).
		alive := func() bool { return true }
		if pidfd, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD); err == nil {
			defer unix.Close(pidfd)
			alive = func() bool { return unix.PidfdSendSignal(pidfd, 0, nil, 0) != unix.ESRCH }
		} else if err != unix.ENOPROTOOPT {
			return
		}
		if inSameNamespace(strconv.Itoa(int(cred.Pid))) && alive() {
			uid = int(cred.Uid)
		}
	})
	return uid
}

// inSameNamespace says whether a process is in this one's PID namespace. Of another user's that can't be read, but how many it is in:
// when both are in one alone, that is the same.
func inSameNamespace(pid string) bool {
	own, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return false
	}
	its, err := os.Readlink("/proc/" + pid + "/ns/pid")
	if err == nil {
		return its == own
	}
	return errors.Is(err, fs.ErrPermission) && namespaces("self") == 1 && namespaces(pid) == 1
}

// namespaces is how many PID namespaces a process is in, from that of /proc on; 0: that can't be told.
func namespaces(pid string) int {
	text, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if numbers, ok := strings.CutPrefix(line, "NSpid:"); ok {
			return len(strings.Fields(numbers))
		}
	}
	return 0
}

// listenerEnded says whether the process that began to listen on the other side of a connection is no more.
func listenerEnded(c net.Conn) (ended bool) {
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		ended = err == nil && cred.Pid > 0 && unix.Kill(int(cred.Pid), 0) == unix.ESRCH
	})
	return ended
}

// hungUp says whether the other side of a connection is gone for good: not only that it sends no more.
func hungUp(c syscall.Conn) (gone bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) {
		poll := []unix.PollFd{{Fd: int32(fd)}}
		n, err := unix.Poll(poll, 0)
		gone = err == nil && n > 0 && poll[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
	})
	return gone
}
