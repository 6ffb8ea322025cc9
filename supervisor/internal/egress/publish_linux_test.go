package egress

import (
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/internal/must"
)

func cookie(t *testing.T, fd int) uint64 {
	t.Helper()
	n, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err == unix.ENOPROTOOPT {
		t.Skip("needs Linux 5.14")
	}
	must.Do(t, err)
	return n
}

func ownCookie(t *testing.T) uint64 {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must.Do(t, err)
	defer unix.Close(fd)
	return cookie(t, fd)
}

func TestASocketIsMadeInAnotherNetworkNamespaceAndNoThreadStaysThere(t *testing.T) {
	for _, condition := range []string{"root", "program:sleep"} {
		if ok, err := host.Has(condition); err != nil {
			t.Fatal(err)
		} else if !ok {
			must.Do(t, host.MustRun(condition))
			t.Skip("needs ", condition)
		}
	}
	pidfd := -1
	c := exec.Command("sleep", "300")
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, PidFD: &pidfd}
	if err := c.Start(); err != nil {
		t.Skip("no network namespace can be made: ", err)
	}
	defer func() { _ = c.Process.Kill(); _ = c.Wait(); _ = unix.Close(pidfd) }()
	own := ownCookie(t)
	for range 100 {
		fd, err := socketIn(netns.NsHandle(pidfd))
		must.Do(t, err)
		if got := cookie(t, fd); got == own {
			t.Fatal("the socket is of the own network namespace")
		}
		_ = unix.Close(fd)
		if ownCookie(t) != own {
			t.Fatal("a thread stayed in the other network namespace")
		}
	}
	_ = c.Process.Kill()
	_ = c.Wait()
	if fd, err := socketIn(netns.NsHandle(pidfd)); err == nil {
		t.Errorf("made socket %d in the network namespace of nobody", fd)
	}
}

// The init makes the sockets by which published ports are reached; without one there is an error.
func TestTheInitMakesTheSocketsOfPublishedPorts(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	must.Do(t, err)
	server, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must.Do(t, err)
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
	must.Do(t, err)
	must.Do(t, f.Close())
	null, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0) // no network namespace to be entered
	must.Do(t, err)
	d := dialers{init: asked.(*net.UnixConn), there: netns.NsHandle(null)}
	c, err := d.connect(port)
	must.Do(t, err)
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
