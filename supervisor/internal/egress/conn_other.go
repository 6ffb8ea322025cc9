//go:build !unix

package egress

import (
	"io"
	"net"
	"sync"
	"syscall"
)

// receive reads into a buffer that is borrowed meanwhile, and has to be put back unless there is an error.
func receive(c net.Conn, _ syscall.RawConn, from *sync.Pool, size, most int) (buf *[]byte, n int, err error) {
	buf = lend(from, size)
	if n, err = c.Read((*buf)[:most]); err == io.EOF {
		err = nil
	}
	if err != nil {
		from.Put(buf)
		buf = nil
	}
	return buf, n, err
}

func oobInline(uintptr) {}
