package serve

import (
	"net"

	"golang.org/x/sys/unix"
)

// peerUID is the user that connected; -1: the kernel doesn't say.
func peerUID(c *net.UnixConn) int {
	uid := -1
	raw, err := c.SyscallConn()
	if err != nil {
		return uid
	}
	_ = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			uid = int(cred.Uid)
		}
	})
	return uid
}
