//go:build unix

package egress

import (
	"net"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// receive waits until there is something to read, and borrows a buffer only then, which has to be put back
// unless there is an error.
func receive(_ net.Conn, raw syscall.RawConn, from *sync.Pool, size, most int) (buf *[]byte, n int, err error) {
	failed := raw.Read(func(fd uintptr) bool {
		buf = lend(from, size)
		for {
			if n, err = unix.Read(int(fd), (*buf)[:most]); err != unix.EINTR {
				break
			}
		}
		if err != nil {
			from.Put(buf)
			buf = nil // or it would be kept while this waits
		}
		return err != unix.EAGAIN
	})
	if failed != nil {
		err = failed
	}
	return buf, n, err
}

// oobInline leaves urgent bytes (MSG_OOB) among the others: nobody is told of them here, and of a protocol that
// has them none would be missing.
func oobInline(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_OOBINLINE, 1) }
