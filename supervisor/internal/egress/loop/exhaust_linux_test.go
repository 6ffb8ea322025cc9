package loop

import (
	"errors"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A name with many addresses where nobody answers takes no more descriptors than any other.
func TestDialTakesFewDescriptors(t *testing.T) {
	const waits = 4
	var list []netip.Addr
	port := blackhole(t, "127.1.1.1")
	for range waits {
		list = append(list, netip.MustParseAddr("127.1.1.1"))
	}
	x := started(t)
	var d Dialer
	ended := make(chan error, 1)
	open := func() int {
		all, err := os.ReadDir("/proc/self/fd")
		must(t, err)
		return len(all)
	}
	before, most := open(), 0
	x.Start(func() {
		_, err := x.Dial(&d, list, port, waits*headStart)
		ended <- err
	})
	for {
		select {
		case err := <-ended:
			if !errors.Is(err, unix.ETIMEDOUT) {
				t.Error(err)
			}
			if most-before > mostUnder {
				t.Errorf("%d descriptors", most-before)
			}
			return
		case <-time.After(headStart / 4): // only to look now and then
			most = max(most, open())
		}
	}
}

// Where nobody listens, a socket on the same host may be given just that port, and so be
// connected to itself: that would keep the port from who is to listen there.
func TestNobodyIsConnectedToHimself(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	must(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	at, err := unix.Getsockname(fd)
	must(t, err)
	if err := unix.Connect(fd, at); err != nil && err != unix.EINPROGRESS {
		t.Fatal(err)
	}
	x := started(t)
	x.in(func() {
		c, err := x.Adopt(fd)
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		if peer := c.RemoteAddr(); peer != AddrPort(at) {
			t.Errorf("this shows nothing: it is connected to %v", peer)
		}
		x.Yield() // its event comes
		if done, err := c.connected(); !done || err != unix.ECONNREFUSED {
			t.Errorf("%v, %v", done, err)
		}
	})
}
