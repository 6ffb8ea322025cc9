package egress

import (
	"os/exec"
	"syscall"
	"testing"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/host"
)

func cookie(t *testing.T, fd int) uint64 {
	t.Helper()
	n, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err == unix.ENOPROTOOPT {
		t.Skip("needs Linux 5.14")
	}
	must(t, err)
	return n
}

func ownCookie(t *testing.T) uint64 {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	return cookie(t, fd)
}

func TestASocketIsMadeInAnotherNetworkNamespaceAndNoThreadStaysThere(t *testing.T) {
	for _, condition := range []string{"root", "program:sleep"} {
		if ok, err := host.Has(condition); err != nil {
			t.Fatal(err)
		} else if !ok {
			must(t, host.MustRun(condition))
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
		must(t, err)
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

// Where nothing can be entered, the init is asked.
func TestTheInitMakesSocketsWhereItsNetworkCanNotBeEntered(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(pair[1])
	go func() {
		var b [1]byte
		_, _ = unix.Read(pair[1], b[:])
		_ = unix.Sendmsg(pair[1], b[:], unix.UnixRights(pair[1]), nil, 0)
	}()
	null, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	must(t, err)
	d := dialers{fd: pair[0], init: netns.NsHandle(null)}
	defer d.close()
	fd, err := d.socket()
	if err != nil || d.init.IsOpen() {
		t.Fatalf("%v, still tries to enter: %v", err, d.init.IsOpen())
	}
	_ = unix.Close(fd)
}

func BenchmarkSocketIn(b *testing.B) {
	pidfd := -1
	c := exec.Command("sleep", "300")
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, PidFD: &pidfd}
	if err := c.Start(); err != nil {
		b.Skip(err)
	}
	defer func() { _ = c.Process.Kill(); _ = c.Wait(); _ = unix.Close(pidfd) }()
	for b.Loop() {
		fd, err := socketIn(netns.NsHandle(pidfd))
		must(b, err)
		_ = unix.Close(fd)
	}
}
