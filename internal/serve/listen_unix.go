//go:build unix

package serve

import (
	"context"
	"net"
	"os"
	"syscall"
)

// listenUnix opens a socket that has its mode from the beginning: it is that of the descriptor when it gets its name.
func listenUnix(path string, mode os.FileMode) (net.Listener, error) {
	c := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		if failed := raw.Control(func(fd uintptr) { err = syscall.Fchmod(int(fd), uint32(mode)) }); failed != nil {
			return failed
		}
		return err
	}}
	return c.Listen(context.Background(), "unix", path)
}
