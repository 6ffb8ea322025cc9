package egress

import (
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// The init makes the sockets by which published ports are reached; without one there is an error.
func TestTheInitMakesTheSocketsOfPublishedPorts(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	server, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(t, err)
	defer server.Close()
	port := endpoint(server.Addr()).Port()
	go func() {
		var b [1]byte
		for {
			if n, _ := unix.Read(pair[1], b[:]); n == 0 {
				_ = unix.Close(pair[1])
				return
			}
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
			if err != nil {
				t.Error(err)
			}
			_ = unix.Sendmsg(pair[1], b[:], unix.UnixRights(fd), nil, 0)
			_ = unix.Close(fd)
		}
	}()
	f := os.NewFile(uintptr(pair[0]), "socket")
	asked, err := net.FileConn(f)
	must(t, err)
	must(t, f.Close())
	d := dialers{init: asked.(*net.UnixConn)}
	c, err := d.connect(port)
	must(t, err)
	defer c.Close()
	if to := c.remote(); to != endpoint(server.Addr()) {
		t.Errorf("it is connected to %v", to)
	}
	_ = server.Close()
	if _, err := d.connect(port); err != unix.ECONNREFUSED {
		t.Errorf("nobody listens: %v", err)
	}
	d.close()
	if _, err := d.connect(port); err == nil {
		t.Error("connected without an init")
	}
}
